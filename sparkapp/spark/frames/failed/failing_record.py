"""Finds the record for which the user's function raises, by calls with smaller and smaller parts of the failed batch.

The results of these calls are thrown away. Each part is half of the last, so all calls together have at most twice the
records of the batch. A function that counts calls or records in variables of its own sees them, too. Its task has
failed, and the next try of the task calls a factory again.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable

import pyarrow as pa

from sparkapp.clients.deadline import Deadline
from sparkapp.model.errors import KafkaSparkJobError, RecordFailed, TransformFailed
from sparkapp.spark.frames.user_frames import frames_of, user_frame

SECONDS = 20.0
"""For all calls of a search. The call that is under way then is the last."""
_SHOWN, _KEY_SHOWN = 600, 64
"""Characters of an exception and of a key that a message has: both may be anybody's."""
NOT_OF_A_RECORD = (OSError, MemoryError, ImportError, KafkaSparkJobError)
"""A service, the container or the code is the cause, or the function's result. ``OSError`` has those of connections."""

Function = Callable[[pa.RecordBatch], Iterable[object]]


def named_failure(error: Exception, batch: pa.RecordBatch, function: Function) -> Exception:
    """The error to raise in place of one of the user's function: it names the record, if a single record fails.

    Called by the task, which has failed.

    :param batch: for which the function raised it; with columns ``topic``, ``partition``, ``offset`` and ``key``.
    :param function: gives the results of a part of the batch.
    :returns: the error itself where it says nothing about a record, or the time is over.
    """
    if not is_of_a_record(error) or not batch.num_rows:
        return error
    deadline = Deadline.after(SECONDS)
    first, count = 0, batch.num_rows
    while count > 1:
        half = count // 2
        for start, size in ((first, half), (first + half, count - half)):
            if deadline.expired:
                return error
            raised = _raised(function, batch.slice(start, size))
            if raised is not None:
                break
        else:
            text = f"{raised_text(error)}, for a batch of {count} records and not for its halves"
            return TransformFailed(text, detail=_traceback_of(error))
        if type(raised) is not type(error):
            return error
        first, count, error = start, size, raised
    last = batch.num_rows - 1
    fails_again = first < last and not deadline.expired and _raised(function, batch.slice(last)) is not None
    text = f"{position_in(batch, first)}: {raised_text(error)}"
    text += "; it fails for other records, too" if fails_again else ""
    return RecordFailed(text, detail=_traceback_of(error))


def is_of_a_record(error: Exception) -> bool:
    """Whether a record can be the cause of what the user's function raised."""
    return not isinstance(error, NOT_OF_A_RECORD)


def position_text(topic: str, partition: int, offset: int, key: object) -> str:
    """The position of a record as messages name it. The key is Python's text, and cut."""
    text = f"topic {topic}, partition {partition}, offset {offset}"
    if key is None:
        return text
    kept = key[:_KEY_SHOWN] if isinstance(key, str | bytes) else key
    return f"{text}, key {printable(repr(kept), 4 * _KEY_SHOWN)}" + ("…" if kept != key else "")


def position_in(batch: pa.RecordBatch, row: int) -> str:
    """:func:`position_text` of a row of a batch."""
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    try:
        key = batch.column("key")[row].as_py()
    except (ValueError, OverflowError):  # a field of it is a time that Python does not have
        key = None
    return position_text(topic, partition, offset, key)


def raised_text(error: BaseException) -> str:
    """The exception as Python prints it, on one line and cut, with the user's line."""
    frame = user_frame(frames_of(error))
    return f"{exception_name(error)}: {exception_text(error)}" + (f" ({frame})" if frame is not None else "")


def exception_name(error: BaseException) -> str:
    """The class of an exception, as a traceback names it."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def exception_text(error: BaseException, most: int = _SHOWN) -> str:
    """The text of an exception, on one line and cut to ``most`` characters."""
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be read"
    return printable(text, most)


def printable(text: str, most: int) -> str:
    """The text without control characters, which are escaped as in Python; and cut."""
    kept = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:most])
    return kept if len(text) <= most and len(kept) <= most else f"{kept[:most]}…"


def _raised(function: Function, part: pa.RecordBatch) -> Exception | None:
    try:
        for _ in function(part):
            pass
    except Exception as error:
        return error
    return None


def _traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).strip()
