"""The autoscaler and refusals: of a decision whose standby driver fails, and of a revision while the job is scaled."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.standby import STANDBY_AGAIN_SECONDS
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY
from tests.support.kubernetes.revision_steps import NEW, runs_old_image
from tests.support.kubernetes.scaled_job import CALM, MORE, POLICY, Job

HOWS: tuple[dict[str, Any], ...] = (
    {"restartPolicy": {"successor": "BeforeStop"}},
    {"upgrade": {"strategy": "BlueGreen"}},
)
PREPARED = pytest.mark.parametrize("how", HOWS, ids=["BeforeStop", "BlueGreen"])


async def grown(how: dict[str, Any], ended: Any) -> Job:
    """The standby driver for the decided parallelism 8 has failed, and the attempt runs with 2."""
    job = await Job(in_place=False, **how).start()
    for number in (1, 2):
        job.fixture.kubernetes.add_executor(KEY, 1, number)
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    begun(job, 2)
    job.fixture.driver_ends(2, ended)
    await job.sees(MORE, 1)
    return job


def begun(job: Job, attempt: int) -> None:
    """The standby driver runs, and Kubernetes has created it now."""
    name = names.driver_pod(KEY.name, attempt)
    job.fixture.kubernetes.pod_runs(name)
    pod = job.fixture.kubernetes.objects["Pod", KEY.namespace, name]
    pod["metadata"]["creationTimestamp"] = format_time(job.fixture.now)


def is_refused(job: Job) -> bool:
    stalled = job.fixture.kubernetes.condition(KEY, "Stalled")
    told = "parallelism 8 is refused, and attempt 1 continues with parallelism 2" in stalled["message"]
    return stalled["reason"] == "RevisionRefused" and job.fixture.ready["status"] == "True" and told


@PREPARED
async def test_a_decision_that_no_restart_helps_is_tried_once(how: dict[str, Any]) -> None:
    job = await grown(how, FATAL)
    for _ in range(40):
        assert is_refused(job)
        await job.sees(MORE, 14)
    assert job.fixture.kubernetes.driver_attempts == [1, 2]
    assert len(job.fixture.status["refused"]) == 1
    assert job.fixture.kubernetes.events().count("RevisionRefused") == 1
    assert job.fixture.status["target"]["parallelism"] == 2


@PREPARED
async def test_a_decision_that_a_restart_may_help_is_tried_again_after_a_pause(how: dict[str, Any]) -> None:
    job = await grown(how, FAILED)
    for _ in range(10):
        await job.sees(MORE, (STANDBY_AGAIN_SECONDS - 2) / 10)
        assert is_refused(job)
    assert job.fixture.kubernetes.driver_attempts == [1, 2]
    job.fixture.wait(2)
    job.fixture.report(1, load=MORE)
    await job.fixture.look(2)
    assert job.fixture.kubernetes.driver_attempts == [1, 2, 3]
    begun(job, 3)
    await job.sees(MORE, 11)
    assert is_refused(job), "it stays refused until the driver is prepared"
    job.fixture.driver_ends(3, FAILED)
    for _ in range(10):
        await job.sees(MORE, 14)
    assert job.fixture.kubernetes.driver_attempts == [1, 2, 3]
    assert len(job.fixture.status["refused"]) == 1


@PREPARED
async def test_another_parallelism_than_the_refused_is_tried_at_once(how: dict[str, Any]) -> None:
    job = await grown(how, FATAL)
    job.fixture.kubernetes.edit_job(KEY, parallelism=4)
    await job.sees(MORE, 1)
    assert job.fixture.refusal == {}
    await job.sees(MORE, 11)
    assert job.fixture.kubernetes.driver_attempts == [1, 2, 3]


@PREPARED
async def test_a_decision_that_is_taken_back_is_not_refused_any_more(how: dict[str, Any]) -> None:
    job = await grown(how, FATAL)
    job.fixture.kubernetes.edit_job(KEY, autoscaler=None)
    await job.sees(MORE, 1)
    assert job.fixture.refusal == {}
    assert job.fixture.status["reason"] == "Running"


@PREPARED
@pytest.mark.parametrize(
    ("edit", "again"),
    [
        ({"ttlSecondsAfterFinished": 60}, False),
        ({"snapshots": {"intervalSeconds": 3600}}, False),
        ({"restartNonce": 1}, True),
        ({"upgrade": {"drainTimeoutSeconds": 77}}, True),
    ],
)
async def test_an_edit_that_asks_for_nothing_else_tries_nothing_again(
    how: dict[str, Any], edit: dict[str, Any], again: bool
) -> None:
    job = await grown(how, FATAL)
    edit = {name: {**how.get(name, {}), **value} if isinstance(value, dict) else value for name, value in edit.items()}
    job.fixture.kubernetes.edit_job(KEY, **edit)
    for _ in range(3):
        await job.sees(MORE, 11)
    assert (job.fixture.kubernetes.driver_attempts == [1, 2, 3]) is again
    assert (job.fixture.refusal == {}) is again


async def refused_revision(how: dict[str, Any], *, in_place: bool = True) -> Job:
    """Attempt 1 runs with two subtasks, and the image of the new revision cannot be pulled."""
    job = await Job(in_place=in_place, **how).start()
    for number in (1, 2):
        job.fixture.kubernetes.add_executor(KEY, 1, number)
    await job.sees(CALM, 60)
    job.fixture.kubernetes.edit_job(KEY, **NEW)
    await job.sees(CALM, 1)
    cannot_be_pulled(job)
    await job.sees(CALM, 1)
    assert job.fixture.ready["reason"] == "RevisionRefused"
    return job


def cannot_be_pulled(job: Job) -> None:
    """Of each standby driver."""
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    for name in job.fixture.drivers[1:]:
        pod = job.fixture.kubernetes.objects["Pod", KEY.namespace, name]
        pod["spec"]["nodeName"] = "node"
        pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": names.DRIVER_CONTAINER, "state": waiting}]}


@PREPARED
async def test_the_autoscaler_scales_what_runs_while_a_revision_is_refused(how: dict[str, Any]) -> None:
    job = await refused_revision(how)
    refused = job.fixture.refusal
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    assert job.asked == "8"
    assert job.fixture.status["target"]["parallelism"] == 8
    cannot_be_pulled(job)
    await job.follows(8)
    cannot_be_pulled(job)
    await job.sees(MORE, 1, rescaling=8)
    assert job.fixture.status["parallelism"] == 8
    assert (job.scaling["reason"], job.events) == ("Stabilizing", ["ScalingUp"])
    assert job.fixture.ready["reason"] == "RevisionRefused"
    assert job.fixture.refusal == refused, "it stands, and nothing of it was tried again"
    assert job.fixture.status["attempt"]["generation"] == 1


@PREPARED
async def test_a_refused_revision_follows_when_its_image_exists(how: dict[str, Any]) -> None:
    job = await refused_revision(how)
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    await job.follows(8)
    last = job.fixture.kubernetes.driver_attempts[-1]
    job.fixture.kubernetes.pod_runs(names.driver_pod(KEY.name, last))
    await job.sees(MORE, 1, rescaling=8)
    job.fixture.kubernetes.set_data(KEY, names.report_config_map(KEY.name), names.PREPARED_KEY, str(last))
    await job.fixture.settle()
    assert job.fixture.status["attempt"]["stopReason"] == "SpecChange"


@PREPARED
async def test_kubectl_scale_works_while_a_revision_is_refused(how: dict[str, Any]) -> None:
    job = await refused_revision(how)
    job.fixture.kubernetes.edit_job(KEY, parallelism=4, autoscaler=None)
    await job.sees(CALM, 1)
    cannot_be_pulled(job)
    await job.sees(CALM, 1)
    assert job.asked == "4"
    job.runs = 4
    await job.sees(CALM, 1, rescaling=4)
    assert job.fixture.status["parallelism"] == 4
    assert job.fixture.refusal["reason"] == "ImagePullBackOff"


async def test_an_attempt_that_cannot_rescale_in_place_is_replaced_by_its_revision() -> None:
    job = await refused_revision({"restartPolicy": {"successor": "BeforeStop"}}, in_place=False)
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    assert job.fixture.status["attempt"]["stopReason"] == "Rescale"
    job.fixture.checkpoint(1, 11, drained=True)
    job.fixture.driver_ends(1, DRAINED)
    for pod in job.fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        job.fixture.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))
    for _ in range(3):
        job.fixture.kubernetes.kubelet()
        await job.fixture.settle()
    number = job.fixture.status["attempt"]["id"]
    assert (number, job.fixture.status["parallelism"]) == (3, 8)
    assert runs_old_image(job.fixture, number)
    assert job.fixture.status["attempt"]["generation"] == 1
    assert job.fixture.refusal["reason"] == "ImagePullBackOff"


async def test_a_growth_by_hand_without_room_is_the_autoscalers() -> None:
    job = await Job().start()
    for number in (1, 2):
        job.fixture.kubernetes.add_executor(KEY, 1, number)
    await job.sees(CALM, 60)
    job.fixture.kubernetes.edit_job(KEY, parallelism=6)
    await job.sees(CALM)
    for _ in range(12):
        await job.sees(CALM, 60, rescaling=int(job.asked or 0), executors_refused="exceeded quota")
    assert job.asked == "2"
    for _ in range(4):
        await job.sees(CALM, 30, rescaling=2)
    assert job.scaling["reason"] == "Balanced", "the autoscaler continues from what runs"
    assert (job.scaling["noRoomParallelism"], job.scaling["parallelism"]) == (3, 2)
    assert job.events == ["ScalingBlocked"]
    assert job.fixture.refusal == {}
    assert (job.fixture.ready["status"], job.fixture.ready["reason"]) == ("True", "Running")


async def test_a_growth_that_names_no_cause_is_not_asked_for_again_and_again() -> None:
    job = await Job().start()
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    asked = []
    for _ in range(30):
        await job.sees(MORE, 60, rescaling=int(job.asked or 0))
        asked.append(job.asked)
    assert asked == ["8"] * 9 + ["2"] * 21
    assert "refused" not in job.fixture.status
    assert job.scaling["reason"] == "NoRoom"


async def test_an_autoscaler_that_only_tells_refuses_a_growth_by_hand_without_room() -> None:
    job = await Job(autoscaler={**POLICY, "dryRun": True}).start()
    job.fixture.kubernetes.edit_job(KEY, parallelism=6)
    await job.sees(CALM)
    for _ in range(12):
        await job.sees(CALM, 60, rescaling=6)
    await job.sees(CALM, 60, rescaling=2)
    assert job.fixture.refusal["reason"] == "RescaleWithdrawn"
    assert job.scaling["reason"] == "Refused", "and not Rescaling"
    assert "parallelism 6 is refused" in job.scaling["message"]
    assert "parallelism" not in job.scaling


@PREPARED
async def test_the_finding_of_a_refused_decision_claims_no_change(how: dict[str, Any]) -> None:
    job = await grown(how, FATAL)
    await job.sees(MORE, 30)
    assert job.scaling["reason"] == "Refused"
    assert "parallelism 8 is refused" in job.scaling["message"]
    assert "effectiveSince" not in job.scaling


def failed_three_times(job: Job) -> None:
    """Before the attempt that works: its failures are forgotten after ``resetAfterSeconds``."""
    status = job.fixture.kubernetes.job(KEY)["status"]
    status["restarts"] = {
        **status.get("restarts", {}),
        "consecutiveFailures": 3,
        "total": 3,
        "lastReason": "KafkaUnavailable",
    }


@PREPARED
@pytest.mark.parametrize("by_hand", [True, False])
async def test_earlier_failures_do_not_let_a_refused_revision_replace_what_works(
    how: dict[str, Any], by_hand: bool
) -> None:
    job = await refused_revision(how)
    failed_three_times(job)
    if by_hand:
        job.fixture.kubernetes.edit_job(KEY, parallelism=4, autoscaler=None)
    for seconds in (60, 30):
        await job.sees(CALM if by_hand else MORE, seconds)
    assert "stopReason" not in job.fixture.status["attempt"]
    assert job.asked == ("4" if by_hand else "8")


async def test_earlier_failures_do_not_start_a_refused_revision_behind_a_rescale() -> None:
    job = await refused_revision({"restartPolicy": {"successor": "BeforeStop"}}, in_place=False)
    failed_three_times(job)
    await job.sees(MORE, 60)
    await job.sees(MORE, 30)
    assert job.fixture.status["attempt"]["stopReason"] == "Rescale"
    job.fixture.checkpoint(1, 11, drained=True)
    job.fixture.driver_ends(1, DRAINED)
    for pod in job.fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        job.fixture.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))
    for _ in range(3):
        job.fixture.kubernetes.kubelet()
        await job.fixture.settle()
    assert runs_old_image(job.fixture, job.fixture.status["attempt"]["id"])


@PREPARED
async def test_a_growth_without_room_while_a_revision_is_refused_waits(how: dict[str, Any]) -> None:
    job = await refused_revision(how)
    job.fixture.kubernetes.edit_job(KEY, parallelism=6, autoscaler=None)
    for _ in range(40):
        await job.sees(CALM, 60, rescaling=int(job.asked or 0), executors_refused="exceeded quota")
        cannot_be_pulled(job)
    assert job.fixture.kubernetes.events().count("RescaleStarted") == 1


async def test_what_runs_is_scaled_while_modules_are_missing() -> None:
    job = await Job().start()
    for number in (1, 2):
        job.fixture.kubernetes.add_executor(KEY, 1, number)
    await job.sees(CALM, 60)
    job.fixture.kubernetes.edit_job(KEY, transform={"arrow": {"function": "a:b", "configMapRef": {"name": "code"}}})
    await job.sees(CALM, 1)
    assert job.fixture.refusal["reason"] == "CodeMissing"
    for seconds in (60, 30, 30):
        await job.sees(MORE, seconds)
    assert job.asked == "8"
