"""The spans of checkpoints: when they begin and end, what they say, and where none are sent."""

from __future__ import annotations

import logging
import sys
from itertools import count

import pytest

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters
from sparkapp.model.errors import TransformFailed
from sparkapp.model.job.spec import Job
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.protocol import ProtocolStep
from sparkapp.spark.reporting.telemetry.traces import CheckpointSpans, Span, is_asked_for, open_spans

RESOURCE = {"kafka": {"bootstrapServers": "b:9092"}, "source": {"topics": ["a"]}, "sink": {"topic": "out"}}
JOB = Job(
    namespace="team", name="orders", uid="uid", generation=1, attempt=3,
    spec=spec_from_resource(RESOURCE, namespace="team", name="orders"),
)  # fmt: skip
IDENTITY = {"kafkaspark.job.name": "orders", "kafkaspark.job.namespace": "team", "kafkaspark.attempt": 3}
FLUSHING, FLUSHED, WRITTEN, COMMITTED = (
    ProtocolStep.BEFORE_FLUSH, ProtocolStep.AFTER_FLUSH, ProtocolStep.AFTER_WRITE, ProtocolStep.AFTER_COMMITS,
)  # fmt: skip
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


class Sent:
    """Spans of a job; each look at its clock is a second later."""

    def __init__(self) -> None:
        self.traces: list[tuple[Span, list[Span]]] = []
        seconds = count(100)
        self.spans = CheckpointSpans(
            JOB, lambda span, parts: self.traces.append((span, parts)), clock=lambda: next(seconds) * 10**9
        )
        self.spans.recovered(document(6, 1000, 900))

    def at(self, checkpoint_id: int, *steps: ProtocolStep) -> None:
        for step in steps:
            self.spans.at(step, checkpoint_id)


def document(checkpoint_id: int, records_in: int, records_out: int) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid="uid", attempt=3, checkpoint_id=checkpoint_id, created_at="2026-01-01T00:00:00Z", prefix="p",
        parallelism=1, counters=Counters(records_in=records_in, records_out=records_out),
    )  # fmt: skip


def completed(checkpoint_id: int, records_in: int, records_out: int) -> Completed:
    found = document(checkpoint_id, records_in, records_out)
    return Completed(document=found, bytes=1, write_millis=1, commit_millis=1)


def test_a_completed_checkpoint_is_a_trace_with_its_phases() -> None:
    sent = Sent()
    sent.at(7, FLUSHING, FLUSHED, WRITTEN, COMMITTED)
    sent.spans.completed(completed(7, 1100, 950), 2.5)
    ((span, parts),) = sent.traces
    assert (span.name, span.start, span.end, span.failed) == ("checkpoint", 100 * 10**9, 104 * 10**9, "")
    assert span.attributes == {
        **IDENTITY, "kafkaspark.checkpoint": 7, "kafkaspark.outcome": "committed",
        "kafkaspark.records.in": 100, "kafkaspark.records.out": 50, "kafkaspark.transactions": 0,
    }  # fmt: skip
    assert [(part.name, part.start // 10**9, part.end // 10**9) for part in parts] == [
        ("flush", 100, 101), ("write", 101, 102), ("commit", 102, 103),
    ]  # fmt: skip
    assert all(part.attributes == {**IDENTITY, "kafkaspark.checkpoint": 7} for part in parts)


def test_records_are_those_of_the_checkpoint_alone() -> None:
    sent = Sent()
    sent.spans.completed(completed(7, 1100, 950), 1.0)
    sent.spans.completed(completed(8, 1101, 951), 1.0)
    assert [span.attributes["kafkaspark.records.in"] for span, _ in sent.traces] == [100, 1]


def test_a_checkpoint_without_steps_has_its_duration() -> None:
    """As in the local pace, where subtasks commit by themselves."""
    sent = Sent()
    sent.spans.completed(completed(7, 1100, 950), 2.5)
    assert [(span.start, span.end, parts) for span, parts in sent.traces] == [(97_500_000_000, 100 * 10**9, [])]


def test_checkpoints_that_ran_when_the_attempt_failed_end_with_its_reason() -> None:
    """A checkpoint whose document is written is final: the next attempt commits it."""
    sent = Sent()
    sent.at(8, FLUSHING)
    sent.at(7, FLUSHING, FLUSHED, WRITTEN)
    sent.spans.failed(TransformFailed("password=hunter2"))
    (final, parts), (aborted, others) = sent.traces
    assert [final.attributes["kafkaspark.outcome"], aborted.attributes["kafkaspark.outcome"]] == ["final", "aborted"]
    assert final.failed == aborted.failed == "TransformFailed"
    assert [(part.name, part.failed) for part in parts] == [("flush", ""), ("write", ""), ("commit", "TransformFailed")]
    assert [(part.name, part.failed, part.end) for part in others] == [("flush", "TransformFailed", aborted.end)]
    assert "hunter2" not in str(sent.traces)
    sent.spans.failed(RuntimeError("again"))
    assert len(sent.traces) == 2


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console,otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_ask_for_spans(variables: dict[str, str], expected: bool) -> None:
    assert is_asked_for(variables) == expected


def test_another_protocol_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert open_spans(JOB, {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) is None
    assert "OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf in place of grpc" in caplog.text


def test_an_image_without_the_library_is_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with caplog.at_level(logging.WARNING):
        assert open_spans(JOB, ENDPOINT) is None
    assert "install opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http in the job's image" in caplog.text
