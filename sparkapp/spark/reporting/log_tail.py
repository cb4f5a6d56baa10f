"""The end of the driver's log, for the termination message: pod and log are deleted before the next attempt."""

from __future__ import annotations

import logging
from collections import deque

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MAX_CHARACTERS = 3000
"""More than a termination log of 4096 bytes has room for, with a message."""


class LogTail(logging.Handler):
    """Keeps the last lines of the log. Attached to the root logger by ``sparkapp run``."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._lines: deque[str] = deque(maxlen=100)

    def emit(self, record: logging.LogRecord) -> None:
        """Adds the lines of a record; called by :mod:`logging`."""
        self._lines.extend(self.format(record)[-MAX_CHARACTERS:].splitlines())

    @property
    def text(self) -> str:
        """At most :data:`MAX_CHARACTERS` characters."""
        return "\n".join(self._lines)[-MAX_CHARACTERS:]
