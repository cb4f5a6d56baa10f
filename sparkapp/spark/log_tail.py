"""The end of the driver's log, for the last word: pod and log are deleted before the next attempt starts."""

from __future__ import annotations

import logging
from collections import deque

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MAX_CHARACTERS = 3000
"""More than fits beside a message into a termination log of 4096 bytes."""


class LogTail(logging.Handler):
    """Keeps the last lines that were logged. Attached to the root logger by ``sparkapp run``."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._lines: deque[str] = deque(maxlen=100)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.extend(self.format(record)[-MAX_CHARACTERS:].splitlines())

    @property
    def text(self) -> str:
        return "\n".join(self._lines)[-MAX_CHARACTERS:]
