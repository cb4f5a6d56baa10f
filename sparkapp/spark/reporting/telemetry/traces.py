"""Spans of checkpoints for OpenTelemetry (ADR 104); the only importer of its library. Off where no variable asks.

A checkpoint is a trace. Its spans begin and end at the steps of the protocol, and are made when the checkpoint ends.
They are sent in a thread of the library, from a queue with a limit. A collector that is away loses spans, and nothing
else.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.spec import Job
from sparkapp.model.protocol import ProtocolStep

LOG = logging.getLogger(__name__)

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
_CLOSE_SECONDS = 3.0
"""For the last spans of an attempt. Kubernetes gives a driver more time to stop."""

_PHASES = {
    "flush": (ProtocolStep.BEFORE_FLUSH, ProtocolStep.AFTER_FLUSH),
    "write": (ProtocolStep.AFTER_FLUSH, ProtocolStep.AFTER_WRITE),
    "commit": (ProtocolStep.AFTER_WRITE, ProtocolStep.AFTER_COMMITS),
}
"""Names of the spans within a checkpoint: records are produced, the document is written, transactions are committed."""

Attributes = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Span:
    """A span as it is sent; times are nanoseconds since 1970.

    :param failed: the error's reason; empty for a span without an error.
    """

    name: str
    start: int
    end: int
    attributes: Attributes
    failed: str = ""


Send = Callable[[Span, "list[Span]"], None]
"""Sends a span and the spans within it; never blocks and never raises."""


class CheckpointSpans:
    """Made by the wiring for an attempt; called by the coordinator and the attempt, in several threads.

    :param send: of :func:`open_exporter`.
    :param clock: gives nanoseconds since 1970.
    """

    def __init__(self, job: Job, send: Send, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._send = send
        self._clock = clock
        self._job: Attributes = {
            "kafkaspark.job.name": job.name,
            "kafkaspark.job.namespace": job.namespace,
            "kafkaspark.attempt": job.attempt,
        }
        self._steps: dict[int, dict[ProtocolStep, int]] = {}
        """The times of the steps of checkpoints that run. Threads change it, each for a checkpoint of its own."""
        self._records_in = self._records_out = 0

    def recovered(self, document: CheckpointDocument) -> None:
        """The totals of the job before the attempt's first checkpoint."""
        self._records_in, self._records_out = document.counters.records_in, document.counters.records_out

    def at(self, step: ProtocolStep, checkpoint_id: int) -> None:
        """Notes a step; a :data:`sparkapp.model.protocol.StepHook` of the coordinator."""
        self._steps.setdefault(checkpoint_id, {})[step] = self._clock()

    def completed(self, completed: Completed, seconds: float) -> None:
        """Sends the trace of a checkpoint that is visible.

        :param seconds: its duration, of which alone a checkpoint of the local pace has a span.
        """
        document, end = completed.document, self._clock()
        totals = document.counters
        found = {
            "kafkaspark.records.in": totals.records_in - self._records_in,
            "kafkaspark.records.out": totals.records_out - self._records_out,
            "kafkaspark.transactions": len(document.committables),
        }
        self.recovered(document)
        steps = self._steps.pop(document.checkpoint_id, {})
        self._trace(document.checkpoint_id, steps, end - round(seconds * 1e9), end, {"outcome": "committed", **found})

    def failed(self, error: BaseException) -> None:
        """Sends the traces of the checkpoints that ran when the attempt failed.

        They have the error's reason and not its text, in which user code may have put anything.
        """
        reason = error.reason if isinstance(error, KafkaSparkJobError) else type(error).__name__
        now = self._clock()
        for checkpoint_id in sorted(self._steps):
            steps = self._steps.pop(checkpoint_id)
            # The next attempt commits what the document names.
            outcome = "final" if ProtocolStep.AFTER_WRITE in steps else "aborted"
            self._trace(checkpoint_id, steps, now, now, {"outcome": outcome}, failed=reason)

    def _trace(
        self,
        checkpoint_id: int,
        steps: Mapping[ProtocolStep, int],
        start: int,
        end: int,
        found: Attributes,
        *,
        failed: str = "",
    ) -> None:
        attributes = {**self._job, "kafkaspark.checkpoint": checkpoint_id}
        parts = [
            Span(name, steps[first], steps.get(last, end), attributes, failed if last not in steps else "")
            for name, (first, last) in _PHASES.items()
            if first in steps
        ]
        start = min([start, *steps.values()])
        outcome = {f"kafkaspark.{name}" if "." not in name else name: value for name, value in found.items()}
        self._send(Span("checkpoint", start, end, attributes | outcome, failed), parts)


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """Whether the variables of OpenTelemetry ask for spans: by an endpoint, or by the name of the exporter."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    chosen = environ.get("OTEL_TRACES_EXPORTER", "")
    return "otlp" in chosen.split(",") or (not chosen and any(environ.get(name) for name in _ENDPOINTS))


def open_spans(job: Job, environ: Mapping[str, str] = os.environ) -> tuple[CheckpointSpans, Callable[[], None]] | None:
    """The spans of an attempt, and what closes them; None where nothing asks for them, or they cannot be sent.

    Called by the wiring. A job never fails for the sake of its spans, so the log has why there are none.
    """
    if not is_asked_for(environ):
        return None
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        LOG.warning("no spans are sent: set OTEL_EXPORTER_OTLP_PROTOCOL to %s in place of %s", _PROTOCOL, protocol)
        return None
    try:
        send, close = _open_exporter(job)
    except ImportError as error:
        LOG.warning("no spans are sent: install %s in the job's image (%s)", " and ".join(_PACKAGES), error)
        return None
    except Exception as error:  # of a variable that the library cannot read
        LOG.warning("no spans are sent: %s", type(error).__name__)
        return None
    LOG.info("spans of checkpoints are sent to the collector")
    return CheckpointSpans(job, send), close


def _open_exporter(job: Job) -> tuple[Send, Callable[[], None]]:
    """The library's exporter, batches and sampler, with its own variables.

    :raises ImportError: the image has no such library.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Status, StatusCode, set_span_in_context

    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: f"{job.namespace}.{job.name}"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("kafkaspark")

    def made(span: Span, context: Any) -> Any:
        started = tracer.start_span(span.name, context, attributes=dict(span.attributes), start_time=span.start)
        if span.failed:
            started.set_attribute("error.type", span.failed)
            started.set_status(Status(StatusCode.ERROR))
        return started

    def send(span: Span, parts: list[Span]) -> None:
        root = made(span, None)
        context = set_span_in_context(root)
        for part in parts:
            made(part, context).end(part.end)
        root.end(span.end)

    def close() -> None:
        # A request to a collector that is away takes longer than the attempt's end may.
        closing = threading.Thread(target=provider.shutdown, name="close-spans", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    return send, close
