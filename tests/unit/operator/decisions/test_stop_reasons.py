"""Why an attempt was stopped holds for the stop that took place, and its status says what follows by the spec."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafkasparkjob_operator.kubernetes.port import ClusterError
from kafkasparkjob_operator.observation.pod_view import pod_view
from tests.support.kubernetes.operator_fixture import DRAINED, FATAL, KEY, OperatorFixture

DRIVER = ("Pod", KEY.namespace, "orders-1-driver")
BEAT: dict[str, Any] = {"checkpoint_id": 10, "heartbeat_seconds": 10}


@pytest.fixture
async def running() -> OperatorFixture:
    fixture = OperatorFixture()
    await fixture.run()
    return fixture


@asynccontextmanager
async def failing_deletions(fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """Kubernetes answers with an error, and deletes nothing."""

    async def fails(*_: object, **__: object) -> None:
        raise ClusterError("DELETE: 500", status=500)

    with monkeypatch.context() as patched:
        patched.setattr(fixture.kubernetes, "delete", fails)
        yield
    assert "deletionTimestamp" not in fixture.kubernetes.objects[DRIVER]["metadata"]


def deleted_by_hand(fixture: OperatorFixture) -> None:
    fixture.kubernetes.objects[DRIVER]["metadata"]["deletionTimestamp"] = "2026-11-21T12:05:00Z"


def suspend(fixture: OperatorFixture, suspended: bool = True) -> None:
    fixture.kubernetes.edit_job(KEY, suspend=suspended)


def state(fixture: OperatorFixture) -> tuple[str, str]:
    return fixture.status["state"], fixture.status["reason"]


async def test_a_silence_that_ended_before_the_stop_hides_no_failure(
    running: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.report(1, **BEAT)
    await running.settle()
    async with failing_deletions(running, monkeypatch):
        running.wait(100)
        await running.settle_or_refused()
        assert running.status["attempt"]["stopReason"] == "HeartbeatTimeout"
    running.report(1, **BEAT, lag_records=1)
    await running.settle()
    assert state(running)[0] == "Running"
    assert "stopReason" not in running.status["attempt"]
    running.driver_ends(1, FATAL)
    await running.settle()
    assert state(running) == ("Failed", "InvalidTransform")


@pytest.mark.parametrize("looks", [True, False])
async def test_a_suspension_that_was_withdrawn_before_the_stop_hides_no_failure(
    running: OperatorFixture, monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    async with failing_deletions(running, monkeypatch):
        suspend(running)
        await running.settle_or_refused()
        assert running.status["attempt"]["stopReason"] == "Suspend"
    suspend(running, False)
    if looks:
        await running.settle()
        assert "stopReason" not in running.status["attempt"]
    running.driver_ends(1, FATAL)
    await running.settle()
    assert running.status["lastFailure"]["reason"] == "InvalidTransform"
    assert "InvalidTransform" in running.kubernetes.events(warning=True)


async def test_a_stop_is_repeated_until_it_takes_place(
    running: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with failing_deletions(running, monkeypatch):
        suspend(running)
        await running.settle_or_refused()
    await running.settle()
    assert "deletionTimestamp" in running.kubernetes.objects[DRIVER]["metadata"]
    assert running.status["attempt"]["stopReason"] == "Suspend"


async def test_a_stop_holds_where_the_pod_has_gone_before_the_next_look(running: OperatorFixture) -> None:
    suspend(running)
    await running.look(2)
    running.checkpoint(1, 11, drained=True)
    running.kubernetes.remove(DRIVER)
    suspend(running, False)
    await running.settle()
    assert running.status["attempt"]["startReason"] == "Resumed"
    assert running.status["restarts"]["total"] == 0


async def test_a_stop_holds_where_only_the_watch_of_pods_is_late(running: OperatorFixture) -> None:
    await running.look()
    suspend(running)
    body = running.kubernetes.objects[DRIVER]
    before = pod_view(body)
    assert before is not None
    await running.look()
    assert "deletionTimestamp" in body["metadata"]
    suspend(running, False)
    running.cache.put_job(running.kubernetes.job(KEY))
    running.cache.put_pod(KEY, before)
    await running.reconciler.reconcile(KEY)
    assert running.status["attempt"]["stopReason"] == "Suspend"


async def test_a_suspension_of_a_driver_that_somebody_else_deletes_is_no_restart(running: OperatorFixture) -> None:
    running.wait(300)
    deleted_by_hand(running)
    suspend(running)
    await running.settle()
    assert state(running) == ("Suspending", "Suspending")
    assert "spec.suspend is true" in running.status["message"]
    running.checkpoint(1, 11, drained=True)
    running.driver_ends(1, DRAINED)
    await running.settle()
    assert state(running) == ("Suspended", "Suspended")
    assert running.status["restarts"]["total"] == 0
    assert "RestartScheduled" not in running.kubernetes.events()
    suspend(running, False)
    await running.settle()
    assert running.status["attempt"]["startReason"] == "Resumed"


async def test_the_status_of_a_driver_that_goes_follows_the_spec(running: OperatorFixture) -> None:
    running.kubernetes.edit_job(KEY, restartNonce=1)
    await running.settle()
    assert state(running) == ("Restarting", "SpecChanged")
    for _ in range(2):
        suspend(running)
        await running.settle()
        assert state(running) == ("Suspending", "Suspending")
        assert "no attempt follows" in running.status["message"]
        suspend(running, False)
        await running.settle()
        assert state(running) == ("Restarting", "DriverStopping")
        assert "the next attempt follows" in running.status["message"]
    running.checkpoint(1, 11, drained=True)
    running.driver_ends(1, DRAINED)
    await running.settle()
    assert running.drivers == ["orders-2-driver"]
    assert running.status["restarts"]["total"] == 0


async def test_a_withdrawn_suspension_says_that_the_next_attempt_follows(running: OperatorFixture) -> None:
    suspend(running)
    await running.settle()
    assert running.status["message"] == "the driver drains at a checkpoint: spec.suspend is true"
    suspend(running, False)
    await running.settle()
    assert state(running) == ("Restarting", "DriverStopping")
    assert "spec.suspend is true" not in running.status["message"]
    running.wait(300)
    await running.settle()
    assert state(running) == ("Restarting", "PodNotTerminating")
