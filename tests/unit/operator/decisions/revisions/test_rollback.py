"""When a job goes back to its stable revision, and when it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.revisions.upgrade import IMAGE_SECONDS
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, UID, OperatorFixture
from tests.support.kubernetes.revision_steps import (
    AUTO,
    NEW,
    next_attempt,
    runs_old_image,
    stable,
    upgraded,
)


async def test_a_fatal_failure_of_a_new_revision_goes_back_once() -> None:
    operator = await stable()
    first = operator.status["stable"]["revision"]
    await upgraded(operator, **NEW)
    second = operator.status["attempt"]["revision"]
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert runs_old_image(operator, 3)
    assert operator.status["attempt"]["revision"] == first
    assert operator.status["attempt"]["startReason"] == "RolledBack"
    assert (operator.status["target"]["revision"], operator.status["target"]["cause"]) == (first, "RolledBack")
    assert (operator.refusal["revision"], operator.refusal["backTo"]) == (second, first)
    await operator.run(3)
    assert (operator.ready["status"], operator.ready["reason"]) == ("True", "RolledBack")
    stalled = operator.kubernetes.condition(KEY, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "RolledBack")
    for part in (first, second, "no module enrich"):
        assert part in stalled["message"]
    assert operator.kubernetes.events().count("RolledBack") >= 1
    operator.wait(3600)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"], "the refused revision is not tried again"


async def test_failures_of_a_job_that_has_gone_back_are_counted_and_have_pauses() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    for attempt in (3, 4, 5):
        await operator.run(attempt)
        operator.driver_ends(attempt, FAILED)
        await next_attempt(operator, 1)
        assert operator.drivers == [names.driver_pod(KEY.name, attempt)], "the next attempt waits"
        assert operator.status["restarts"]["consecutiveFailures"] == attempt - 2
        await next_attempt(operator, 300)
        assert operator.status["attempt"]["startReason"] == "Restarted"
        assert runs_old_image(operator, attempt + 1)


async def test_a_job_that_has_gone_back_may_fail_for_good() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    operator.driver_ends(3, FATAL)
    await next_attempt(operator, 3600)
    assert (operator.status["state"], operator.drivers) == ("Failed", ["orders-3-driver"])
    operator.kubernetes.edit_job(KEY, image="kafkaspark/sparkapp:3")
    await operator.settle()
    assert operator.drivers == ["orders-4-driver"], "a correction starts it"


async def test_a_failure_is_counted_before_the_job_goes_back() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    for attempt in (2, 3, 4):
        operator.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
        failed = replace(FAILED, reason="TransformFailed", message="division by zero")
        operator.driver_ends(attempt, failed)
        await next_attempt(operator)
        await next_attempt(operator, 30)
    assert runs_old_image(operator, 5)
    assert "division by zero" in operator.refusal["message"]


@pytest.mark.parametrize("policy", [{}, {"rollback": "Never"}])
async def test_a_job_stays_with_its_revision_by_default(policy: dict[str, str]) -> None:
    operator = await stable(upgrade=policy)
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await next_attempt(operator, 3600)
    assert operator.status["state"] == "Failed"
    assert operator.refusal == {}


@pytest.mark.parametrize("failure", [FAILED, None], ids=["Kafka", "a lost node"])
async def test_failures_from_outside_are_no_reason(failure: object) -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    for attempt in range(2, 8):
        if failure is None:
            operator.kubernetes.remove(("Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)))
        else:
            operator.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
            operator.driver_ends(attempt, failure)  # type: ignore[arg-type]
        await next_attempt(operator)
        await next_attempt(operator, 300)
    assert operator.refusal == {}
    assert operator.drivers == ["orders-8-driver"]
    assert not runs_old_image(operator, 8)


async def test_an_image_that_cannot_be_pulled_goes_back_after_a_minute() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    pod = operator.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
    for number, reason in enumerate(("ErrImagePull", "ImagePullBackOff", "ErrImagePull")):
        waiting = {"waiting": {"reason": reason, "message": "not found"}}
        pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": waiting}]}
        await next_attempt(operator, IMAGE_SECONDS / 3)
        assert (operator.refusal != {}) == (number == 2)
    await operator.settle()
    assert operator.refusal["reason"] == "ErrImagePull"
    assert runs_old_image(operator, 3)


async def test_a_revision_that_comes_no_further_goes_back_at_its_deadline() -> None:
    operator = await stable(upgrade={**AUTO, "progressDeadlineSeconds": 120})
    await upgraded(operator, **NEW)
    ends = operator.status["target"]["deadline"]
    operator.kubernetes.pod_runs("orders-2-driver", since=format_time(operator.now))
    operator.report(2, DriverState.RECOVERING)
    await next_attempt(operator, 119)
    assert operator.refusal == {}
    await next_attempt(operator, 2)
    assert format_time(operator.now) > ends
    assert operator.refusal["reason"] == "ProgressDeadlineExceeded"
    assert operator.status["attempt"]["stopReason"] == "Rollback"
    operator.driver_ends(2, DRAINED)
    await operator.settle()
    assert runs_old_image(operator, 3)
    assert "deadline" not in operator.status["target"]


async def test_a_stable_revision_is_never_taken_back() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    await operator.run(2)
    operator.wait(61)
    await operator.settle()
    second = operator.status["stable"]["revision"]
    assert second == operator.status["attempt"]["revision"]
    operator.driver_ends(2, FATAL)
    await next_attempt(operator, 60)
    assert operator.status["state"] == "Failed"
    assert operator.status["stable"]["revision"] == second


def drops_nothing(operator: OperatorFixture) -> None:
    operator.checkpoint(2, 12)


def has_new_fields(operator: OperatorFixture) -> None:
    rewrite(operator, finished=True, stopping="Latest")


def has_state(operator: OperatorFixture) -> None:
    rewrite(operator, engine_has_state=True)


def lost_its_revision(operator: OperatorFixture) -> None:
    operator.kubernetes.remove(("ConfigMap", KEY.namespace, operator.status["stable"]["revision"]))


def rewrite(operator: OperatorFixture, **fields: Any) -> None:
    """The new revision has written a document."""
    operator.checkpoint(2, 12)
    body = operator.kubernetes.objects["ConfigMap", KEY.namespace, "orders-state"]["data"]
    text = body[names.CHECKPOINT_KEY]
    body[names.CHECKPOINT_KEY] = encode(replace(decode(text, job_uid=UID), **fields))


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (drops_nothing, ""),
        (has_new_fields, "may not read the checkpoint document, which has new fields"),
        (has_state, "the state of its query has a checkpoint of the new revision"),
        (lost_its_revision, "its ConfigMap is gone"),
    ],
)
async def test_a_job_does_not_go_back_where_the_stable_revision_cannot_run(
    happens: Callable[[OperatorFixture], None], why: str
) -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    happens(operator)
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert ("RollbackRefused" in operator.kubernetes.events(warning=True)) == bool(why)
    if why:
        said = [body["message"] for body in operator.kubernetes.objects.values() if body["kind"] == "Event"]
        assert any(why in message for message in said)
        assert operator.status["state"] == "Failed"
    else:
        assert runs_old_image(operator, 3)


async def test_a_restore_is_not_taken_back() -> None:
    operator = await stable()
    await upgraded(operator, **NEW, restore={"nonce": 1, "checkpoint": 5})
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert operator.status["state"] == "Failed"
    assert "RollbackRefused" in operator.kubernetes.events()
