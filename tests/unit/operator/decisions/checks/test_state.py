"""A job that failed because of its state starts again when a person has corrected the state."""

from __future__ import annotations

import pytest

from sparkapp.model import names
from sparkapp.model.report import AttemptOutcome, Termination
from tests.support.kubernetes.operator_fixture import FATAL, KEY, OperatorFixture

ROLLED_BACK = Termination(
    outcome=AttemptOutcome.FAILED, reason="StateRolledBack", message="checkpoint 10 is older than checkpoint 12",
    remedy="put the newest state back", fatal=True,
)  # fmt: skip


@pytest.fixture
async def operator_fixture() -> OperatorFixture:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    return operator_fixture


async def test_a_corrected_state_starts_the_job_again_without_a_change_of_the_resource(
    operator_fixture: OperatorFixture,
) -> None:
    operator_fixture.driver_ends(1, ROLLED_BACK)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "StateRolledBack")
    await operator_fixture.reconciler.reconcile(KEY)
    assert operator_fixture.queue._timers, "no watch reports a change of the state to the operator: it looks again"
    operator_fixture.wait(600)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"], "the same state"
    operator_fixture.checkpoint(1, 12)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_a_state_that_is_put_back_in_two_steps_starts_the_job_after_the_second_step(
    operator_fixture: OperatorFixture,
) -> None:
    operator_fixture.driver_ends(1, ROLLED_BACK)
    await operator_fixture.settle()
    state = operator_fixture.kubernetes.objects.pop(("ConfigMap", "team", names.state_config_map("orders")))
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "StateMissing")
    operator_fixture.kubernetes.objects["ConfigMap", "team", names.state_config_map("orders")] = state
    operator_fixture.checkpoint(1, 12)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_another_failure_is_not_retried_when_the_state_changes(operator_fixture: OperatorFixture) -> None:
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    operator_fixture.checkpoint(1, 12)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Failed"
    assert operator_fixture.drivers == ["orders-1-driver"]
