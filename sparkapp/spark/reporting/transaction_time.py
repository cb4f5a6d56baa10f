"""Warns of an old open transaction before the brokers abort it at its time-out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.sections.sink import Sink
from sparkapp.sink.ending.orphans import OpenNow
from sparkapp.spark.reporting.progress import Progress
from sparkapp.spark.reporting.reporter import Reporter

LOG = logging.getLogger(__name__)

WARNED_PERCENTS = (80, 50)
"""Percentages of the time-out at which a warning is due, highest first."""

_OFFSETS = "source.limits.maxOffsetsPerCheckpoint"
"""A transaction lasts as long as its checkpoint is written."""


@dataclass(frozen=True, slots=True)
class TimeUsed:
    """A percentage of the time-out that the oldest transaction reached.

    :param percent: 50 or 80; 0 if no transaction is that old any more.
    :param message: for the event; empty with 0.
    """

    percent: int
    message: str = ""


class TransactionTime:
    """Judges each look of the orphan sweep at the open transactions, as metrics and TransactionsHealthy do.

    :param commit_interval_millis: of a subtask's own transactions, or 0.
    :param now: Unix time in seconds.
    """

    def __init__(self, sink: Sink, *, commit_interval_millis: int = 0, now: Callable[[], float] = time.time) -> None:
        self._limit = sink.transaction_timeout_seconds
        self._shorter = "checkpoint.commitIntervalMillis" if commit_interval_millis else _OFFSETS
        self._now = now
        self._told = 0

    def shown_by(self, progress: Progress, reporter: Reporter) -> Callable[[OpenNow | None], None]:
        """What the orphan sweep calls after each look, with None if the coordinators did not answer."""

        def observed(found: OpenNow | None) -> None:
            progress.transactions(found)
            reached = self.reached(found)
            if reached is not None:
                reporter.update(transaction_time_used=reached.percent)
                if reached.message:
                    LOG.warning("%s", reached.message)
                    reporter.warn(DriverEvent.TRANSACTION_TIME_RUNS_OUT, reached.message)

        return observed

    def reached(self, found: OpenNow | None) -> TimeUsed | None:
        """The change since the last look; None without a change, or if the coordinators did not answer."""
        if found is None or not self._limit:
            return None
        percent = 0
        if found.oldest_start_millis is not None:
            used = (self._now() - found.oldest_start_millis / 1000) * 100 / self._limit
            percent = next((share for share in WARNED_PERCENTS if used >= share), 0)
        if percent == self._told:
            return None
        self._told = percent
        if not percent:
            return TimeUsed(0)
        return TimeUsed(
            percent,
            f"the oldest open transaction used {percent} % of its time-out: the brokers abort it after {self._limit} s."
            f" Fix: raise spec.sink.transactions.timeoutSeconds, or lower spec.{self._shorter}",
        )
