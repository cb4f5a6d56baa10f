"""Errors that crossed processes: finds ours again inside what Spark reports."""

from __future__ import annotations

import inspect
import re

from sparkapp.model import errors
from sparkapp.model.errors import KafkaSparkJobError

_OURS = {
    name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, KafkaSparkJobError)
}
_SPARKS: tuple[tuple[re.Pattern[str], type[KafkaSparkJobError]], ...] = (
    (
        re.compile(
            r"\[(?:STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY|CANNOT_LOAD_STATE_STORE\."
            r"(?:CANNOT_READ_DELTA_FILE_NOT_EXISTS|CANNOT_READ_MISSING_SNAPSHOT_FILE|CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT))\]"
            r"[^\n]*"
        ),
        errors.OperatorStateMissing,
    ),
    (
        re.compile(
            r"\[(?:STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_INVALID_CONFIG_AFTER_RESTART"
            r"|STATE_STORE_(?:KEY|VALUE)_(?:SCHEMA_NOT_COMPATIBLE|ROW_FORMAT_VALIDATION_FAILURE)"
            r"|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE|STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION"
            r"|STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE)\][^\n]*"
        ),
        errors.OperatorStateIncompatible,
    ),
    # What the system says to Spark's own writers: of the query log, operators' state, and shuffles.
    (re.compile(r"[^\n]*(?:No space left on device|Disk quota exceeded)[^\n]*"), errors.VolumeFull),
)
"""What Spark's words mean to a job; looked for in this order."""
_SHOWN = 600
_RAISED = re.compile(r"(?:^|\s|')sparkapp\.model\.errors\.(\w+): ([^\n]*)")


def original_error(failure: BaseException | str | None) -> KafkaSparkJobError:
    """The error that a task or Spark's reader process raised, found in the text of Spark's exception.

    Spark carries a worker's traceback as text. The last of our errors in it is the cause; without one, what Spark says
    of operators' state that it cannot use or of a disk that is full, or the first lines of its message.
    """
    text = str(failure) if failure is not None else "the query ended without an error"
    found = [match for match in _RAISED.finditer(text) if match.group(1) in _OURS]
    if found:
        return _OURS[found[-1].group(1)](found[-1].group(2).strip())
    for words, kind in _SPARKS:
        match = words.search(text)
        if match:
            return kind(match.group()[:_SHOWN])
    lines = [line for line in text.splitlines() if line.strip()]
    python = [line.strip() for line in lines if re.match(r"\s*(\w+\.)*\w*(Error|Exception): ", line)]
    shown = python[-1] if python else " ".join(lines[:3])
    return KafkaSparkJobError(shown[:_SHOWN])
