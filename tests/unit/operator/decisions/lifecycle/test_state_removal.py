"""``spec.deletion.state: Delete``: one more attempt of a deleted job removes its state, and nothing waits for ever."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.lifecycle.deletion import RETRY_SECONDS
from kafkasparkjob_operator.identity import FINALIZER
from sparkapp.model import names
from sparkapp.model.job.codec import decode_job
from sparkapp.model.job.spec import Job
from sparkapp.model.report import AttemptOutcome, Termination
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, UID, OperatorFixture, record_name

SECONDS = 100
SETTLED = Termination(outcome=AttemptOutcome.DRAINED, reason="Settled", message="1 committed", checkpoint_id=10)
REMOVED = Termination(outcome=AttemptOutcome.DRAINED, reason="StateRemoved", message="removed", checkpoint_id=11)
VOLUME = {"stateVolume": {"claimName": "orders-state"}}


def gone(operator: OperatorFixture) -> bool:
    return not operator.kubernetes.has_job(KEY)


def description(operator: OperatorFixture, attempt: int) -> Job:
    body = operator.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]
    return decode_job(body["data"][names.JOB_KEY])


async def drained(**spec: Any) -> OperatorFixture:
    """A job with state that is deleted, and has drained."""
    deletion = {"state": "Delete", "deadlineSeconds": SECONDS}
    operator = OperatorFixture(**{"deletion": deletion, "checkpoint": VOLUME, **spec})
    await operator.run()
    operator.kubernetes.delete_job(KEY)
    if not gone(operator):
        await operator.look(2)
        operator.checkpoint(1, 11, drained=True)
        operator.driver_ends(1, DRAINED)
        operator.kubernetes.kubelet()
        await operator.settle()
    return operator


@pytest.mark.parametrize("guarantee", ["ExactlyOnce", "AtLeastOnce"])
async def test_an_attempt_removes_the_state_of_a_job_that_has_drained(guarantee: str) -> None:
    operator = await drained(sink={"topic": "enriched", "deliveryGuarantee": guarantee})
    assert operator.drivers == ["orders-2-driver"]
    job = description(operator, 2)
    assert (job.settles_only, job.removes_state, job.spec.state_claim) == (True, True, "orders-state")
    operator.checkpoint(2, 11, drained=True)
    operator.driver_ends(2, REMOVED)
    await operator.settle()
    assert gone(operator)
    assert len(operator.kubernetes.messages("StateRemoved")) == 1
    assert operator.kubernetes.driver_attempts == [1, 2]


async def test_an_attempt_removes_state_in_an_object_store() -> None:
    operator = await drained(checkpoint={"state": {"storage": {"s3": {"bucket": "orders"}}}})
    job = description(operator, 2)
    assert job.spec.state_s3 is not None
    assert (job.settles_only, job.removes_state, job.spec.state_s3.bucket) == (True, True, "orders")


async def test_transactions_are_settled_before_the_state_is_removed() -> None:
    operator = OperatorFixture(deletion={"state": "Delete"}, checkpoint=VOLUME)
    await operator.run()
    operator.driver_ends(1, FAILED)
    await operator.settle()
    operator.kubernetes.delete_job(KEY)
    await operator.settle()
    assert not description(operator, 2).removes_state
    operator.checkpoint(2, 10, drained=True)
    operator.driver_ends(2, SETTLED)
    operator.kubernetes.kubelet()
    await operator.settle()
    assert len(operator.kubernetes.messages("TransactionsSettled")) == 1
    assert description(operator, 3).removes_state


@pytest.mark.parametrize(
    "spec",
    [{"deletion": {}}, {"checkpoint": {}}, {"deletion": {"state": "Retain"}}],
    ids=["default", "no-volume", "retain"],
)
async def test_state_that_is_kept_needs_no_attempt(spec: dict[str, Any]) -> None:
    operator = await drained(**spec)
    assert gone(operator)
    assert operator.kubernetes.driver_attempts == [1]


async def test_a_job_that_keeps_no_state_yet_is_gone_at_once() -> None:
    operator = OperatorFixture(deletion={"state": "Delete"}, checkpoint=VOLUME)
    await operator.look()
    assert FINALIZER in operator.kubernetes.job(KEY)["metadata"]["finalizers"]
    operator.kubernetes.delete_job(KEY)
    operator.kubernetes.kubelet()
    await operator.settle()
    operator.kubernetes.kubelet()
    await operator.settle()
    assert gone(operator)
    assert operator.kubernetes.driver_attempts == [1]


async def test_a_removal_that_fails_is_tried_again_until_the_deadline() -> None:
    operator = await drained()
    operator.driver_ends(2, FAILED)
    await operator.settle()
    operator.kubernetes.kubelet()
    operator.wait(RETRY_SECONDS + 1)
    await operator.settle()
    assert description(operator, 3).removes_state
    operator.wait(SECONDS + 1)
    await operator.look()
    assert gone(operator)
    [message] = operator.kubernetes.messages("StateNotRemoved")
    assert f"was not removed within {SECONDS} s" in message
    assert operator.kubernetes.events().count("TransactionsLeftOpen") == 0


async def test_a_removal_that_cannot_work_is_not_tried_again() -> None:
    operator = await drained()
    operator.driver_ends(2, FATAL)
    operator.kubernetes.kubelet()
    await operator.settle()
    assert gone(operator)
    [message] = operator.kubernetes.messages("StateNotRemoved")
    assert f"folder {UID} stays" in message
    assert operator.kubernetes.driver_attempts == [1, 2]


async def test_state_that_no_attempt_can_remove_is_named() -> None:
    operator = OperatorFixture(deletion={"state": "Delete"}, checkpoint=VOLUME)
    await operator.run()
    operator.kubernetes.edit_job(KEY, suspend=True)
    await operator.settle()
    operator.checkpoint(1, 11, drained=True)
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    operator.kubernetes.edit_job(KEY, sink={"topic": ""})
    operator.kubernetes.remove(("ConfigMap", KEY.namespace, record_name(1)))
    operator.kubernetes.delete_job(KEY)
    await operator.settle()
    assert gone(operator)
    [message] = operator.kubernetes.messages("StateNotRemoved")
    assert f"folder {UID} stays" in message
