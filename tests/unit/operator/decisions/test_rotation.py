"""An attempt that drains because its Secrets have new content: the next attempt follows at once, in new pods."""

from __future__ import annotations

import pytest

from kafkasparkjob_operator.decisions.restarts import START_PERIOD_SECONDS
from kafkasparkjob_operator.decisions.standby import STANDBY_AFTER_SECONDS
from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, ROTATED, OperatorFixture

LIMITED = {"maxConsecutiveFailures": 1, "backoff": {"initialSeconds": 300}}


@pytest.fixture
async def operator_fixture() -> OperatorFixture:
    operator_fixture = OperatorFixture(restartPolicy=LIMITED)
    await operator_fixture.run(1)
    return operator_fixture


async def rotate(operator_fixture: OperatorFixture, attempt: int) -> None:
    operator_fixture.checkpoint(attempt, attempt * 10, drained=True)
    operator_fixture.driver_ends(attempt, ROTATED)
    await operator_fixture.settle()


async def test_the_next_attempt_starts_at_once_and_no_failure_is_counted(operator_fixture: OperatorFixture) -> None:
    await rotate(operator_fixture, 1)
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.kubernetes.events(warning=True) == []
    assert operator_fixture.status["restarts"] == {"total": 1, "lastReason": "CredentialsChanged"}
    assert "lastFailure" not in operator_fixture.status
    assert "attempt 1 drained because its Kafka Secrets have new content; the next attempt starts in 0 s" in [
        event["message"] for event in operator_fixture.kubernetes.objects.values() if event["kind"] == "Event"
    ]


async def test_the_status_says_so_while_the_driver_drains_and_while_its_pods_go(
    operator_fixture: OperatorFixture,
) -> None:
    operator_fixture.report(1, DriverState.DRAINING, checkpoint_id=10)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Running", "Draining")
    executor = operator_fixture.kubernetes.add_executor(KEY, 1)
    operator_fixture.driver_ends(1, ROTATED)
    await operator_fixture.look()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Restarting", "CredentialsChanged")
    operator_fixture.kubernetes.pod_ends(executor)
    operator_fixture.kubernetes.kubelet()
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_another_drain_of_a_young_attempt_is_followed_by_a_pause(operator_fixture: OperatorFixture) -> None:
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["reason"] == "Drained"


async def test_a_driver_that_always_says_so_starts_no_more_often_than_any_other(
    operator_fixture: OperatorFixture,
) -> None:
    """A termination message is untrusted, and a Secret may change all the time."""
    for attempt in (1, 2, 3):
        await rotate(operator_fixture, attempt)
        await operator_fixture.run(attempt + 1)
    await rotate(operator_fixture, 4)
    assert operator_fixture.drivers == ["orders-4-driver"]
    operator_fixture.wait(START_PERIOD_SECONDS)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-5-driver"]


async def test_earlier_failures_stay_counted() -> None:
    operator_fixture = OperatorFixture(restartPolicy={"maxConsecutiveFailures": 2, "backoff": {"initialSeconds": 1}})
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.run(2)
    await rotate(operator_fixture, 2)
    assert operator_fixture.status["restarts"]["consecutiveFailures"] == 1
    await operator_fixture.run(3)
    operator_fixture.driver_ends(3, FAILED)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "RestartLimitReached"


async def test_a_stop_that_the_operator_asked_for_meanwhile_keeps_its_reason(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    await rotate(operator_fixture, 1)
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["attempt"]["startReason"] == "Rescaled"
    assert operator_fixture.status["restarts"]["total"] == 0


@pytest.mark.parametrize("how", [ROTATED, DRAINED])
async def test_a_standby_whose_files_may_be_old_is_replaced(how: object) -> None:
    operator_fixture = OperatorFixture(restartPolicy={"successor": "Standby", "backoff": {"initialSeconds": 0}})
    await operator_fixture.run(1)
    operator_fixture.wait(STANDBY_AFTER_SECONDS)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    operator_fixture.kubernetes.pod_runs(names.driver_pod(KEY.name, 2))
    executor = operator_fixture.kubernetes.add_executor(KEY, 2)
    operator_fixture.driver_ends(1, how)  # type: ignore[arg-type]
    operator_fixture.kubernetes.kubelet()
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == (3 if how is ROTATED else 2)
    if how is DRAINED:
        return
    operator_fixture.driver_ends(2, DRAINED)
    operator_fixture.kubernetes.pod_ends(executor)
    operator_fixture.kubernetes.kubelet()
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-3-driver"]
    assert operator_fixture.status["attempt"]["id"] == 3
