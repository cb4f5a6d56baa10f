"""How much of its time the oldest open transaction has used: people are warned before the brokers abort it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sparkapp.model.job import Sink, TransactionTimeout
from sparkapp.sink.orphans import OpenNow

WARNED_PERCENTS = (80, 50)
"""Parts of the time-out at which people are warned, the later one first."""


@dataclass(frozen=True, slots=True)
class TimeUsed:
    """A part of the time-out that has been reached.

    :param percent: 50 or 80; 0 where no transaction is that old any more.
    :param message: for the event; empty with 0.
    """

    percent: int
    message: str = ""


class TransactionTime:
    """Judges each look at the open transactions; the look is the one behind the metrics and TransactionsHealthy.

    :param now: Unix time in seconds.
    """

    def __init__(self, sink: Sink, *, now: Callable[[], float] = time.time) -> None:
        is_limited = sink.transaction_timeout is TransactionTimeout.SECONDS
        self._limit = sink.transaction_timeout_seconds if is_limited else None
        self._now = now
        self._told = 0

    def reached(self, found: OpenNow | None) -> TimeUsed | None:
        """What has changed since the last look; None where nothing did, or the coordinators did not answer."""
        if found is None or self._limit is None:
            return None
        percent = 0
        if found.oldest_start_millis is not None:
            used = (self._now() - found.oldest_start_millis / 1000) * 100 / self._limit
            percent = next((one for one in WARNED_PERCENTS if used >= one), 0)
        if percent == self._told:
            return None
        self._told = percent
        if not percent:
            return TimeUsed(0)
        return TimeUsed(
            percent,
            f"the oldest open transaction has used {percent} % of spec.sink.transactionTimeoutSeconds"
            f" ({self._limit} s), at whose end the brokers abort it. Fix: raise it, or lower"
            " spec.source.maxOffsetsPerCheckpoint",
        )
