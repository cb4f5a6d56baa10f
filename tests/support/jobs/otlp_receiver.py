"""A collector of OpenTelemetry on this machine: takes spans over HTTP and decodes them with the library's classes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.jobs.http_receiver import http_receiver


@dataclass(frozen=True, slots=True)
class Received:
    """A span. :ivar service: of its resource. :ivar parent: id of the span around it; empty for a trace's own."""

    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    start: int
    end: int
    is_error: bool
    attributes: dict[str, str | int]


@dataclass(slots=True)
class Receiver:
    """:ivar endpoint: for ``OTEL_EXPORTER_OTLP_ENDPOINT``."""

    endpoint: str
    spans: list[Received] = field(default_factory=list)

    def trace(self, checkpoint_id: int, seconds: float) -> dict[str, Received]:
        """The spans of a checkpoint by name, once its own span is there."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = [each for each in self.spans if each.attributes["kafkaspark.checkpoint"] == checkpoint_id]
            if any(not each.parent for each in found):
                return {each.name: each for each in found}
            time.sleep(0.1)
        raise AssertionError(f"no trace of checkpoint {checkpoint_id} within {seconds} s: {self.spans}")


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    """A receiver for the length of the block."""
    spans: list[Received] = []

    def receive(body: bytes) -> bytes:
        spans.extend(_spans(ExportTraceServiceRequest.FromString(body)))
        return ExportTraceServiceResponse().SerializeToString()

    with http_receiver("/v1/traces", receive, content_type="application/x-protobuf") as endpoint:
        yield Receiver(endpoint, spans)


def _spans(request: ExportTraceServiceRequest) -> Iterator[Received]:
    for resource in request.resource_spans:
        service = _values(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield Received(
                    service=str(service), name=span.name, trace=span.trace_id, id=span.span_id,
                    parent=span.parent_span_id, start=span.start_time_unix_nano, end=span.end_time_unix_nano,
                    is_error=span.status.code == span.status.STATUS_CODE_ERROR, attributes=_values(span.attributes),
                )  # fmt: skip


def _values(pairs: Any) -> dict[str, str | int]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
