"""The status under construction."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkasparkjob_operator.observation.observation import job_resource
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.status import JobState, StatusDraft
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import KEY, NOON, OperatorFixture, job_body


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


def status_after(status: dict[str, Any], *reasons: str, seconds: float) -> dict[str, Any]:
    body = job_body()
    body["metadata"] |= {"generation": 1, "resourceVersion": "1"}
    draft = StatusDraft(job_resource({**body, "status": status}), NOON + timedelta(seconds=seconds))
    for reason in reasons:
        draft.set_state(JobState.RUNNING, reason=reason, message="", phase=Phase.RUNNING)
    return draft.finish()


def test_the_time_of_a_reason_is_its_own() -> None:
    status = status_after({}, "InvalidSpec", seconds=0)
    assert status["reasonSince"] == "2026-11-21T12:00:00Z"
    status = status_after(status, "RescaleRequested", seconds=60)
    assert status["reasonSince"] == "2026-11-21T12:01:00Z"
    status = status_after(status, "Running", "RescaleRequested", seconds=90)
    assert status["reasonSince"] == "2026-11-21T12:01:00Z", "it has not changed in between"
    status = status_after(status, seconds=95)
    assert status["reasonSince"] == "2026-11-21T12:01:00Z"
    (ready,) = (each for each in status["conditions"] if each["type"] == "Ready")
    assert ready["lastTransitionTime"] == "2026-11-21T12:00:00Z", "it was not ready before, either"
