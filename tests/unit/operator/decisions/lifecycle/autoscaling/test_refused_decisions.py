"""A decision of the autoscaler whose standby driver fails: it is refused, and tried again as any other change."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.standby import STANDBY_AGAIN_SECONDS
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import FAILED, FATAL, KEY
from tests.support.kubernetes.scaled_job import MORE, Job

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
