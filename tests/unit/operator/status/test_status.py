"""The status under construction."""

from __future__ import annotations

import pytest

from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture


@pytest.mark.parametrize("successor", ["AfterStop", "Standby"])
async def test_the_selector_is_of_the_executors_that_work(successor: str) -> None:
    """What an autoscaler counts: with those of an attempt that stands by, each job would seem half idle."""
    operator_fixture = OperatorFixture(restartPolicy={"successor": successor})
    await operator_fixture.run(1)
    of_job = f"{names.LABEL_JOB}={KEY.name},{names.LABEL_ROLE}={names.ROLE_EXECUTOR}"
    assert operator_fixture.status["selector"] == f"{of_job},{names.LABEL_ATTEMPT}=1"


async def test_before_the_first_attempt_the_selector_is_of_all() -> None:
    operator_fixture = OperatorFixture(suspend=True)
    await operator_fixture.settle()
    assert (
        operator_fixture.status["selector"] == f"{names.LABEL_JOB}={KEY.name},{names.LABEL_ROLE}={names.ROLE_EXECUTOR}"
    )
