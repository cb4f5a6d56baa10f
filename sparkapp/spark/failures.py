"""Errors of tasks, as the driver gets them: our own as objects, those of Spark and of user code as text."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from sparkapp.model import errors
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.encoding.error_object import decode_error, encode_error
from sparkapp.model.errors import KafkaSparkJobError, RecordFailed, RecordRefused, SparkDied, TransformFailed
from sparkapp.source.refused_record import ranges_of
from sparkapp.spark.frames.failed.failing_record import printable
from sparkapp.spark.frames.user_frames import user_error

_REFUSED_FILE = "(?:Mkdirs failed to create file:|Read-only file system|Input/output error|Stale file handle)"
_SPARKS: tuple[tuple[re.Pattern[str], type[KafkaSparkJobError]], ...] = (
    (
        re.compile(
            r"\[(?:STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY|CANNOT_LOAD_STATE_STORE\."
            r"(?:CANNOT_READ_DELTA_FILE_NOT_EXISTS|CANNOT_READ_MISSING_SNAPSHOT_FILE|CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT))\]"
            r"[^\n]*"
        ),
        errors.QueryStateMissing,
    ),
    (
        re.compile(
            r"\[(?:STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_INVALID_CONFIG_AFTER_RESTART"
            r"|STATE_STORE_(?:KEY|VALUE)_(?:SCHEMA_NOT_COMPATIBLE|ROW_FORMAT_VALIDATION_FAILURE)"
            r"|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE|STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"
            r"|STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE)\][^\n]*"
        ),
        errors.QueryStateIncompatible,
    ),
    (
        re.compile(r"\[STATE_REPARTITION_INVALID_CHECKPOINT\.UNSUPPORTED_[A-Z_]*\][^\n]*"),
        errors.RepartitionRefused,
    ),
    # Of Hadoop's client, to Spark's writers and readers of query state.
    (
        re.compile(
            r"[^\n]*(?:org\.apache\.hadoop\.fs\.s3a\.\w+Exception|software\.amazon\.awssdk\.\S+Exception): [^\n]*"
        ),
        errors.StateStoreUnusable,
    ),
    # Of the operating system, to Spark's writers of the query log, query state and shuffles.
    (re.compile(r"[^\n]*(?:No space left on device|Disk quota exceeded)[^\n]*"), errors.VolumeFull),
    # The same, where the cause is another, or Hadoop's local files do not say it: a full volume has no new folder. A
    # query's exception begins with the message of its cause, without its class.
    (
        re.compile(
            rf"[^\n]*java\.[a-z.]+\.\w+Exception: [^\n]*{_REFUSED_FILE}[^\n]*"
            rf"|\A[^\n]*{_REFUSED_FILE}[^\n]*(?=\n=== Streaming Query ===)"
        ),
        errors.VolumeUnusable,
    ),
)
"""Spark's messages with a meaning for the job, searched in this order."""
_DATA_ERROR = re.compile(r"\[[A-Z][A-Z0-9_.]*\][^\n]*SQLSTATE: (?:22\w{3}|P0001)(?:\n== SQL[^\n]*\n[^\n]*)?")
"""A value that an expression refuses (SQLSTATE class 22: casts, divisions, indexes), or ``raise_error``."""
_SHOWN = 600
_REAPED_SECONDS, _ENDED_SECONDS = 2.0, 0.1
"""Longest waits for the exit status of a JVM that Py4J has lost, and of a JVM that may end at this moment."""
MAX_FAILURES = 4
"""Of a subtask that gets no further, as ``spark.task.maxFailures`` has it for a task."""


def printed(error: BaseException) -> str:
    """An error of a task for its answer to the driver, where :func:`original_error` reads it.

    An error of ours is its object. Another has its traceback, which shows the user's line.
    """
    if isinstance(error, KafkaSparkJobError):
        return encode_error(error)
    return "".join(traceback.format_exception(error)).strip()


def original_error(failure: BaseException | str | None) -> KafkaSparkJobError:
    """The error of a task.

    Called by engine and flush, with an exception of Spark or the text of an answer (:func:`printed`). The cause is the
    first of these in it:

    1. the last object of an error of ours;
    2. a message of Spark about unusable query state or an unusable disk;
    3. an exception of the user's function or query;
    4. the first lines of Spark's message.
    """
    if isinstance(failure, KafkaSparkJobError):
        return failure
    text = str(failure) if failure is not None else "the query ended without an error"
    ours = decode_error(text)
    if ours is not None:
        return ours
    for pattern, kind in _SPARKS:
        match = pattern.search(text)
        if match:
            return kind(match.group()[:_SHOWN])
    theirs = user_error(text)
    if theirs is not None:
        return TransformFailed(f"{printable(theirs.raised, _SHOWN)} ({theirs.frame})", detail=theirs.traceback)
    match = _DATA_ERROR.search(text)
    if match:
        printed_lines = (printable(line, _SHOWN) for line in match.group()[:_SHOWN].split("\n"))
        return TransformFailed("\n".join(printed_lines))
    lines = [line for line in text.splitlines() if line.strip()]
    python = [line.strip() for line in lines if re.match(r"\s*(\w+\.)*\w*(Error|Exception): ", line)]
    shown = python[-1] if python else " ".join(lines[:3])
    return KafkaSparkJobError(shown[:_SHOWN])


def cause_of(error: BaseException, jvm_status: Callable[[float], int | None]) -> BaseException:
    """The error itself, or :class:`SparkDied` where the JVM has ended; called by the driver when an attempt fails.

    The end of the JVM closes the connections of Py4J, of tasks and of Python workers, and any of them may fail first.

    :param jvm_status: waits for that number of seconds. The exit status of the JVM as ``subprocess`` gives it,
        negative for a signal; None while it runs, or if it is unknown.
    """
    is_lost = lost_jvm(error)
    status = jvm_status(_REAPED_SECONDS if is_lost else _ENDED_SECONDS)
    if status is None and not is_lost:
        return error
    how = "" if status is None else f" by signal {-status}" if status < 0 else f" with exit status {status}"
    return SparkDied(f"the driver's JVM ended{how}")


def lost_jvm(error: BaseException) -> bool:
    """Whether Py4J raised the error because the JVM ended: a closed connection, or a refused new connection.

    For a call under way Py4J's message lacks the JVM's trace.
    """
    return any(_is_lost_connection(cause) for cause in _chain(error))


def while_reading(error: KafkaSparkJobError, splits: Iterable[KafkaPartitionSplit]) -> KafkaSparkJobError:
    """Adds the source offsets of the failed checkpoint to an error about a record: the record is among them.

    Not where the error names its record. Those of a :class:`RecordRefused` become part of its message later, by
    :func:`sparkapp.source.refused_record.with_source`.
    """
    read = [split for split in splits if split.size]
    if isinstance(error, RecordRefused):
        error.reading = tuple(read)
    if not read or not isinstance(error, TransformFailed) or isinstance(error, RecordFailed):
        return error
    return TransformFailed(
        f"{error.message}, while it read {ranges_of(read)}", remedy=error.remedy, detail=error.detail
    )


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _is_lost_connection(error: BaseException) -> bool:
    # PySpark's, of a JVM that ended before Py4J had its address.
    if isinstance(error, Py4JNetworkError) or "[JAVA_GATEWAY_EXITED]" in str(error):
        return True
    if isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError):
        return "Trace:" not in str(error)
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, OSError) and bool(frames) and "py4j" in frames[-1].filename
