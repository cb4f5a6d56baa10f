"""An error as a JSON object, on its way from a task to the driver (ADR 66).

The engine's answers carry the object as text. In the exceptions of Spark it stands behind the traceback of its worker.
The reader takes classes of this release only, and bounds each text: user code can print an object, too.
"""

from __future__ import annotations

import json
from typing import Any

from sparkapp.model import errors
from sparkapp.model.encoding.untrusted import text_of
from sparkapp.model.errors import KafkaSparkJobError, RecordRefused
from sparkapp.model.errors.refusal import KEY_KEPT, Cause, RefusedRecord

MARK = "kafkaspark-error: "
"""Stands before an object within other text."""
MAX_MESSAGE = 4000
MAX_DETAIL = 8000
"""Characters of a message or remedy, and of a detail."""
MAX_TOPIC = 249
_MAX_OBJECT = 6 * (2 * MAX_MESSAGE + MAX_DETAIL) + 1000
"""Characters of an object: JSON writes a character as up to six."""
_MOST_TRIED = 100
"""Marks in a text that are tried, from the last; more would be forged."""

_KINDS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, KafkaSparkJobError)
}


def encode_error(error: KafkaSparkJobError) -> str:
    """The mark and the object, as one line of ASCII. Called in workers."""
    kind = next(kind.__name__ for kind in type(error).__mro__ if _KINDS.get(kind.__name__) is kind)
    body: dict[str, Any] = {"kind": kind, "message": error.message[:MAX_MESSAGE], "remedy": error.remedy[:MAX_MESSAGE]}
    if error.detail:
        body["detail"] = error.detail[-MAX_DETAIL:]
    if isinstance(error, RecordRefused) and error.record is not None:
        body["record"] = _row_of(error.record)
    return MARK + json.dumps(body)


def decode_error(text: str) -> KafkaSparkJobError | None:
    """The last error in a text that has an object. Called by the driver with what a task or Spark said."""
    end = len(text)
    for _ in range(_MOST_TRIED):
        end = text.rfind(MARK, 0, end)
        if end < 0:
            return None
        first = end + len(MARK)
        found = _error_at(text[first : first + _MAX_OBJECT])
        if found is not None:
            return found
    return None


def add_objects_to_tracebacks() -> None:
    """A traceback of this process then has the object behind each error of this project, as a note (PEP 678).

    Called by Spark's Python workers, whose exceptions reach the driver as tracebacks.
    """
    setattr(KafkaSparkJobError, "__notes__", property(lambda error: [encode_error(error)]))  # noqa: B010


def _error_at(text: str) -> KafkaSparkJobError | None:
    try:
        body, _ = json.JSONDecoder().raw_decode(text)
        kind = _KINDS[body["kind"]]
        message = text_of(body["message"])[:MAX_MESSAGE]
        remedy = text_of(body["remedy"])[:MAX_MESSAGE] if "remedy" in body else None
        detail = text_of(body.get("detail", ""))[-MAX_DETAIL:]
        record = _record_of(body["record"]) if "record" in body else None
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        return None
    error = kind(message, remedy=remedy)
    error.detail = detail
    if isinstance(error, RecordRefused):
        error.record = record
    return error


def _row_of(record: RefusedRecord) -> list[Any]:
    key = None if record.key is None else record.key[:KEY_KEPT].hex()
    return [
        record.topic, record.partition, key, record.key_size, record.value_size, record.value_crc, record.is_certain,
        record.cause,
    ]  # fmt: skip


def _record_of(row: Any) -> RefusedRecord:
    """:raises ValueError: and TypeError: it is no record."""
    topic, partition, key, key_size, value_size, value_crc, is_certain, cause = row
    numbers = (partition, key_size, value_size, value_crc)
    if any(type(number) is not int or abs(number) >= 1 << 63 for number in numbers):
        raise ValueError(row)
    kept = None if key is None else bytes.fromhex(key)[:KEY_KEPT]
    return RefusedRecord(text_of(topic)[:MAX_TOPIC], partition, kept, *numbers[1:], is_certain is True, Cause(cause))
