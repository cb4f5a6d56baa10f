"""The lineage of a running job, as a collector of OpenLineage gets it."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.spark.reporting.telemetry.lineage import open_lineage
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.lineage_receiver import lineage_receiver
from tests.support.jobs.local_job import START_SECONDS, produce_json
from tests.support.kafka import visibility

pytestmark = pytest.mark.spark

MODULE = """
import pyarrow as pa
import pyarrow.compute as pc

def numbers(batch):
    ids = pc.struct_field(batch.column("value"), "id")
    if 101 in ids.to_pylist():
        raise ValueError("password=hunter2")
    return pa.record_batch({"value": ids.cast(pa.string())})
"""


def test_an_attempt_that_is_stopped_and_one_that_fails_are_runs(
    local_job: LocalJobs, broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "traced.py").write_text(MODULE)
    transform = Transform(arrow=ArrowTransform(function="traced:numbers"))
    job = local_job(
        engine=Engine.CONTINUOUS, transform=transform, code=code, partitions=1, parallelism=1,
        value_format=Format.JSON, value_schema="id BIGINT, name STRING",
    )  # fmt: skip
    topic = job.spec.source.topics[0]
    with lineage_receiver() as receiver:
        monkeypatch.setenv("OPENLINEAGE_URL", receiver.url)
        produce_json(broker, topic, [{"id": number, "name": "a"} for number in range(100)])
        job.start(alone=True)
        receiver.await_events(1, START_SECONDS)
        job.await_records_in(100)
        assert job.drain() == 0
        receiver.await_events(2, 10)
        produce_json(broker, topic, [{"id": 101, "name": "a"}])
        job.start(alone=True)
        assert job.await_end() != 0
        events = receiver.await_events(4, 10)

    assert [event["eventType"] for event in events] == ["START", "COMPLETE", "START", "FAIL"]
    runs = [event["run"]["runId"] for event in events]
    assert runs[0] == runs[1] != runs[2] == runs[3]
    namespace = f"kafka://{broker}"
    columns = [{"name": "id", "type": "BIGINT"}, {"name": "name", "type": "STRING"}]
    for event in events:
        assert (event["job"]["namespace"], event["job"]["name"]) == ("test", job.uid)
        assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
        (source,), (sink,) = event["inputs"], event["outputs"]
        assert (source["namespace"], source["name"]) == (namespace, topic)
        assert (sink["namespace"], sink["name"]) == (namespace, job.spec.sink.topic)
        assert [_named(each) for each in source["facets"]["schema"]["fields"]] == columns
        assert event["run"]["facets"]["processing_engine"]["name"] == "Spark"
    assert events[3]["run"]["facets"]["errorMessage"]["message"] == "TransformFailed"
    assert "hunter2" not in str(events)
    assert len(visibility.records(broker, job.spec.sink.topic)) == 100


def _named(field: dict[str, Any]) -> dict[str, Any]:
    return {name: field[name] for name in ("name", "type")}


def test_a_collector_that_is_silent_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts connections and never answers. More events come than the queue takes."""
    resource = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["a"]}, "sink": {"topic": "out"}}
    spec = spec_from_resource(resource, namespace="team", name="orders")
    job = Job(namespace="team", name="orders", uid="uid", generation=1, attempt=3, spec=spec)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        opened = open_lineage(job, lambda: ["a"])
        assert opened is not None
        lineage, close = opened
        began = time.monotonic()
        for _ in range(500):
            with suppress(RuntimeError), lineage.run(has_run=lambda: True):
                raise RuntimeError
        sent = time.monotonic()
        close()
        assert sent - began < 10
        assert time.monotonic() - sent < 10
