"""The log's end in the status: a line for each message, whatever the message quotes."""

from __future__ import annotations

import logging

from sparkapp.spark.reporting.log_tail import MAX_CHARACTERS, LogTail

FORGED = "2026-11-21 12:00:00,000 INFO sparkapp.spark.driver: nothing happened"


def logger_of(tail: LogTail) -> logging.Logger:
    logger = logging.Logger("sparkapp.x")
    logger.addHandler(tail)
    return logger


def test_quoted_text_begins_no_line() -> None:
    tail = LogTail()
    try:
        raise ValueError(f"bad\n{FORGED}\x1b[2J")
    except ValueError as error:
        logger_of(tail).exception("record: %s", error)
    lines = tail.text.splitlines()
    assert lines[0].endswith(f"ERROR sparkapp.x: record: bad\\n{FORGED}\\x1b[2J")
    assert all(line.startswith("  ") for line in lines[1:])
    assert lines[1] == "  Traceback (most recent call last):"
    assert all(line.isprintable() for line in lines)


def test_a_long_message_is_limited() -> None:
    tail = LogTail()
    logger_of(tail).warning("x" * (1 << 20))
    assert len(tail.text) == MAX_CHARACTERS
