"""What earlier specs have left open is settled, or told, whatever the resource says by the time of its deletion."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.lifecycle.deletion import EXPIRED_SECONDS
from kafkasparkjob_operator.identity import FINALIZER
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import FAILED, FATAL, KEY, OperatorFixture
from tests.support.kubernetes.revision_steps import ABORT, stable, times_out, upgraded
from tests.unit.operator.decisions.lifecycle.test_deletion import (
    NEVER,
    crashed,
    description,
    finalizers,
    gone,
    left_open,
)

AT_LEAST_ONCE = {"topic": "enriched", "deliveryGuarantee": "AtLeastOnce"}
SECONDS = 900
FINITE = {"topic": "enriched", "transactions": {"timeoutSeconds": SECONDS}}
EXPIRED = SECONDS + EXPIRED_SECONDS + 1
DRAIN = {"policy": "Drain"}
CHANGES = pytest.mark.parametrize("sink", [AT_LEAST_ONCE, FINITE], ids=["at-least-once", "seconds"])


async def deleted(operator: OperatorFixture, *, after: float = EXPIRED) -> None:
    operator.wait(after)
    operator.kubernetes.delete_job(KEY)
    await operator.settle()


async def is_let_go(operator: OperatorFixture, *attempts: int, after: float = EXPIRED) -> bool:
    """Whether a deletion of a held job starts no attempt behind these."""
    assert operator.kubernetes.job(KEY)["metadata"]["finalizers"]
    await deleted(operator, after=after)
    return gone(operator) and operator.kubernetes.driver_attempts == list(attempts)


def is_settled_by(operator: OperatorFixture, attempt: int) -> bool:
    return operator.drivers == [f"orders-{attempt}-driver"] and description(operator, attempt).settles_only


@CHANGES
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "unseen"])
async def test_a_change_ends_no_transaction_of_an_earlier_attempt(sink: dict[str, Any], is_seen: bool) -> None:
    operator = OperatorFixture(**NEVER)
    await crashed(operator, FAILED if is_seen else FATAL)
    if is_seen:
        operator.kubernetes.edit_job(KEY, suspend=True)
        await operator.settle()
        assert operator.status["state"] == "Suspended"
    operator.kubernetes.edit_job(KEY, sink=sink)
    if is_seen:
        await operator.settle()
    await deleted(operator)
    assert is_settled_by(operator, 2)


@pytest.mark.parametrize("how", ["unclaimed", "claimed", "claimed-often"])
async def test_an_attempt_that_has_not_recovered_has_settled_nothing(how: str) -> None:
    """It claims the state before it settles anything. Records of attempts before the last but one are deleted."""
    operator = OperatorFixture(**NEVER)
    await crashed(operator)
    operator.kubernetes.edit_job(KEY, sink=FINITE)
    last = 4 if how == "claimed-often" else 2
    for attempt in range(2, last + 1):
        operator.wait(60)
        await operator.settle()
        operator.kubernetes.pod_runs(f"orders-{attempt}-driver")
        operator.report(attempt, DriverState.RECOVERING)
        if how != "unclaimed":
            operator.checkpoint(attempt, 10)
        operator.driver_ends(attempt, FATAL if attempt == last else FAILED)
        await operator.settle()
    assert operator.status["state"] == "Failed"
    await deleted(operator)
    assert is_settled_by(operator, last + 1)


async def test_an_attempt_that_never_reports_leaves_the_word_to_the_attempt_before() -> None:
    """Its image is missing, for instance. The attempt of the state ran, and its time-out has passed."""
    operator = OperatorFixture(deletion=DRAIN, sink=FINITE)
    await crashed(operator)
    operator.kubernetes.edit_job(KEY, sink={**FINITE, "transactions": {"timeoutSeconds": 0}})
    operator.wait(5)
    await operator.settle()
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert await is_let_go(operator, 1, 2)


async def test_the_time_out_that_counts_is_that_of_the_attempt() -> None:
    operator = OperatorFixture(deletion=DRAIN, sink=FINITE)
    await crashed(operator, FATAL)
    operator.kubernetes.edit_job(KEY, sink={**FINITE, "transactions": {"timeoutSeconds": 60}}, suspend=True)
    await operator.settle()
    await deleted(operator, after=60 + EXPIRED_SECONDS + 1)
    assert is_settled_by(operator, 2)


async def test_an_attempt_that_ran_has_settled_what_had_no_time_out() -> None:
    operator = OperatorFixture(**NEVER)
    await crashed(operator)
    operator.kubernetes.edit_job(KEY, sink=FINITE, deletion=DRAIN)
    operator.wait(5)
    await operator.run(2)
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert await is_let_go(operator, 1, 2)


@pytest.mark.parametrize("seconds", [SECONDS, 0], ids=["seconds", "never"])
async def test_a_state_that_names_no_transaction_holds_nothing(seconds: int) -> None:
    """The present spec may have transactions; an attempt with them has not begun."""
    operator = OperatorFixture(sink=AT_LEAST_ONCE)
    await operator.run()
    operator.driver_ends(1, FATAL)
    await operator.settle()
    sink = {"deliveryGuarantee": "ExactlyOnce", "transactions": {"timeoutSeconds": seconds}}
    operator.kubernetes.edit_job(KEY, sink=sink, suspend=True, deletion=DRAIN)
    await operator.settle()
    assert await is_let_go(operator, 1, after=0)


@CHANGES
async def test_the_event_promises_no_time_out_that_no_attempt_had(sink: dict[str, Any]) -> None:
    operator = OperatorFixture(**NEVER)
    await crashed(operator)
    operator.kubernetes.edit_job(KEY, suspend=True, sink=sink)
    await operator.settle()
    await deleted(operator, after=0)
    await deleted(operator, after=301)
    assert gone(operator)
    (message,) = left_open(operator)
    assert "time-out" not in message


@CHANGES
async def test_a_suspended_job_tells_of_a_transaction_without_a_time_out(sink: dict[str, Any]) -> None:
    operator = OperatorFixture(**NEVER)
    await crashed(operator)
    operator.kubernetes.edit_job(KEY, suspend=True, sink=sink)
    await operator.settle()
    assert "readers until a person ends it: it may have no time-out. " in operator.status["message"]


async def gone_back(how: str, *, before: dict[str, Any], after: dict[str, Any]) -> OperatorFixture:
    """A job with another sink that runs the revision of before again."""
    if how == "Abort":
        operator = OperatorFixture(upgrade=ABORT, **before)
        await operator.run()
        await times_out(operator, **after)
        return operator
    operator = await stable(**before)
    await upgraded(operator, **after)
    await operator.run(2)
    operator.checkpoint(2, 12)
    operator.driver_ends(2, FATAL)
    await operator.look()
    await operator.run(3)
    return operator


@pytest.mark.parametrize(("how", "attempt"), [("Abort", 2), ("Auto", 3)])
async def test_a_job_that_has_gone_back_is_held_as_its_revision_needs_it(how: str, attempt: int) -> None:
    operator = await gone_back(how, before=NEVER, after={"sink": AT_LEAST_ONCE})
    assert "backTo" in operator.refusal
    assert finalizers(operator) == [FINALIZER]
    operator.checkpoint(attempt, 14)
    operator.driver_ends(attempt, FAILED)
    await operator.settle()
    await deleted(operator)
    assert is_settled_by(operator, attempt + 1)


async def test_a_job_that_goes_back_from_a_held_revision_is_held_until_that_is_settled() -> None:
    operator = await stable(sink=AT_LEAST_ONCE)
    assert finalizers(operator) == []
    await upgraded(operator, sink={**NEVER["sink"], "deliveryGuarantee": "ExactlyOnce"})
    await operator.run(2)
    operator.checkpoint(2, 12)
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert "backTo" in operator.refusal
    assert finalizers(operator) == [FINALIZER]
    await operator.run(3)
    assert finalizers(operator) == []


async def test_a_job_without_lasting_transactions_is_not_held_where_it_has_gone_back() -> None:
    operator = await stable()
    await upgraded(operator, image="kafkaspark/sparkapp:2")
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    assert "backTo" in operator.refusal
    assert finalizers(operator) == []
