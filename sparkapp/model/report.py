"""What the driver tells the operator: a running report in a ConfigMap and a termination message in the termination log.

Both are advisory and untrusted: the operator shows them, decides restarts by them, and loses nothing without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from sparkapp.model import commands, errors
from sparkapp.model.encoding.json_parts import Style, decode_part, encode_part, of_type, stored, whole
from sparkapp.model.encoding.strict_json import by_topic, offsets_of, without_ids
from sparkapp.model.encoding.untrusted import text_of, time_of
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.event_reason import DriverEvent, Durability
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.partition import TopicPartition

MAX_REPORT_BYTES = 64 * 1024
MAX_TERMINATION_BYTES = 4096
"""Kubernetes keeps this much of a termination log."""
MAX_MESSAGE = 1000
MAX_EVENTS = 20
MAX_PARTITION_LOADS = 16
MAX_BEGINNINGS = 200
"""Partitions whose beginnings a report has: some kilobytes, which the API server gets with each report."""
MAX_BEGINNINGS_BYTES = 8 * 1024
BEGINNINGS_SECONDS = 300.0
"""Pause between two looks at them."""
MAX_TOPIC = 249
"""Kafka's limit for the name of a topic."""


HEARTBEAT_SECONDS = 10
"""A driver writes its report at least this often. One request of about 1 KiB to the API server; where checkpoints
complete, reports are more frequent and heartbeats cost nothing."""


class DriverState(StrEnum):
    """Where an attempt is."""

    STARTING = "Starting"
    """Checks of Kafka and code, Spark coming up."""
    RECOVERING = "Recovering"
    """Settling the transactions of previous attempts."""
    RUNNING = "Running"
    DRAINING = "Draining"
    """Asked to stop: finishing the checkpoint under way."""


class AttemptOutcome(StrEnum):
    """How an attempt ended, by its own account."""

    DRAINED = "Drained"
    FINISHED = "Finished"
    """A bounded job has read all that it is to read."""
    FAILED = "Failed"


_RENAMED = {
    "OperatorStateMissing": errors.QueryStateMissing.reason,
    "OperatorStateIncompatible": errors.QueryStateIncompatible.reason,
}
"""Reasons of drivers of the previous release, and their present names."""


SETTLED = "Settled"
"""The reason of an attempt that was started to settle the transactions of a deleted job."""
STATE_REMOVED = "StateRemoved"
"""The reason of an attempt that was started to remove the query state of a deleted job."""
CREDENTIALS_CHANGED = "CredentialsChanged"
"""The reason of an attempt that drained by itself so that the next attempt uses the new content of its Secrets."""
_ENDINGS = frozenset(
    {kind.reason for kind in errors.kinds_of()} | set(AttemptOutcome) | {SETTLED, STATE_REMOVED, CREDENTIALS_CHANGED}
)
DRIVER_FAILED = "DriverFailed"
"""The reason of a driver that ended by no error of ours; in place of reasons that this release does not have, too."""


def _termination_reason(value: object, _: str) -> str:
    text = text_of(value)
    reason = _RENAMED.get(text, text)
    return reason if reason in _ENDINGS else DRIVER_FAILED


def _text(most: int) -> Any:
    """Reads a text and keeps its first characters."""
    return lambda value, _: text_of(value)[:most]


_SAID = Style(low=0, is_complete=True, takes_unknown=True, text=_text(MAX_MESSAGE))
"""Of report and termination message. An operator of any release reads every field that it knows."""


def _time(**keywords: Any) -> Any:
    return stored(default="", read=lambda value, _: time_of(value), **keywords)


def _total() -> Any:
    """A number that drivers of every release report: a report without it is none."""
    return stored(default=0, is_needed=True)


def _engine(value: object, _: str) -> str:
    text = text_of(value)
    return Engine(text).value if text else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEvent:
    """Something worth a Kubernetes event; ``sequence`` grows by one, so that each is published once."""

    sequence: int
    type: str = stored(read=lambda value, _: "Warning" if value == "Warning" else "Normal")
    """Normal or Warning."""
    reason: DriverEvent = stored(read=lambda value, _: DriverEvent.of(text_of(value)))
    message: str
    time: str = stored(read=_text(40))


def _events(body: object, path: str) -> tuple[ReportEvent, ...]:
    return tuple(decode_part(ReportEvent, item, path, _SAID) for item in of_type(list, body, path)[-MAX_EVENTS:])


class Scale(NamedTuple):
    """What the operator asks a running driver for, by annotations of the driver's pod (ADR 57)."""

    parallelism: int
    executors: int


class PartitionLoad(NamedTuple):
    """A partition in a :class:`Load`: records that wait, and records a second."""

    topic: str
    partition: int
    lag: int
    arrived_per_second: int
    read_per_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What an attempt had to do, and did, in the last seconds by the driver's monotonic clock; for the autoscaler.

    :param window_millis: the time that the rates are for.
    :param busy_percent: share of that time in which subtasks worked, as their mean. A subtask that waits for records
        does not work.
    :param lag: records that wait, over all partitions.
    :param arrived_per_second: records that producers have added, and ``read_per_second`` records of completed
        checkpoints.
    :param partitions: their number.
    :param heaviest: the partitions with the most to do in the next minute, at most :data:`MAX_PARTITION_LOADS`.
    """

    window_millis: int
    busy_percent: int
    lag: int
    arrived_per_second: int
    read_per_second: int
    partitions: int
    heaviest: tuple[PartitionLoad, ...] = stored(default=(), is_needed=True)


def _load(body: object, path: str) -> Load | None:
    """None where it cannot be read. Nothing but the autoscaler needs it, which then changes nothing."""
    try:
        read = decode_part(Load, body, path, _SAID)
    except (TypeError, ValueError):
        return None
    heaviest = tuple(each._replace(topic=each.topic[:MAX_TOPIC]) for each in read.heaviest[:MAX_PARTITION_LOADS])
    return replace(read, busy_percent=min(read.busy_percent, 100), heaviest=heaviest) if read.window_millis else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginnings:
    """Where the logs of the partitions begin that a job reads: Kafka has deleted what was before.

    :param offsets: the first offset of each partition. :param topic_ids: of the topics, as far as they are known.
    :param cluster_id: of the Kafka cluster; empty where it is unknown.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str = ""


def beginnings_of(
    offsets: Mapping[TopicPartition, int], *, topic_ids: Mapping[str, str], cluster_id: str
) -> Beginnings | None:
    """What a report says of them; None where there are none, or it has no room for them.

    Called by the driver. Longer names would make the whole report too large to be read.
    """
    found = Beginnings(offsets=offsets, topic_ids=topic_ids, cluster_id=cluster_id)
    size = len(json.dumps(_write_beginnings(found)))
    return found if 0 < len(offsets) <= MAX_BEGINNINGS and size <= MAX_BEGINNINGS_BYTES else None


def _write_beginnings(value: Beginnings | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"cluster": value.cluster_id, "offsets": by_topic(value.offsets, ids=value.topic_ids)}


def _beginnings(body: object, path: str) -> Beginnings | None:
    """None where it cannot be read. Nothing but the condition of a snapshot needs it, which is Unknown then."""
    try:
        found = of_type(dict, body, path)
        offsets, topic_ids = without_ids(found.get("offsets"), path)
        cluster_id = text_of(found.get("cluster"))[:MAX_TOPIC]
        return Beginnings(offsets=offsets_of(offsets, path), topic_ids=topic_ids, cluster_id=cluster_id)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The driver's running report; numbers are totals of the job unless their name says otherwise.

    :param totals_known: whether recovery has read the job's totals; before that, every total is 0.
    :param records_judged: whether the attempt has parsed or dropped any record; only with Skip and DeadLetter.
    :param records_dropped: which records are all dropped, why, and one of them; empty where records parse.
    :param lag_records: records not yet read, measured within the last three heartbeats; None where that is unknown.
    :param records_per_second: records written, and ``records_in_per_second`` records read, between the last two
        checkpoints.
    :param engine: that runs the attempt; empty before it is chosen. ``engine_message`` says why.
    :param transaction_time_used: percent of its time-out that the oldest open transaction has reached: 50, 80, or 0
        below.
    :param parallelism: of the next checkpoint; 0 before the engine runs, and of drivers without a rescale in place.
    :param rescales: whether the attempt can be rescaled in place.
    :param rescaling: the parallelism that the driver was last asked for and changes to; 0 where it was not asked.
    :param steps: a number that changes with each step of a start or an end, and with progress in a step. It is 0 where
        an image of a previous release does not have it.
    :param executors_refused: why Kubernetes refuses executors' pods at the moment; empty where it refuses none.
    :param load: for the autoscaler; None before two looks at it, and of drivers of a previous release.
    :param beginnings: at the last look, every :data:`BEGINNINGS_SECONDS`; None before it, with more than
        :data:`MAX_BEGINNINGS` partitions, and of drivers of a previous release.
    :param heartbeat_seconds: the longest time between two reports; 0 where the driver sends no heartbeats (an image of
        a previous release).
    """

    job_uid: str
    attempt: int
    state: DriverState
    updated_at: str = stored(read=_text(40))
    totals_known: bool = False
    checkpoint_id: int = _total()
    checkpoint_time: str = _time(is_needed=True)
    checkpoint_duration_millis: int = _total()
    checkpoint_bytes: int = _total()
    partitions: int = _total()
    lag_records: int | None = stored(default=None, is_needed=True, read=whole)
    records_in: int = _total()
    records_out: int = _total()
    records_skipped: int = 0
    records_dead_lettered: int = 0
    records_judged: bool = False
    records_dropped: str = ""
    records_per_second: int = _total()
    records_in_per_second: int = 0
    transactions_committed: int = _total()
    transactions_aborted: int = _total()
    transactions_open: int = _total()
    transactions_hanging: int = 0
    transactions_known: bool = False
    """Whether the coordinators have told what is open; without it, ``transactions_open`` says nothing."""
    oldest_transaction_time: str = _time()
    """When the oldest open transaction began, by its broker; empty where none is open."""
    commits_succeeded: int = 0
    """Commits of the group's offsets by this attempt, within transactions or after checkpoints (Flink's name)."""
    commits_failed: int = 0
    heartbeat_seconds: int = 0
    transaction_time_used: int = 0
    parallelism: int = 0
    rescales: bool = False
    rescaling: int = 0
    steps: int = 0
    executors_refused: str = ""
    load: Load | None = stored(default=None, read=_load)
    beginnings: Beginnings | None = stored(default=None, read=_beginnings, write=_write_beginnings)
    engine: str = stored(default="", read=_engine)
    engine_message: str = ""
    durability: Durability = stored(
        default=Durability.NOT_OBSERVED, read=lambda value, _: Durability.of(text_of(value))
    )
    durability_message: str = stored(default="", read=_text(4 * MAX_MESSAGE))
    """Cause and remedy; empty for REPLICATED."""
    events: tuple[ReportEvent, ...] = stored(default=(), is_needed=True, read=_events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """An attempt's termination message.

    :param log: the end of the attempt's log, or the user's own traceback; as much as Kubernetes has room for.
    """

    outcome: AttemptOutcome
    reason: str = stored(read=_termination_reason)
    message: str
    remedy: str = stored(default="", is_needed=True)
    fatal: bool = stored(default=False, is_needed=True, read=lambda value, _: value is True)
    checkpoint_id: int = _total()
    log: str = stored(default="", read=lambda value, _: text_of(value))


def termination_of(error: BaseException, *, job: Job | None = None, checkpoint_id: int = 0) -> Termination:
    """The termination message for an error: ours name reason and remedy, others are shown as they are.

    :param job: whose attempt ends; None where its description could not be read.
    """
    if isinstance(error, KafkaSparkJobError):
        remedy = error.remedy if job is None else commands.remedy_for(error, job)
        return Termination(
            outcome=AttemptOutcome.FAILED, reason=error.reason, message=error.message[:MAX_MESSAGE],
            remedy=remedy[:MAX_MESSAGE], fatal=error.fatal, checkpoint_id=checkpoint_id,
            log=error.detail,
        )  # fmt: skip
    return Termination(
        outcome=AttemptOutcome.FAILED,
        reason=KafkaSparkJobError.reason,
        message=f"{type(error).__name__}: {error}"[:MAX_MESSAGE],
        remedy=KafkaSparkJobError.default_remedy,
        checkpoint_id=checkpoint_id,
    )


def encode_report(report: Report) -> str:
    # An operator of a previous release reads a number in any case.
    lag = {"lag_records": report.lag_records or 0, "lag_known": report.lag_records is not None}
    return json.dumps(encode_part(report, _SAID) | lag, separators=(",", ":"), ensure_ascii=False)


def encode_termination(termination: Termination) -> str:
    """The termination message as JSON text of at most :data:`MAX_TERMINATION_BYTES`.

    A log loses its beginning; without one, message and remedy lose their ends.
    """
    while (
        len((text := text_of(json.dumps(encode_part(termination, _SAID), ensure_ascii=False))).encode())
        > MAX_TERMINATION_BYTES
    ):
        if termination.log:
            termination = replace(
                termination, log=termination.log[-MAX_TERMINATION_BYTES:][len(termination.log) // 20 + 1 :]
            )
            continue
        length = max(len(termination.message), len(termination.remedy)) * 3 // 4
        termination = replace(termination, message=termination.message[:length], remedy=termination.remedy[:length])
    return text


def decode_report(text: str, *, job_uid: str) -> Report | None:
    """The report, or None where there is none of this job that can be read."""
    body = report_fields(text, job_uid=job_uid)
    if body is None:
        return None
    # Drivers of previous releases do not say it. Their totals are 0 until they run.
    body.setdefault("totals_known", body.get("state") == DriverState.RUNNING)
    try:
        report = decode_part(Report, body, "", _SAID)
    except (TypeError, ValueError):
        return None
    return report if body.get("lag_known") is not False else replace(report, lag_records=None)


def report_fields(text: str, *, job_uid: str) -> dict[str, Any] | None:
    """The fields of a report of this job, as they are written; None where there is none. No value is checked.

    Called by the operator for each heartbeat, to compare it with the report before it.
    """
    body = _object(text, MAX_REPORT_BYTES)
    return None if body is None or body.get("job_uid") != job_uid else body


def decode_termination(text: str) -> Termination | None:
    """The termination message, or None where the container left none (killed, evicted, out of memory)."""
    body = _object(text, MAX_TERMINATION_BYTES)
    try:
        return None if body is None else decode_part(Termination, body, "", _SAID)
    except (TypeError, ValueError):
        return None


def _object(text: str, limit: int) -> dict[str, Any] | None:
    if not text or len(text) > limit:
        return None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
