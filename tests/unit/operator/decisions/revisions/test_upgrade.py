"""A change to another revision: how the attempt stops, when the revision is stable, and when the job goes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.controller.watches.code_watch import CodeWatch
from kafkasparkjob_operator.decisions.revisions.upgrade import IMAGE_SECONDS, LAST_CHECKPOINT_SECONDS
from kafkasparkjob_operator.workload import JobSettings
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, FINISHED, KEY, UID, OperatorFixture

AUTO = {"rollback": "Auto"}
ABORT = {"drainTimeoutSeconds": 30, "drainFallback": "Abort"}
NEW = {"image": "kafkaspark/sparkapp:2"}
CODE = {"python": {"function": "a:b", "configMapRef": {"name": "code"}}}


def put_code(operator: OperatorFixture, text: str, name: str = "code") -> None:
    operator.kubernetes.objects["ConfigMap", KEY.namespace, name] = {
        "kind": "ConfigMap", "metadata": {"name": name, "namespace": KEY.namespace, "resourceVersion": text},
        "data": {"a.py": text},
    }  # fmt: skip


async def stable(**spec: Any) -> OperatorFixture:
    """A job whose first revision has become stable."""
    operator = OperatorFixture(**{"upgrade": AUTO, **spec})
    await operator.run()
    assert "stable" not in operator.status
    operator.wait(61)
    await operator.settle()
    assert operator.status["stable"]["revision"] == operator.status["attempt"]["revision"]
    return operator


async def upgraded(operator: OperatorFixture, **edit: Any) -> None:
    """The resource changes, and the driver of the second attempt is created."""
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.checkpoint(1, 11, drained=True)
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]


async def next_attempt(operator: OperatorFixture, seconds: float = 0) -> None:
    operator.wait(seconds)
    await operator.settle()


def runs_old_image(operator: OperatorFixture, attempt: int) -> bool:
    pod = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return bool(pod["spec"]["containers"][0]["image"] == "kafkaspark/sparkapp:1")


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


async def test_a_job_that_has_gone_back_tries_the_change_where_its_status_is_lost() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    operator.driver_ends(3, FAILED)
    await next_attempt(operator, 1)
    await next_attempt(operator, 60)
    await operator.run(4)
    operator.kubernetes.job(KEY)["status"] = {}
    operator.restart_operator()
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "SpecChange", "nothing says that the change was refused"


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


@pytest.mark.parametrize(("edit", "tried"), [({"parallelism": 3}, False), ({"restartNonce": 1}, True)])
async def test_a_rescale_does_not_try_the_refused_revision_again_and_a_restart_does(
    edit: dict[str, Any], tried: bool
) -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.checkpoint(3, 12, drained=True)
    operator.driver_ends(3, DRAINED)
    await operator.settle()
    assert operator.status["parallelism"] == edit.get("parallelism", 2)
    assert runs_old_image(operator, 4) is not tried
    assert (operator.refusal == {}) is tried
    assert len(operator.status["refused"]) == 1, "it stays as history"


async def gone_back(operator: OperatorFixture) -> None:
    """The second attempt fails, and the third runs the revision of before."""
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    assert runs_old_image(operator, 3)
    assert "backTo" in operator.refusal


@pytest.mark.parametrize("nonce", [0, 1])
async def test_a_refusal_without_a_digest_ends_with_another_restart_nonce(nonce: int) -> None:
    """An operator of before has written it, or the CustomResourceDefinition is of before and drops the digest."""
    operator = await stable(restartNonce=nonce)
    await upgraded(operator, **NEW)
    await gone_back(operator)
    del operator.refusal["request"]
    await next_attempt(operator, 60)
    assert "backTo" in operator.refusal
    assert operator.refusal.get("restartNonce", 0) == nonce, "what an operator of before has written, too"
    operator.kubernetes.edit_job(KEY, restartNonce=nonce + 1)
    await operator.settle()
    operator.driver_ends(3, DRAINED)
    await operator.settle()
    assert operator.refusal == {}
    assert not runs_old_image(operator, 4)


async def test_an_attempt_that_went_back_has_its_generation_when_a_change_is_refused() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    await gone_back(operator)
    operator.kubernetes.edit_job(KEY, transform=CODE)
    await operator.settle()
    assert operator.refusal["reason"] == "CodeMissing"
    assert "attempt 3 continues with generation 1:" in operator.refusal["message"]
    for attempt in (3, 4):
        await operator.run(attempt)
        assert operator.status["attempt"]["generation"] == 1
        operator.driver_ends(attempt, FAILED)
        await next_attempt(operator, 1)
        assert operator.drivers == [names.driver_pod(KEY.name, attempt)], "the next attempt waits"
        assert operator.status["restarts"]["consecutiveFailures"] == attempt - 2
        await next_attempt(operator, 300)


async def test_a_stable_revision_has_its_generation_and_not_that_of_a_refused_change() -> None:
    operator = OperatorFixture(upgrade=ABORT)
    await operator.run()
    await times_out(operator, **NEW)
    await next_attempt(operator, 61)
    assert operator.status["stable"]["revision"] == operator.refusal["backTo"]
    assert operator.status["stable"]["generation"] == 1


async def gone_back_from_default_image() -> OperatorFixture:
    """A job without an image, whose new default image has failed."""
    operator = OperatorFixture(upgrade=AUTO)
    del operator.kubernetes.job(KEY)["spec"]["image"]
    operator.restart_operator(settings=JobSettings(default_image="kafkaspark/sparkapp:1"))
    await operator.run()
    await next_attempt(operator, 61)
    operator.restart_operator(settings=JobSettings(default_image="kafkaspark/sparkapp:2"))
    await upgraded(operator, restartNonce=1)
    await gone_back(operator)
    return operator


@pytest.mark.parametrize("edit", [{"upgrade": {**AUTO, "drainTimeoutSeconds": 77}}, {"restartNonce": 2}])
async def test_a_default_image_that_is_refused_is_tried_again_when_it_is_asked_for(edit: dict[str, Any]) -> None:
    operator = await gone_back_from_default_image()
    operator.kubernetes.edit_job(KEY, parallelism=3)
    await operator.settle()
    operator.driver_ends(3, DRAINED)
    await operator.run(4)
    assert runs_old_image(operator, 4), "a rescale asks for nothing"
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    assert operator.refusal == {}
    assert operator.status["attempt"]["stopReason"] == "SpecChange"
    operator.driver_ends(4, DRAINED)
    await operator.run(5)
    assert not runs_old_image(operator, 5)


async def test_a_default_image_that_fails_while_it_is_prepared_again_is_refused_again() -> None:
    operator = await gone_back_from_default_image()
    second = operator.refusal["revision"]
    operator.kubernetes.edit_job(KEY, upgrade={"strategy": "BlueGreen"})
    await operator.settle()
    assert operator.refusal == {}
    assert operator.drivers == ["orders-3-driver", "orders-4-driver"]
    assert operator.status["target"]["revision"] == second
    operator.kubernetes.pod_runs("orders-4-driver")
    operator.driver_ends(4, FATAL)
    await operator.settle()
    await next_attempt(operator, 60)
    assert operator.refusal["revision"] == second
    assert "attempt 3 continues with generation 1:" in operator.refusal["message"]
    assert "stopReason" not in operator.status["attempt"]


async def test_code_that_fails_goes_back_to_its_copy_and_corrected_code_is_tried() -> None:
    operator = OperatorFixture(upgrade=AUTO, transform=CODE)
    put_code(operator, "good")
    await operator.run()
    operator.wait(61)
    await operator.settle()
    put_code(operator, "bad")
    await operator.settle()
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)

    def code_of(attempt: int) -> str:
        pod = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
        name = next(each["configMap"]["name"] for each in pod["spec"]["volumes"] if each["name"] == "code")
        return str(operator.kubernetes.objects["ConfigMap", KEY.namespace, name]["data"]["a.py"])

    assert code_of(3) == "good"
    operator.wait(20)
    await operator.settle()
    assert operator.ready["reason"] == "RolledBack"
    put_code(operator, "better")
    await operator.settle()
    operator.driver_ends(3, DRAINED)
    await operator.settle()
    assert code_of(4) == "better"
    assert operator.refusal == {}


async def test_corrected_code_under_another_name_than_the_stable_revisions_is_tried() -> None:
    operator = OperatorFixture(upgrade=AUTO, transform=CODE)
    put_code(operator, "good")
    put_code(operator, "bad", name="next")
    await operator.run()
    await next_attempt(operator, 61)
    await upgraded(operator, transform={"python": {"function": "a:b", "configMapRef": {"name": "next"}}})
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    await next_attempt(operator, 20)
    assert operator.ready["reason"] == "RolledBack"
    put_code(operator, "better", name="next")
    await CodeWatch(operator.kubernetes, operator.cache, operator.queue).look()
    await operator.settle()
    assert operator.refusal == {}
    assert operator.status["attempt"]["stopReason"] == "SpecChange"


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


@pytest.mark.parametrize("fallback", ["LastCheckpoint", "Abort"])
async def test_a_drain_that_does_not_end_in_time(fallback: str) -> None:
    operator = await stable(upgrade={"drainTimeoutSeconds": 30, "drainFallback": fallback})
    operator.kubernetes.edit_job(KEY, **NEW)
    await operator.settle()
    operator.driver_ends(1, code=137)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    assert runs_old_image(operator, 2) is (fallback == "Abort")
    if fallback == "Abort":
        assert operator.refusal["reason"] == "DrainTimedOut"
        await operator.run(2)
        assert operator.ready["reason"] == "RolledBack"
        operator.wait(600)
        await operator.settle()
        assert operator.drivers == ["orders-2-driver"]


async def times_out(operator: OperatorFixture, **edit: Any) -> None:
    """The resource changes, and the first attempt does not drain in time."""
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.driver_ends(1, code=137)
    await operator.settle()
    await operator.run(2)
    assert operator.drivers == ["orders-2-driver"]


def pasted(message: str) -> dict[str, Any]:
    """``spec.upgrade`` of the command at the end of a message."""
    command, found, text = message.rpartition("kubectl patch ksj orders -n team --type merge -p ")
    assert found, command
    return dict(json.loads(text.strip("'"))["spec"]["upgrade"])


@pytest.mark.parametrize("remedy", [{"drainTimeoutSeconds": 600}, {"mode": "LastCheckpoint"}, None])
async def test_what_the_refusal_of_a_timed_out_drain_asks_for_tries_the_change_again(
    remedy: dict[str, Any] | None,
) -> None:
    operator = await stable(upgrade=ABORT)
    await times_out(operator, **NEW)
    assert operator.refusal["reason"] == "DrainTimedOut"
    operator.kubernetes.edit_job(KEY, upgrade={**ABORT, **(remedy or pasted(operator.refusal["message"]))})
    await operator.settle()
    assert operator.refusal == {}
    assert operator.status["attempt"]["stopReason"] == "SpecChange"
    operator.driver_ends(2, DRAINED if remedy == {"drainTimeoutSeconds": 600} else None, code=137)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert not runs_old_image(operator, 3)


async def test_a_change_that_is_tried_again_may_be_refused_again() -> None:
    operator = await stable(upgrade=ABORT)
    await times_out(operator, **NEW)
    operator.kubernetes.edit_job(KEY, upgrade={**ABORT, "drainTimeoutSeconds": 60})
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "SpecChange"
    operator.driver_ends(2, code=137)
    await operator.run(3)
    assert (operator.refusal["reason"], operator.refusal["generation"]) == ("DrainTimedOut", 3)
    assert runs_old_image(operator, 3)


@pytest.mark.parametrize("edit", [{"upgrade": {**ABORT, "rollback": "Never"}}, {"deletion": {"policy": "Cancel"}}])
async def test_a_default_that_is_written_down_and_another_policy_try_nothing_again(edit: dict[str, Any]) -> None:
    operator = await stable(upgrade=ABORT)
    await times_out(operator, **NEW)
    operator.kubernetes.edit_job(KEY, **edit)
    await next_attempt(operator, 60)
    assert operator.refusal["reason"] == "DrainTimedOut"
    assert "stopReason" not in operator.status["attempt"]


@pytest.mark.parametrize("is_stable", [True, False])
@pytest.mark.parametrize("edit", [{"parallelism": 4}, {"restartNonce": 1}, {"restore": {"nonce": 1, "checkpoint": 10}}])
async def test_a_timed_out_drain_for_the_same_revision_refuses_nothing(edit: dict[str, Any], is_stable: bool) -> None:
    operator = OperatorFixture(upgrade=ABORT)
    await operator.run()
    if is_stable:
        await next_attempt(operator, 61)
    await times_out(operator, **edit)
    assert operator.refusal == {}
    assert (operator.ready["reason"], operator.kubernetes.condition(KEY, "Stalled")["status"]) == ("Running", "False")
    assert operator.status["parallelism"] == edit.get("parallelism", 2)
    assert "NotDrained" in operator.kubernetes.events(warning=True)
    await next_attempt(operator, 3600)
    assert "stopReason" not in operator.status["attempt"], "it is done"
    operator.kubernetes.edit_job(KEY, parallelism=3)
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "Rescale"


@pytest.mark.parametrize("is_stable", [True, False])
async def test_the_revision_of_before_has_the_requests_of_a_refused_change(is_stable: bool) -> None:
    operator = OperatorFixture(upgrade=ABORT)
    await operator.run()
    if is_stable:
        await next_attempt(operator, 61)
    await times_out(operator, **NEW, parallelism=4, restartNonce=1)
    assert operator.refusal["reason"] == "DrainTimedOut"
    assert runs_old_image(operator, 2)
    assert operator.status["parallelism"] == 4
    await next_attempt(operator, 61)
    await next_attempt(operator, 3600)
    assert "stopReason" not in operator.status["attempt"], "it has them already"
    operator.kubernetes.edit_job(KEY, parallelism=3)
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "Rescale"


@pytest.mark.parametrize("is_stable", [True, False])
async def test_modules_whose_drain_has_timed_out_do_not_start(is_stable: bool) -> None:
    operator = OperatorFixture(upgrade=ABORT, transform=CODE)
    put_code(operator, "old")
    await operator.run()
    if is_stable:
        await next_attempt(operator, 61)
    put_code(operator, "new")
    await CodeWatch(operator.kubernetes, operator.cache, operator.queue).look()
    await times_out(operator)
    assert operator.refusal["reason"] == "DrainTimedOut"
    assert operator.status["attempt"]["revision"] == operator.refusal["backTo"]


async def test_five_refusals_are_kept() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    attempt = 2
    for number in range(3, 9):
        operator.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
        operator.driver_ends(attempt, FATAL)
        await operator.run(attempt + 1)
        operator.kubernetes.edit_job(KEY, image=f"kafkaspark/sparkapp:{number}")
        await operator.settle()
        operator.driver_ends(attempt + 1, DRAINED)
        await operator.settle()
        attempt += 2
    assert len(operator.status["refused"]) == 5
    assert len({each["revision"] for each in operator.status["refused"]}) == 5
