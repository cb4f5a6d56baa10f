"""Events of OpenLineage about an attempt (ADR 105); the only importer of its library. Off where no variable asks.

An attempt is a run: it starts, runs for as long as it completes checkpoints, and ends in one of three ways. Events are
sent in a thread of their own, from a queue with a limit. A collector that is away loses events, and nothing else.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from sparkapp import __version__
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.model.errors import CheckpointConflict, KafkaSparkJobError, TransactionFenced
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.sink.ending.log_scope import sink_topics

LOG = logging.getLogger(__name__)

_PACKAGE = "openlineage-python"
_PRODUCER = f"https://kafkaspark.io/{__version__}"
_ASKING = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
"""Variables of the library that name a collector, and the beginning of those of its configuration."""
_RUNNING = timedelta(seconds=60)
"""Least time between two events of an attempt that runs."""
_MAX_WAITING = 16
_MAX_TOPICS = 1000
"""Of the datasets of an event. A pattern may match more topics than a collector takes."""
_CLOSE_SECONDS = 3.0
"""For the last event of an attempt. Kubernetes gives a driver more time to stop."""
_KAFKA_PORT = 9092
_BEHIND_TYPE = re.compile(r"\s+(NOT\s+NULL|COMMENT)\b.*", re.IGNORECASE | re.DOTALL)
"""What follows the type of a column in a DDL."""


class RunState(StrEnum):
    """The state of a run, as OpenLineage names it."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """An event as it is sent.

    :param inputs: topics of the source, and ``outputs``: of the sink, in their order.
    :param failed: the error's reason; empty for a run without an error.
    """

    state: RunState
    at: datetime
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    failed: str = ""


Send = Callable[[RunEvent], None]
"""Sends an event; never blocks and never raises."""


class AttemptLineage:
    """Made by the wiring for an attempt, and called by the attempt.

    :param send: of :func:`open_lineage`.
    :param inputs: gives the topics that are read at the moment.
    :param clock: gives times with a zone.
    """

    def __init__(
        self, job: Job, send: Send, *, inputs: Callable[[], Collection[str]], clock: Callable[[], datetime]
    ) -> None:
        self._send = send
        self._inputs = inputs
        self._clock = clock
        self._outputs = set(sink_topics(job.spec))
        self._sent = clock()

    @contextmanager
    def run(self, *, has_run: Callable[[], bool]) -> Iterator[None]:
        """The run of the attempt, from the start of its engine to its end or its error.

        :param has_run: whether its engine was started before it was asked to stop; asked at an orderly end.
        """
        self._event(RunState.START)
        try:
            yield
        except Exception as error:
            self._failed(error)
            raise
        self._event(RunState.COMPLETE if has_run() else RunState.ABORT)

    def completed(self, completed: Completed) -> None:
        """A checkpoint is visible. Not each is an event of its own."""
        self._outputs |= completed.document.sink_topics
        if self._clock() - self._sent >= _RUNNING:
            self._event(RunState.RUNNING)

    def _failed(self, error: Exception) -> None:
        """An attempt that has failed, or whose place a later attempt has taken.

        The event has the error's reason and not its text, in which user code may have put anything.
        """
        reason = error.reason if isinstance(error, KafkaSparkJobError) else type(error).__name__
        is_replaced = isinstance(error, CheckpointConflict | TransactionFenced)
        self._event(RunState.ABORT if is_replaced else RunState.FAIL, reason)

    def _event(self, state: RunState, failed: str = "") -> None:
        self._sent = self._clock()
        inputs, outputs = (tuple(sorted(topics))[:_MAX_TOPICS] for topics in (self._inputs(), self._outputs))
        self._send(RunEvent(state=state, at=self._sent, inputs=inputs, outputs=outputs, failed=failed))


def is_asked_for(environ: Mapping[str, str]) -> bool:
    """Whether the variables of OpenLineage name a collector, or a file that does."""
    if environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return any(value and name.startswith(_ASKING) for name, value in environ.items())


def open_lineage(
    job: Job, inputs: Callable[[], Collection[str]], environ: Mapping[str, str] = os.environ
) -> tuple[AttemptLineage, Callable[[], None]] | None:
    """The events of an attempt, and what closes them; None where nothing asks for them, or they cannot be sent.

    Called by the wiring. A job never fails for the sake of its events, so the log has why there are none.

    :param job: with the schemas of its source.
    :param inputs: gives the topics that are read at the moment.
    """
    if not is_asked_for(environ):
        return None
    try:
        emit = _client(job, environ.get("OPENLINEAGE_NAMESPACE") or job.namespace)
    except ImportError as error:
        LOG.warning("no events of OpenLineage are sent: install %s in the job's image (%s)", _PACKAGE, error)
        return None
    except Exception as error:  # of a variable that the library cannot read
        LOG.warning("no events of OpenLineage are sent: %s", type(error).__name__)
        return None
    LOG.info("events of OpenLineage are sent to the collector")
    sender = _Sender(emit)
    return AttemptLineage(job, sender.send, inputs=inputs, clock=lambda: datetime.now(UTC)), sender.close


class _Sender:
    """Sends events in a thread of its own.

    :param emit: sends an event, and may block or raise.
    """

    def __init__(self, emit: Callable[[RunEvent], None]) -> None:
        self._emit = emit
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="send-lineage", daemon=True)
        self._thread.start()

    def send(self, event: RunEvent) -> None:
        """Puts an event into the queue. Where that is full, its oldest event is lost."""
        self._put(event)

    def close(self) -> None:
        """Waits for the last events, for some seconds."""
        self._put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _put(self, event: RunEvent | None) -> None:
        while True:
            try:
                return self._waiting.put_nowait(event)
            except queue.Full:
                with suppress(queue.Empty):
                    self._waiting.get_nowait()

    def _run(self) -> None:
        is_away = False
        while (event := self._waiting.get()) is not None:
            try:
                self._emit(event)
                is_away = False
            except Exception as error:  # of any transport of the library
                if not is_away:
                    LOG.warning("events of OpenLineage do not reach the collector: %s", type(error).__name__)
                is_away = True


def _client(job: Job, namespace: str) -> Callable[[RunEvent], None]:
    """What sends an event by the library's client, with its own variables.

    :param namespace: of the job, for the collector.
    :raises ImportError: the image has no such library.
    """
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset, Run, set_producer
    from openlineage.client.event_v2 import Job as LineageJob
    from openlineage.client.event_v2 import RunEvent as LineageEvent
    from openlineage.client.event_v2 import RunState as LineageState
    from openlineage.client.facet_v2 import error_message_run, job_type_job, processing_engine_run, schema_dataset
    from pyspark import __version__ as spark_version

    set_producer(_PRODUCER)
    client = OpenLineageClient()
    run_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{job.uid}/{job.attempt}"))
    source, sink = (_namespace(cluster.bootstrap_servers) for cluster in (job.spec.kafka, job.spec.sink_cluster))
    column = schema_dataset.SchemaDatasetFacetFields
    columns = [column(name=name, type=kind) for name, kind in _columns(job.spec.source)]

    def emit(event: RunEvent) -> None:
        engine = processing_engine_run.ProcessingEngineRunFacet(
            name="Spark", version=spark_version, openlineageAdapterVersion=__version__
        )
        facets: dict[str, Any] = {"processing_engine": engine}
        if event.failed:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=event.failed, programmingLanguage="Python"
            )
        kind = job_type_job.JobTypeJobFacet(
            processingType="BATCH" if job.spec.source.stopping.bounded else "STREAMING",
            integration="KAFKASPARK",
            jobType="JOB",
        )
        schema: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields=columns)} if columns else {}
        client.emit(
            LineageEvent(
                eventTime=event.at.isoformat().replace("+00:00", "Z"),
                eventType=LineageState(event.state.value),
                run=Run(runId=run_id, facets=facets),
                job=LineageJob(namespace=namespace, name=job.name, facets={"jobType": kind}),
                inputs=[InputDataset(namespace=source, name=topic, facets=dict(schema)) for topic in event.inputs],
                outputs=[OutputDataset(namespace=sink, name=topic) for topic in event.outputs],
            )
        )

    return emit


def _namespace(bootstrap_servers: str) -> str:
    """The namespace of a cluster's topics, by the naming of OpenLineage: its first bootstrap server."""
    first = bootstrap_servers.partition(",")[0].strip()
    has_port = first.rpartition(":")[2].isdigit() and not first.endswith("]")
    return f"kafka://{first}" if has_port else f"kafka://{first}:{_KAFKA_PORT}"


def _columns(source: Source) -> Iterator[tuple[str, str]]:
    """Names and types of the value's columns, where the source has a schema in text."""
    if source.value_format is Format.JSON:
        yield from ddl_columns(source.value_schema)
    elif source.value_format is Format.AVRO:
        record = json.loads(source.value_schema)
        for field in record.get("fields", ()):
            yield field["name"], _avro_type(field["type"])


def _avro_type(kind: object) -> str:
    others = [each for each in kind if each != "null"] if isinstance(kind, list) else [kind]
    found = others[0] if len(others) == 1 else others
    if isinstance(found, dict):
        return str(found.get("logicalType") or found.get("name") or found["type"])
    return found if isinstance(found, str) else json.dumps(found)


def ddl_columns(schema: str) -> Iterator[tuple[str, str]]:
    """The columns of a DDL of Spark, each with its type as it is written there."""
    column, depth, quote = "", 0, ""
    for sign in f"{schema},":
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "`'\"":
            quote = sign
        else:
            depth += (sign in "<(") - (sign in ">)")
        if sign == "," and not quote and depth == 0:
            yield _named(column.strip())
            column = ""
        else:
            column += sign


def _named(column: str) -> tuple[str, str]:
    name, _, kind = column[1:].partition("`") if column.startswith("`") else column.partition(" ")
    return name.rstrip(":"), _BEHIND_TYPE.sub("", kind.lstrip(" :"))
