"""Log lines as JSON objects. Messages quote text that others wrote, so a newline in it must not begin another line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

MAX_MESSAGE = 16_384
"""Characters of a message or an exception that are written."""


class JsonFormatter(logging.Formatter):
    """One ASCII line for each record: ``time``, ``level``, ``logger``, ``message`` and, where there is one,
    ``exception``. JSON escapes newlines, terminal codes and every character outside of ASCII.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:MAX_MESSAGE],
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-MAX_MESSAGE:]
        return json.dumps(line, ensure_ascii=True)


def log_as_json(level: str) -> None:
    """Sets up the root logger. Called by the main programs of operator, driver and Python workers."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler])
