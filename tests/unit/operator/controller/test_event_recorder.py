"""An event that Kubernetes does not take never holds up a status, a start, a stop or a delete."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectConflict, ObjectRefused
from tests.support.kubernetes.operator_fixture import FAILED, KEY, OperatorFixture

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


async def test_a_job_starts_fails_goes_on_and_stops_without_events(operator_fixture: OperatorFixture) -> None:
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
