"""The annotation that pauses the operator: it shows the job, and starts, stops and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.identity import ANNOTATION_PAUSE
from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, FINISHED, KEY, OperatorFixture

PAUSED = "ReconciliationPaused"


def pause(fixture: OperatorFixture, value: str | None = "true") -> None:
    fixture.kubernetes.annotate_job(KEY, **{ANNOTATION_PAUSE: value})


def changes(fixture: OperatorFixture) -> list[tuple[str, str, str]]:
    """Writes of everything but events and the status."""
    return [write for write in fixture.kubernetes.writes if write[1] not in {"Event", names.KIND}]


async def watched(fixture: OperatorFixture) -> list[tuple[str, str, str]]:
    """What the operator changes in a day."""
    before = len(changes(fixture))
    for seconds in (0, 5, 30, 60, 400, 86400):
        fixture.wait(seconds)
        await fixture.settle()
    return changes(fixture)[before:]


@pytest.fixture
async def running() -> OperatorFixture:
    """A job that runs, and is paused."""
    fixture = OperatorFixture()
    await fixture.run()
    pause(fixture)
    await fixture.settle()
    return fixture


async def test_a_running_job_is_ready_and_says_that_it_is_paused(running: OperatorFixture) -> None:
    assert running.kubernetes.condition(KEY, PAUSED)["status"] == "True"
    assert (running.status["state"], running.ready["status"]) == ("Running", "True")
    assert running.kubernetes.condition(KEY, "Reconciling")["status"] == "False"
    assert running.kubernetes.events().count(PAUSED) == 1


async def test_its_numbers_and_events_stay_fresh(running: OperatorFixture) -> None:
    running.report(1, checkpoint_id=77, checkpoint_time="2026-11-21T12:05:00Z", lag_records=1234)
    await running.settle()
    assert running.status["checkpoint"]["id"] == 77
    assert running.status["source"]["lagRecords"] == 1234


@pytest.mark.parametrize(
    "change",
    [{"suspend": True}, {"parallelism": 4}, {"image": "x:2"}, {"restartNonce": 1}, {"sink": {"topic": "orders"}}],
)
async def test_no_change_of_the_spec_is_acted_upon_until_the_end_of_the_pause(
    running: OperatorFixture, change: dict[str, Any]
) -> None:
    running.kubernetes.edit_job(KEY, **change)
    assert await watched(running) == []
    assert running.status["observedGeneration"] == 1
    assert (running.ready["status"], running.ready["reason"]) == ("False", PAUSED)
    assert "generation 2 waits" in running.ready["message"]
    pause(running, None)
    await running.settle()
    assert running.kubernetes.condition(KEY, PAUSED) == {}
    assert running.status["observedGeneration"] == 2
    if "sink" not in change:
        assert "deletionTimestamp" in running.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]


@pytest.mark.parametrize("how", [FAILED, FATAL, FINISHED, None], ids=["failed", "fatal", "finished", "killed"])
async def test_a_driver_that_ends_is_not_replaced_and_its_end_is_judged_afterwards(
    running: OperatorFixture, how: Any
) -> None:
    if how is FINISHED:
        running.checkpoint(1, 10, drained=True, finished=True)
    running.driver_ends(1, how)
    assert await watched(running) == []
    assert running.drivers == ["orders-1-driver"]
    assert (running.ready["status"], running.ready["reason"]) == ("False", PAUSED)
    assert "lagRecords" not in running.status["source"]
    assert "outcome" not in running.status["attempt"]
    assert running.status["executors"]["running"] == 0
    pause(running, "false")
    await running.settle()
    running.wait(5)
    await running.settle()
    expected = {FAILED: [1, 2], None: [1, 2]}.get(how, [1])
    assert running.kubernetes.driver_attempts == expected
    assert running.status["attempt"].get("outcome") or running.status["attempt"]["id"] == 2


async def test_a_silent_driver_is_not_ready_and_is_left_alone() -> None:
    fixture = OperatorFixture()
    await fixture.run()
    fixture.report(1, heartbeat_seconds=10)
    pause(fixture)
    assert await watched(fixture) == []
    assert (fixture.ready["status"], fixture.ready["reason"]) == ("False", PAUSED)
    assert fixture.drivers == ["orders-1-driver"]


async def test_a_driver_that_comes_up_meanwhile_becomes_ready() -> None:
    fixture = OperatorFixture()
    await fixture.settle()
    pause(fixture)
    await fixture.settle()
    fixture.kubernetes.pod_runs("orders-1-driver")
    fixture.checkpoint(1, 10)
    fixture.kubernetes.add_executor(KEY, 1)
    fixture.report(1, DriverState.RUNNING, checkpoint_id=10, checkpoint_time="2026-11-21T12:00:00Z")
    assert await watched(fixture) == []
    assert (fixture.status["state"], fixture.ready["status"]) == ("Running", "True")
    assert fixture.status["executors"]["running"] == 1


async def test_a_job_that_is_created_paused_waits() -> None:
    fixture = OperatorFixture(sink={"topic": "enriched", "transactions": {"timeoutSeconds": 0}})
    pause(fixture)
    assert await watched(fixture) == []
    assert (fixture.status["state"], fixture.status["reason"]) == ("Pending", PAUSED)
    assert "finalizers" not in fixture.kubernetes.job(KEY)["metadata"]
    pause(fixture, None)
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver"]


async def test_a_failed_executor_is_counted_after_the_pause(running: OperatorFixture) -> None:
    name = running.kubernetes.add_executor(KEY, 1, phase="Failed")
    assert await watched(running) == []
    assert "failed" not in running.status["executors"]
    pause(running, None)
    await running.settle()
    assert running.status["executors"]["failed"] == 1
    assert ("annotate", "Pod", name) in running.kubernetes.writes


async def test_what_somebody_changes_of_the_drivers_rights_is_not_repaired(running: OperatorFixture) -> None:
    role = ("Role", "team", "orders-driver")
    running.kubernetes.objects[role]["rules"] = []
    assert await watched(running) == []
    pause(running, None)
    await running.settle()
    assert running.kubernetes.objects[role]["rules"]


async def test_a_job_at_rest_keeps_its_state_and_its_generation() -> None:
    fixture = OperatorFixture()
    await fixture.run()
    fixture.driver_ends(1, FATAL)
    await fixture.settle()
    reason = fixture.status["reason"]
    pause(fixture)
    fixture.kubernetes.edit_job(KEY, parallelism=5)
    assert await watched(fixture) == []
    pause(fixture, None)
    await fixture.settle()
    assert (fixture.status["state"], fixture.status["reason"]) == ("Failed", reason)
    assert fixture.kubernetes.driver_attempts == [1]
    assert "ScaleIgnored" in fixture.kubernetes.events()


async def test_a_finished_job_is_not_deleted_by_its_time() -> None:
    source = {"topics": ["orders"], "stopping": {"mode": "Latest"}}
    fixture = OperatorFixture(source=source, ttlSecondsAfterFinished=60)
    await fixture.run()
    fixture.checkpoint(1, 10, drained=True, finished=True)
    fixture.driver_ends(1, FINISHED)
    await fixture.settle()
    pause(fixture)
    assert await watched(fixture) == []
    assert fixture.status["state"] == "Finished"
    pause(fixture, None)
    await fixture.settle()
    assert not fixture.kubernetes.has_job(KEY)


async def test_a_deletion_is_carried_out() -> None:
    fixture = OperatorFixture(sink={"topic": "enriched", "transactions": {"timeoutSeconds": 0}})
    await fixture.run()
    pause(fixture)
    await fixture.settle()
    fixture.kubernetes.delete_job(KEY)
    await fixture.settle()
    assert fixture.status["state"] == "Deleting"
    fixture.checkpoint(1, 11, drained=True)
    fixture.driver_ends(1, DRAINED)
    await fixture.settle()
    assert not fixture.kubernetes.has_job(KEY)


async def test_a_restarted_operator_pauses_too_and_says_it_once(running: OperatorFixture) -> None:
    running.restart_operator()
    running.kubernetes.edit_job(KEY, suspend=True)
    assert await watched(running) == []
    assert running.kubernetes.events().count(PAUSED) == 1


@pytest.mark.parametrize("value", ["false", "", "yes", "True", "true" * 100])
async def test_any_other_value_pauses_nothing(value: str) -> None:
    fixture = OperatorFixture()
    pause(fixture, value)
    await fixture.run()
    assert fixture.ready["status"] == "True"
    assert fixture.kubernetes.condition(KEY, PAUSED) == {}


async def test_a_second_pause_has_events_of_its_own(running: OperatorFixture) -> None:
    for value in (None, "true"):
        running.wait(60)
        pause(running, value)
        await running.settle()
    assert running.kubernetes.events().count(PAUSED) == 2
    assert running.kubernetes.events().count("ReconciliationResumed") == 1


async def test_the_cache_knows_of_the_pause(running: OperatorFixture) -> None:
    observation = running.cache.observe(KEY)
    assert observation is not None
    assert observation.job.paused
