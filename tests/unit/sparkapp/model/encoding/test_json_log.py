"""A log line is one line, whatever its message quotes."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from sparkapp.model.encoding.json_log import MAX_MESSAGE, JsonFormatter


def line_of(message: str, *, failed: bool = False) -> str:
    error = None
    if failed:
        try:
            raise ValueError(message)
        except ValueError:
            error = sys.exc_info()
    return JsonFormatter().format(logging.LogRecord("x", logging.WARNING, __file__, 1, "%s", (message,), error))


@pytest.mark.parametrize(
    "text",
    [
        'team/orders: lost\n{"level": "ERROR", "message": "forged"}', "\r\x1b[2Jcleared", "\u2028\u2029\x85\x00",
        '"}', "\ud800", "grüße ✓",
    ],
)  # fmt: skip
@pytest.mark.parametrize("failed", [False, True])
def test_hostile_text_is_escaped_in_one_line(text: str, failed: bool) -> None:
    line = line_of(text, failed=failed)
    assert line.isascii()
    assert line.isprintable()
    body = json.loads(line)
    assert (body["level"], body["logger"], body["message"]) == ("WARNING", "x", text)
    assert ("exception" in body) is failed


def test_a_message_is_limited() -> None:
    assert len(line_of("x" * (1 << 20), failed=True)) < 3 * MAX_MESSAGE
