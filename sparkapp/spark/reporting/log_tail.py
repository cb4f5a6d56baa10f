"""The end of the driver's log, for the termination message: pod and log are deleted before the next attempt."""

from __future__ import annotations

import logging
from collections import deque

MAX_CHARACTERS = 3000
"""More than a termination log of 4096 bytes has room for, with a message."""


class LogTail(logging.Handler):
    """Keeps the last lines of the log, as text for people. Attached to the root logger by ``sparkapp run``.

    A message is one line. The lines of a traceback are indented, so that quoted text cannot begin a line of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter())
        self._lines: deque[str] = deque(maxlen=100)

    def emit(self, record: logging.LogRecord) -> None:
        """Adds the lines of a record; called by :mod:`logging`."""
        formatter = self.formatter
        assert formatter is not None
        head = f"{formatter.formatTime(record)} {record.levelname} {record.name}: {_printable(record.getMessage())}"
        self._lines.append(head[:MAX_CHARACTERS])
        if record.exc_info:
            error = formatter.formatException(record.exc_info)[-MAX_CHARACTERS:]
            self._lines.extend(f"  {_printable(line)}" for line in error.splitlines())

    @property
    def text(self) -> str:
        """At most :data:`MAX_CHARACTERS` characters."""
        return "\n".join(self._lines)[-MAX_CHARACTERS:]


def _printable(text: str) -> str:
    """The text with its newlines, terminal codes and other control characters escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
