"""A change to another revision: how the attempt stops, when the revision is stable, and when it is late."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.revisions.upgrade import LAST_CHECKPOINT_SECONDS
from tests.support.kubernetes.operator_fixture import FINISHED, KEY, OperatorFixture
from tests.support.kubernetes.revision_steps import (
    AUTO,
    NEW,
    next_attempt,
    stable,
    upgraded,
)


async def test_a_revision_is_stable_after_a_time_with_a_checkpoint() -> None:
    operator = await stable(upgrade={"stableAfterSeconds": 60})
    found = operator.status["stable"]
    assert (found["generation"], found["checkpoint"], found["since"]) == (1, 10, format_time(operator.now))
    before = operator.status
    operator.wait(600)
    await operator.settle()
    assert operator.status["stable"] == before["stable"], "it is written once"


async def test_an_attempt_without_a_checkpoint_that_has_something_to_read_is_not_stable() -> None:
    operator = OperatorFixture()
    await operator.settle()
    operator.kubernetes.pod_runs("orders-1-driver")
    operator.report(1, lag_records=7)
    await operator.settle()
    operator.wait(600)
    await operator.settle()
    assert "stable" not in operator.status


@pytest.mark.parametrize("reason", ["Unschedulable", "running"])
async def test_a_deadline_without_a_fault_of_the_revision_is_an_event_alone(reason: str) -> None:
    operator = await stable(upgrade={**AUTO, "progressDeadlineSeconds": 120})
    await upgraded(operator, **NEW)
    if reason == "running":
        operator.kubernetes.pod_runs("orders-2-driver")
        operator.report(2, lag_records=7)
    else:
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
        operator.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]["status"] = {
            "phase": "Pending", "conditions": [waits],
        }  # fmt: skip
    await next_attempt(operator)
    await next_attempt(operator, 121)
    assert operator.refusal == {}
    assert "ProgressDeadlineExceeded" in operator.kubernetes.events(warning=True)


async def test_a_suspended_job_is_late_for_nothing() -> None:
    operator = await stable(upgrade={**AUTO, "progressDeadlineSeconds": 120})
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.kubernetes.edit_job(KEY, suspend=True)
    await operator.settle()
    operator.driver_ends(2, code=137)
    await operator.settle()
    await next_attempt(operator, 3600)
    assert (operator.status["state"], operator.refusal) == ("Suspended", {})


async def test_a_bounded_job_that_has_ended_is_late_for_nothing() -> None:
    operator = await stable(upgrade={**AUTO, "progressDeadlineSeconds": 120})
    await upgraded(operator, **NEW)
    operator.checkpoint(2, 12, drained=True, finished=True)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FINISHED)
    await operator.settle()
    await next_attempt(operator, 3600)
    assert (operator.status["state"], operator.refusal) == ("Finished", {})


@pytest.mark.parametrize(
    ("upgrade", "grace"),
    [({}, 120), ({"mode": "LastCheckpoint"}, LAST_CHECKPOINT_SECONDS), ({"drainTimeoutSeconds": 900}, 900)],
)
async def test_an_attempt_stops_as_the_mode_says(upgrade: dict[str, Any], grace: int) -> None:
    operator = await stable(upgrade=upgrade)
    operator.kubernetes.edit_job(KEY, **NEW)
    await operator.look(2)
    meta = operator.kubernetes.objects["Pod", KEY.namespace, "orders-1-driver"]["metadata"]
    assert meta["deletionGracePeriodSeconds"] == grace


async def test_a_suspension_drains_in_every_mode() -> None:
    operator = await stable(upgrade={"mode": "LastCheckpoint"})
    operator.kubernetes.edit_job(KEY, suspend=True)
    await operator.look(2)
    meta = operator.kubernetes.objects["Pod", KEY.namespace, "orders-1-driver"]["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 120
