"""Spans of a running job's checkpoints, as a collector of OpenTelemetry gets them."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.protocol import ProtocolStep
from sparkapp.spark.reporting.telemetry.traces import open_spans
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import START_SECONDS, produce
from tests.support.jobs.otlp_receiver import otlp_receiver
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

MODULE = """
def numbers(batch):
    if b"101" in batch.column("value").to_pylist():
        raise ValueError("password=hunter2")
    return batch.select(["key", "value"])
"""


def test_a_committed_and_an_aborted_checkpoint_are_traces(
    local_job: LocalJobs, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt would read the record again. Its error is named by its reason alone."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "traced.py").write_text(MODULE)
    transform = Transform(arrow=ArrowTransform(function="traced:numbers"))
    job = local_job(engine=Engine.CONTINUOUS, transform=transform, code=code, partitions=1, parallelism=1)
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
        produce(broker, job.spec.source.topics[0], 0, 100)
        job.start(alone=True)
        last = job.await_records_in(100).checkpoint_id
        committed = receiver.trace(last, START_SECONDS)
        produce(broker, job.spec.source.topics[0], 100, 10)
        assert job.await_end() != 0
        aborted = receiver.trace(last + 1, 1.0)

    assert list(committed) == ["flush", "write", "commit", "checkpoint"]
    root = committed["checkpoint"]
    assert root.service == f"test.{job.uid}"
    assert {each.parent for name, each in committed.items() if name != "checkpoint"} == {root.id}
    assert {each.trace for each in committed.values()} == {root.trace}
    assert root.start <= committed["flush"].start < committed["write"].start < committed["commit"].start < root.end
    assert root.attributes == {
        "kafkaspark.job.name": job.uid, "kafkaspark.job.namespace": "test", "kafkaspark.attempt": 1,
        "kafkaspark.checkpoint": last, "kafkaspark.records.in": 100, "kafkaspark.records.out": 100,
        "kafkaspark.transactions": 1, "kafkaspark.outcome": "committed",
    }  # fmt: skip

    assert list(aborted) == ["flush", "checkpoint"]
    assert all(each.is_error for each in aborted.values())
    assert not any(each.is_error for each in committed.values())
    assert aborted["checkpoint"].attributes["kafkaspark.outcome"] == "aborted"
    assert aborted["checkpoint"].attributes["error.type"] == "TransformFailed"
    assert "hunter2" not in str(receiver.spans)
    assert len(visibility.records(broker, job.spec.sink.topic)) == 100


def test_a_collector_that_is_silent_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts connections and never answers. More spans come than the queue takes."""
    resource = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["a"]}, "sink": {"topic": "out"}}
    spec = spec_from_resource(resource, namespace="team", name="orders")
    job = Job(namespace="team", name="orders", uid="uid", generation=1, attempt=3, spec=spec)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
        monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "16")
        opened = open_spans(job)
        assert opened is not None
        spans, close = opened
        began = time.monotonic()
        for number in range(500):
            spans.at(ProtocolStep.BEFORE_FLUSH, number)
            spans.failed(RuntimeError())
        sent = time.monotonic()
        close()
        assert sent - began < 10
        assert time.monotonic() - sent < 10
