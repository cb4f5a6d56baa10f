"""An event that Kubernetes does not take never holds up a status, a start, a stop or a delete."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkasparkjob_operator.cluster import ClusterError, ObjectConflict, ObjectRefused
from tests.support.operator_bench import FAILED, KEY, OperatorBench

ANSWERS = {
    "429": ClusterError("too many requests", status=429),
    "quota": ObjectRefused("exceeded quota: events", status=403),
    "conflict": ObjectConflict("the namespace is being terminated", status=409),
    "500": ClusterError("etcd has no leader", status=500),
    "none": None,
}


@pytest.fixture(params=sorted(ANSWERS))
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OperatorBench:
    """An API server that takes everything but events."""
    monkeypatch.setattr("kafkasparkjob_operator.event_recorder.EVENT_SECONDS", 0.01)
    bench = OperatorBench()
    create = bench.kubernetes.create

    async def refuse(manifest: Any) -> Any:
        if manifest["kind"] != "Event":
            return await create(manifest)
        answer = ANSWERS[request.param]
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        raise answer

    monkeypatch.setattr(bench.kubernetes, "create", refuse)
    return bench


async def test_a_job_starts_fails_goes_on_and_stops_without_events(bench: OperatorBench) -> None:
    await bench.run(1)
    assert bench.status["state"] == "Running"
    bench.driver_ends(1, FAILED)
    await bench.settle()
    assert bench.status["reason"] == "KafkaUnreachable"
    bench.wait(2)
    await bench.run(2)
    bench.kubernetes.edit_job(KEY, suspend=True)
    await bench.look()
    assert bench.status["state"] == "Suspending"
    driver = bench.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
    assert "deletionTimestamp" in driver["metadata"]
    assert bench.kubernetes.events() == []
    text = bench.metrics.render().decode()
    dropped = [line for line in text.splitlines() if line.startswith("kafkaspark_operator_events_dropped_total{")]
    assert sum(float(line.split()[-1]) for line in dropped) >= 5


async def test_a_dropped_event_is_not_sent_again_at_each_look(
    bench: OperatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.run(1)
    sent = []
    create = bench.kubernetes.create

    async def counted(manifest: Any) -> Any:
        sent.append(manifest["kind"])
        return await create(manifest)

    monkeypatch.setattr(bench.kubernetes, "create", counted)
    bench.kubernetes.edit_job(KEY, sink={"topic": "orders"})
    await bench.look(5)
    assert sent == ["Event"]
    assert bench.kubernetes.condition(KEY, "ConfigValid")["status"] == "False"
