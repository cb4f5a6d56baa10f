"""``spec.deletion``: how a deleted job stops, and how long its resource waits, whatever the transactions' time-out."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.lifecycle.deletion import CANCEL_SECONDS, EXPIRED_SECONDS
from kafkasparkjob_operator.identity import FINALIZER
from sparkapp.model.report import AttemptOutcome, Termination
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, OperatorFixture

SETTLED = Termination(
    outcome=AttemptOutcome.DRAINED, reason="Settled", message="1 committed, 2 aborted", checkpoint_id=10
)
NEVER = {"topic": "enriched", "transactions": {"timeoutSeconds": 0}}
SECONDS = 100


def held(operator: OperatorFixture) -> bool:
    return FINALIZER in (operator.kubernetes.job(KEY)["metadata"].get("finalizers") or ())


def gone(operator: OperatorFixture) -> bool:
    return not operator.kubernetes.has_job(KEY)


def grace(operator: OperatorFixture) -> int:
    meta = operator.kubernetes.objects["Pod", KEY.namespace, "orders-1-driver"]["metadata"]
    return int(meta["deletionGracePeriodSeconds"])


async def until_gone(operator: OperatorFixture) -> None:
    for _ in range(10):
        operator.kubernetes.kubelet()
        if gone(operator):
            return
        await operator.look()
    assert gone(operator)


async def deleted(policy: str, **spec: Any) -> OperatorFixture:
    """A running job with a finite time-out is deleted."""
    operator = OperatorFixture(deletion={"policy": policy, "deadlineSeconds": SECONDS}, **spec)
    await operator.run()
    operator.kubernetes.delete_job(KEY)
    if not gone(operator):
        await operator.look(2)
    return operator


@pytest.mark.parametrize(("policy", "seconds"), [("Drain", 120), ("Cancel", CANCEL_SECONDS)])
async def test_a_running_job_stops_as_its_policy_says(policy: str, seconds: int) -> None:
    operator = await deleted(policy)
    assert held(operator)
    assert grace(operator) == seconds
    assert operator.status["state"] == "Deleting"
    operator.checkpoint(1, 11, drained=True)
    operator.driver_ends(1, DRAINED)
    await until_gone(operator)
    assert "TransactionsLeftOpen" not in operator.kubernetes.events()


async def test_a_cancelled_job_that_did_not_drain_is_settled_by_one_more_attempt() -> None:
    operator = await deleted("Cancel")
    operator.driver_ends(1, code=137)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    operator.checkpoint(2, 10, drained=True)
    operator.driver_ends(2, SETTLED)
    await until_gone(operator)
    assert "TransactionsSettled" in operator.kubernetes.events()


async def test_the_resource_waits_until_its_deadline_at_most() -> None:
    operator = await deleted("Cancel")
    operator.driver_ends(1, code=137)
    await operator.settle()
    operator.wait(SECONDS + 1)
    await operator.look()
    assert gone(operator)
    [message] = [
        body["message"] for body in operator.kubernetes.objects.values() if body.get("reason") == "TransactionsLeftOpen"
    ]
    assert f"within {SECONDS} s" in message
    assert "until their time-out" in message


async def test_the_administrators_limit_is_the_longest_wait() -> None:
    operator = OperatorFixture(deletion={"deadlineSeconds": 86400})
    operator.restart_operator(deletion_seconds=30)
    await operator.run()
    operator.kubernetes.delete_job(KEY)
    await operator.look(2)
    operator.wait(31)
    await operator.look()
    assert gone(operator)


@pytest.mark.parametrize("sink", [{"topic": "enriched"}, NEVER], ids=["seconds", "never"])
async def test_an_orphan_waits_for_nothing(sink: dict[str, Any]) -> None:
    operator = OperatorFixture(deletion={"policy": "Orphan"}, sink=sink)
    await operator.run()
    assert not held(operator)
    operator.kubernetes.delete_job(KEY)
    assert gone(operator)


async def test_a_policy_that_becomes_orphan_lets_go_at_once() -> None:
    operator = OperatorFixture(sink=NEVER)
    await operator.run()
    assert held(operator)
    operator.kubernetes.edit_job(KEY, deletion={"policy": "Orphan"})
    await operator.settle()
    assert not held(operator)
    assert operator.drivers == ["orders-1-driver"], "the policy is no change of the application"


async def test_transactions_that_their_time_out_has_ended_hold_nothing() -> None:
    sink = {"topic": "enriched", "transactions": {"timeoutSeconds": 60}}
    operator = OperatorFixture(deletion={"policy": "Drain"}, sink=sink)
    await operator.run()
    operator.kubernetes.edit_job(KEY, restartPolicy={"maxConsecutiveFailures": 1})
    await operator.settle()
    operator.driver_ends(1, FAILED)
    await operator.settle()
    assert operator.status["state"] == "Failed"
    assert held(operator)
    operator.wait(60 + EXPIRED_SECONDS + 1)
    operator.kubernetes.delete_job(KEY)
    await operator.look()
    assert gone(operator)
    assert operator.kubernetes.driver_attempts == [1]


async def test_a_job_without_transactions_is_not_held() -> None:
    sink = {"topic": "enriched", "deliveryGuarantee": "AtLeastOnce"}
    operator = OperatorFixture(deletion={"policy": "Drain"}, sink=sink)
    await operator.run()
    assert not held(operator)


async def test_a_change_of_the_policy_starts_no_finished_or_failed_job() -> None:
    operator = OperatorFixture(restartPolicy={"maxConsecutiveFailures": 1})
    await operator.run()
    operator.driver_ends(1, FAILED)
    await operator.settle()
    assert operator.status["state"] == "Failed"
    operator.kubernetes.edit_job(KEY, deletion={"policy": "Cancel"})
    await operator.settle()
    assert (operator.status["state"], operator.kubernetes.driver_attempts) == ("Failed", [1])
    assert held(operator)
