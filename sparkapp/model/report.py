"""What the driver tells the operator: a running report in a ConfigMap and a termination message in the termination log.

Both are advisory and untrusted: the operator shows them, decides restarts by them, and loses nothing without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

from sparkapp.model import commands, errors
from sparkapp.model.encoding.untrusted import text_of, time_of, whole_of
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.event_reason import DriverEvent, Durability
from sparkapp.model.job.spec import Engine, Job

MAX_REPORT_BYTES = 64 * 1024
MAX_TERMINATION_BYTES = 4096
"""Kubernetes keeps this much of a termination log."""
MAX_MESSAGE = 1000
MAX_EVENTS = 20
MAX_PARTITION_LOADS = 16
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportEvent:
    """Something worth a Kubernetes event; ``sequence`` grows by one, so that each is published once."""

    sequence: int
    type: str
    """Normal or Warning."""
    reason: DriverEvent
    message: str
    time: str


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
    heaviest: tuple[PartitionLoad, ...] = ()


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
    :param heartbeat_seconds: the longest time between two reports; 0 where the driver sends no heartbeats (an image of
        a previous release).
    """

    job_uid: str
    attempt: int
    state: DriverState
    updated_at: str
    totals_known: bool = False
    checkpoint_id: int = 0
    checkpoint_time: str = ""
    checkpoint_duration_millis: int = 0
    checkpoint_bytes: int = 0
    partitions: int = 0
    lag_records: int | None = None
    records_in: int = 0
    records_out: int = 0
    records_skipped: int = 0
    records_dead_lettered: int = 0
    records_judged: bool = False
    records_dropped: str = ""
    records_per_second: int = 0
    records_in_per_second: int = 0
    transactions_committed: int = 0
    transactions_aborted: int = 0
    transactions_open: int = 0
    transactions_hanging: int = 0
    transactions_known: bool = False
    """Whether the coordinators have told what is open; without it, ``transactions_open`` says nothing."""
    oldest_transaction_time: str = ""
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
    load: Load | None = None
    engine: str = ""
    engine_message: str = ""
    durability: Durability = Durability.NOT_OBSERVED
    durability_message: str = ""
    """Cause and remedy; empty for REPLICATED."""
    events: tuple[ReportEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """An attempt's termination message.

    :param log: the end of the attempt's log, or the user's own traceback; as much as Kubernetes has room for.
    """

    outcome: AttemptOutcome
    reason: str
    message: str
    remedy: str = ""
    fatal: bool = False
    checkpoint_id: int = 0
    log: str = ""


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
    return json.dumps(asdict(report) | lag, separators=(",", ":"), ensure_ascii=False)


def encode_termination(termination: Termination) -> str:
    """The termination message as JSON text of at most :data:`MAX_TERMINATION_BYTES`.

    A log loses its beginning; without one, message and remedy lose their ends.
    """
    while len((text := text_of(json.dumps(asdict(termination), ensure_ascii=False))).encode()) > MAX_TERMINATION_BYTES:
        if termination.log:
            termination = replace(
                termination, log=termination.log[-MAX_TERMINATION_BYTES:][len(termination.log) // 20 + 1 :]
            )
            continue
        length = max(len(termination.message), len(termination.remedy)) * 3 // 4
        termination = replace(termination, message=termination.message[:length], remedy=termination.remedy[:length])
    return text


def _load(body: Any) -> Load | None:
    """None where it cannot be read. Nothing but the autoscaler needs it, which then changes nothing."""
    try:
        heaviest = tuple(
            PartitionLoad(text_of(row[0])[:MAX_TOPIC], *map(whole_of, row[1:])) for row in body["heaviest"]
        )[:MAX_PARTITION_LOADS]
        numbers = {each.name: whole_of(body[each.name]) for each in fields(Load) if each.name != "heaviest"}
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None
    read = Load(**numbers, heaviest=heaviest)
    return replace(read, busy_percent=min(read.busy_percent, 100)) if read.window_millis else None


_FIRST = frozenset(
    {
        "attempt", "updated_at", "checkpoint_id", "checkpoint_time", "checkpoint_duration_millis", "checkpoint_bytes",
        "partitions", "records_in", "records_out", "records_per_second", "transactions_committed",
        "transactions_aborted", "transactions_open",
    }
)  # fmt: skip
"""Fields that drivers of every release report. A report without one of them is none; of other fields the default holds.
"""
_APART = frozenset({"events", "lag_records"})
_READ: Mapping[str, Callable[[Any], Any]] = {
    "updated_at": lambda value: text_of(value)[:40],
    "checkpoint_time": time_of,
    "oldest_transaction_time": time_of,
    "engine": lambda value: Engine(engine).value if (engine := text_of(value)) else "",
    "durability": lambda value: Durability.of(text_of(value)),
    "durability_message": lambda value: text_of(value)[: 4 * MAX_MESSAGE],
    "state": DriverState,
    "load": _load,
    "int": whole_of,
    "bool": lambda value: value is True,
    "str": lambda value: text_of(value)[:MAX_MESSAGE],
}
"""How a value is read: by the name of its field, or else by its type."""


def decode_report(text: str, *, job_uid: str) -> Report | None:
    """The report, or None where there is none of this job that can be read."""
    body = _object(text, MAX_REPORT_BYTES)
    if body is None or body.get("job_uid") != job_uid:
        return None
    try:
        values = {
            declared.name: _READ[declared.name if declared.name in _READ else str(declared.type)](body[declared.name])
            for declared in fields(Report)
            if declared.name not in _APART and (declared.name in body or declared.name in _FIRST)
        }
        # Drivers of previous releases do not say it. Their totals are 0 until they run.
        values.setdefault("totals_known", values["state"] is DriverState.RUNNING)
        lag = whole_of(body["lag_records"])
        return Report(
            **values,
            events=tuple(map(_event, body["events"][-MAX_EVENTS:])),
            lag_records=lag if body.get("lag_known") is not False else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _event(item: Any) -> ReportEvent:
    return ReportEvent(
        sequence=whole_of(item["sequence"]),
        type="Warning" if item["type"] == "Warning" else "Normal",
        reason=DriverEvent.of(text_of(item["reason"])),
        message=text_of(item["message"])[:MAX_MESSAGE],
        time=text_of(item["time"])[:40],
    )


_RENAMED = {
    "OperatorStateMissing": errors.QueryStateMissing.reason,
    "OperatorStateIncompatible": errors.QueryStateIncompatible.reason,
}
"""Reasons of drivers of the previous release, and their present names."""


SETTLED = "Settled"
"""The reason of an attempt that was started to settle the transactions of a deleted job."""
CREDENTIALS_CHANGED = "CredentialsChanged"
"""The reason of an attempt that drained by itself so that the next attempt uses the new content of its Secrets."""
_ENDINGS = frozenset({kind.reason for kind in errors.kinds_of()} | set(AttemptOutcome) | {SETTLED, CREDENTIALS_CHANGED})
DRIVER_FAILED = "DriverFailed"
"""The reason of a driver that ended by no error of ours; in place of reasons that this release does not have, too."""


def _termination_reason(text: str) -> str:
    reason = _RENAMED.get(text, text)
    return reason if reason in _ENDINGS else DRIVER_FAILED


def decode_termination(text: str) -> Termination | None:
    """The termination message, or None where the container left none (killed, evicted, out of memory)."""
    body = _object(text, MAX_TERMINATION_BYTES)
    if body is None:
        return None
    try:
        return Termination(
            outcome=AttemptOutcome(body["outcome"]),
            reason=_termination_reason(text_of(body["reason"])),
            message=text_of(body["message"])[:MAX_MESSAGE],
            remedy=text_of(body["remedy"])[:MAX_MESSAGE],
            fatal=body["fatal"] is True,
            checkpoint_id=whole_of(body["checkpoint_id"]),
            log=text_of(body.get("log", "")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _object(text: str, limit: int) -> dict[str, Any] | None:
    if not text or len(text) > limit:
        return None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
