"""An event that Kubernetes does not take never holds up a status, a start, a stop or a delete."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from kafkasparkjob_operator.controller.event_recorder import EventRecorder
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectConflict, ObjectRefused
from kafkasparkjob_operator.observation.observation import job_resource
from kafkasparkjob_operator.status.events import JobEvent
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.kubernetes.operator_fixture import FAILED, KEY, NOON, OperatorFixture, job_body

ANSWERS = {
    "429": ClusterError("too many requests", status=429),
    "quota": ObjectRefused("exceeded quota: events", status=403),
    "conflict": ObjectConflict("the namespace is being terminated", status=409),
    "500": ClusterError("etcd has no leader", status=500),
    "none": None,
}


@pytest.fixture(params=sorted(ANSWERS))
def operator_fixture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OperatorFixture:
    """An API server that takes everything but events."""
    monkeypatch.setattr("kafkasparkjob_operator.controller.event_recorder.EVENT_SECONDS", 0.01)
    operator_fixture = OperatorFixture()
    create = operator_fixture.kubernetes.create

    async def refuse(manifest: Any) -> Any:
        if manifest["kind"] != "Event":
            return await create(manifest)
        answer = ANSWERS[request.param]
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        raise answer

    monkeypatch.setattr(operator_fixture.kubernetes, "create", refuse)
    return operator_fixture


async def test_a_job_starts_fails_continues_and_stops_without_events(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    assert operator_fixture.status["state"] == "Running"
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "KafkaUnreachable"
    operator_fixture.wait(2)
    await operator_fixture.run(2)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.look()
    assert operator_fixture.status["state"] == "Suspending"
    driver = operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
    assert "deletionTimestamp" in driver["metadata"]
    assert operator_fixture.kubernetes.events() == []
    text = operator_fixture.metrics.render().decode()
    dropped = [line for line in text.splitlines() if line.startswith("kafkaspark_operator_events_dropped_total{")]
    assert sum(float(line.split()[-1]) for line in dropped) >= 5


async def test_a_dropped_event_is_not_sent_again_at_each_look(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await operator_fixture.run(1)
    sent = []
    create = operator_fixture.kubernetes.create

    async def counted(manifest: Any) -> Any:
        sent.append(manifest["kind"])
        return await create(manifest)

    monkeypatch.setattr(operator_fixture.kubernetes, "create", counted)
    operator_fixture.kubernetes.edit_job(KEY, sink={"topic": "orders"})
    await operator_fixture.look(5)
    assert sent == ["Event"]
    assert operator_fixture.kubernetes.condition(KEY, "ConfigValid")["status"] == "False"


def flood(count: int, first: int = 1) -> tuple[JobEvent, ...]:
    """Events of a hostile driver."""
    return tuple(
        JobEvent(occurrence=f"report/1/{number}", reason="PartitionAdded", message="x", reported=True)
        for number in range(first, first + count)
    )


def quiet_recorder(moment: list[datetime], throttled: list[None]) -> tuple[EventRecorder, FakeKubernetes]:
    kubernetes = FakeKubernetes()
    recorder = EventRecorder(
        lambda: kubernetes, dropped=lambda _: None, throttled=lambda: throttled.append(None), now=lambda: moment[0]
    )
    return recorder, kubernetes


async def test_a_flood_of_a_driver_is_a_bucket_of_events_and_one_that_tells_of_it() -> None:
    moment, throttled = [NOON], list[None]()
    recorder, kubernetes = quiet_recorder(moment, throttled)
    job = job_resource(job_body())
    for number in range(116):  # 20 events a report, for 20 s
        await recorder.record(job, flood(20, 1 + 20 * number))
        moment[0] += timedelta(seconds=0.17)
    events = kubernetes.events()
    assert events == ["PartitionAdded"] * 25 + ["EventsThrottled"]
    assert len(throttled) == 2320 - 25
    moment[0] += timedelta(seconds=300)
    await recorder.record(job, flood(20, 10_000))
    assert kubernetes.events()[26:] == ["PartitionAdded"]


async def test_a_flood_of_a_driver_leaves_the_operators_events_and_other_jobs_alone() -> None:
    recorder, kubernetes = quiet_recorder([NOON], [])
    await recorder.record(job_resource(job_body()), flood(100))
    await recorder.record(job_resource(job_body()), (JobEvent(occurrence="end/1", reason="Failed", message="x"),))
    other = job_body()
    other["metadata"] |= {"name": "returns", "uid": "other-uid"}
    await recorder.record(job_resource(other), flood(1))
    assert kubernetes.events()[-2:] == ["Failed", "PartitionAdded"]


async def test_the_bucket_of_a_job_that_is_gone_is_forgotten() -> None:
    recorder, kubernetes = quiet_recorder([NOON], [])
    job = job_resource(job_body())
    await recorder.record(job, flood(30))
    recorder.forget(job.identity.key)
    await recorder.record(job, flood(25, 1000))
    assert len(kubernetes.events()) == 25 + 1 + 25


async def test_a_throttled_event_is_counted_once() -> None:
    moment, throttled = [NOON], list[None]()
    recorder, _ = quiet_recorder(moment, throttled)
    for _ in range(3):
        await recorder.record(job_resource(job_body()), flood(30))
    assert len(throttled) == 5
