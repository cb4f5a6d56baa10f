"""Events of OpenLineage: when they are sent, what they say, and where none are sent."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import CheckpointConflict, KafkaSparkJobError, TransactionFenced, TransformFailed
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.spark.reporting.telemetry import lineage
from sparkapp.spark.reporting.telemetry.lineage import (
    AttemptLineage,
    RunEvent,
    RunState,
    ddl_columns,
    is_asked_for,
    open_lineage,
)

RESOURCE: dict[str, Any] = {
    "kafka": {"bootstrapServers": "b:9092"}, "source": {"topicPattern": "in-.*"},
    "sink": {"topic": "out"}, "onRecordError": "DeadLetter", "deadLetter": {"topic": "dead"},
}  # fmt: skip
JOB = Job(
    namespace="team", name="orders", uid="uid", generation=1, attempt=3,
    spec=spec_from_resource(RESOURCE, namespace="team", name="orders"),
)  # fmt: skip
URL = {"OPENLINEAGE_URL": "http://collector:5000"}


class Sent(list[RunEvent]):
    """Events of a job at a time that the test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.topics = ["in-b", "in-a"]
        self.lineage = AttemptLineage(JOB, self.append, inputs=lambda: self.topics, clock=lambda: self.now)

    def complete(self, seconds: float, *topics: str) -> None:
        """A checkpoint that long after the last."""
        self.now += timedelta(seconds=seconds)
        document = CheckpointDocument(
            job_uid="uid", attempt=3, checkpoint_id=7, created_at="2026-01-01T00:00:00Z", prefix="p", parallelism=1,
            sink_topics=frozenset(topics),
        )  # fmt: skip
        self.lineage.completed(Completed(document=document, bytes=1, write_millis=1, commit_millis=1))


def test_a_run_starts_runs_and_ends_with_its_topics() -> None:
    sent = Sent()
    with sent.lineage.run(has_run=lambda: True):
        for seconds in (1, 30, 28):
            sent.complete(seconds)
        assert [event.state for event in sent] == [RunState.START]
        sent.topics.append("in-c")
        sent.complete(1, "out-eu")
        sent.complete(59)
    assert [event.state for event in sent] == [RunState.START, RunState.RUNNING, RunState.COMPLETE]
    start, running, end = sent
    assert (start.inputs, start.outputs) == (("in-a", "in-b"), ("dead", "out"))
    assert (running.inputs, running.outputs) == (("in-a", "in-b", "in-c"), ("dead", "out", "out-eu"))
    assert running.outputs == end.outputs, "a topic of an earlier checkpoint is an output of the run"
    assert [(event.at - start.at).seconds for event in sent] == [0, 60, 119]


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (TransformFailed("password=hunter2"), RunState.FAIL, "TransformFailed"),
        (ValueError("password=hunter2"), RunState.FAIL, "ValueError"),
        (CheckpointConflict("attempt 4 has claimed it"), RunState.ABORT, "Superseded"),
        (TransactionFenced("a newer producer"), RunState.ABORT, "TransactionFenced"),
    ],
)
def test_a_run_that_fails_has_the_reason_alone(error: Exception, state: RunState, reason: str) -> None:
    sent = Sent()
    with pytest.raises(type(error)), sent.lineage.run(has_run=lambda: True):
        raise error
    assert [(event.state, event.failed) for event in sent] == [(RunState.START, ""), (state, reason)]
    assert isinstance(error, KafkaSparkJobError | ValueError)
    assert "hunter2" not in str(sent)


def test_a_run_that_is_stopped_before_its_engine_is_aborted() -> None:
    sent = Sent()
    with sent.lineage.run(has_run=lambda: False):
        pass
    assert [event.state for event in sent] == [RunState.START, RunState.ABORT]


def test_an_event_has_a_bounded_number_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lineage, "_MAX_TOPICS", 3)
    sent = Sent()
    sent.topics = [f"in-{number}" for number in range(9)]
    with sent.lineage.run(has_run=lambda: True):
        assert sent[0].inputs == ("in-0", "in-1", "in-2")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        (URL, True),
        ({"OPENLINEAGE_URL": ""}, False),
        ({"OPENLINEAGE_CONFIG": "/etc/openlineage.yml"}, True),
        ({"OPENLINEAGE__TRANSPORT__TYPE": "http"}, True),
        ({"OPENLINEAGE_NAMESPACE": "shop"}, False),
        ({**URL, "OPENLINEAGE_DISABLED": "true"}, False),
    ],
)
def test_the_variables_of_the_library_ask_for_events(variables: dict[str, str], expected: bool) -> None:
    assert is_asked_for(variables) == expected


def test_an_image_without_the_library_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with caplog.at_level(logging.WARNING):
        assert open_lineage(JOB, list, URL) is None
    assert "install openlineage-python in the job's image" in caplog.text


def test_a_collector_that_is_away_is_a_line_of_the_log_and_loses_events(caplog: pytest.LogCaptureFixture) -> None:
    """The queue is full while the first event is sent. Nobody waits for it."""
    answers, begun = threading.Event(), threading.Event()
    emitted: list[RunEvent] = []

    def emit(event: RunEvent) -> None:
        begun.set()
        answers.wait(60)
        emitted.append(event)
        msg = "https://user:hunter2@collector"
        raise ConnectionError(msg)

    sender = lineage._Sender(emit)
    events = [
        RunEvent(state=RunState.RUNNING, at=datetime.fromtimestamp(number, UTC), inputs=(), outputs=())
        for number in range(100)
    ]
    sender.send(events[0])
    assert begun.wait(60)
    began = time.monotonic()
    for event in events[1:]:
        sender.send(event)
    assert time.monotonic() - began < 5
    with caplog.at_level(logging.WARNING):
        answers.set()
        until = time.monotonic() + 60
        while len(emitted) < 17 and time.monotonic() < until:
            time.sleep(0.01)
        sender.close()
    assert emitted == [events[0], *events[-16:]], "the last event is that of the end"
    assert caplog.messages == ["events of OpenLineage do not reach the collector: ConnectionError"]


def test_the_columns_of_a_ddl_keep_their_types() -> None:
    schema = "id BIGINT, `a, b` STRING NOT NULL COMMENT 'x, <y', at: DATE, d DECIMAL(10, 2), s STRUCT<a: INT, b: X>"
    assert list(ddl_columns(schema)) == [
        ("id", "BIGINT"), ("a, b", "STRING"), ("at", "DATE"), ("d", "DECIMAL(10, 2)"),
        ("s", "STRUCT<a: INT, b: X>"),
    ]  # fmt: skip


def test_the_columns_of_a_reader_schema_are_those_of_its_record() -> None:
    at = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [
        {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}, {"name": "at", "type": at},
        {"name": "home", "type": {"type": "record", "name": "Address", "fields": []}},
        {"name": "either", "type": ["int", "string"]}, {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]  # fmt: skip
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    source = Source(group_id="g", value_format=Format.AVRO, value_schema=schema)
    assert list(lineage._columns(source)) == [
        ("id", "long"), ("name", "string"), ("at", "timestamp-millis"), ("home", "Address"),
        ("either", '["int", "string"]'), ("tags", "array"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("servers", "namespace"),
    [
        ("b:9092", "kafka://b:9092"),
        ("one.example:9094, two.example:9094", "kafka://one.example:9094"),
        ("b", "kafka://b:9092"),
        ("[::1]:9093", "kafka://[::1]:9093"),
        ("[::1]", "kafka://[::1]:9092"),
    ],
)
def test_topics_are_named_by_the_first_bootstrap_server(servers: str, namespace: str) -> None:
    assert lineage._namespace(servers) == namespace
