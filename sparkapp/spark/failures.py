"""Errors that crossed processes: finds ours again inside what Spark reports."""

from __future__ import annotations

import inspect
import re

from sparkapp.model import errors
from sparkapp.model.errors import KafkaSparkJobError, VolumeFull

_OURS = {
    name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, KafkaSparkJobError)
}
_SHOWN = 800
_NO_ROOM = re.compile(r"[^\n]*(?:No space left on device|Disk quota exceeded)[^\n]*")
"""What the system says to Spark's own writers: of the query log, operators' state, and shuffles."""
_RAISED = re.compile(r"(?:^|\s|')sparkapp\.model\.errors\.(\w+): ([^\n]*)")


def original_error(failure: BaseException | str | None) -> KafkaSparkJobError:
    """The error that a task or Spark's reader process raised, found in the text of Spark's exception.

    Spark carries a worker's traceback as text. The last of our errors in it is the cause; without one it may be a full
    disk, which Spark's own writers meet; else the first lines of Spark's own message are kept.
    """
    text = str(failure) if failure is not None else "the query ended without an error"
    found = [match for match in _RAISED.finditer(text) if match.group(1) in _OURS]
    if found:
        return _OURS[found[-1].group(1)](found[-1].group(2).strip())
    full = _NO_ROOM.search(text)
    if full:
        return VolumeFull(full.group().strip()[:_SHOWN])
    lines = [line for line in text.splitlines() if line.strip()]
    python = [line.strip() for line in lines if re.match(r"\s*(\w+\.)*\w*(Error|Exception): ", line)]
    shown = python[-1] if python else " ".join(lines[:3])
    return KafkaSparkJobError(shown[:_SHOWN])
