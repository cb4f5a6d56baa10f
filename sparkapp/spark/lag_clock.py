"""Measures the job's lag by a clock of the driver's own, so that the lag of a stalled stream grows."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from sparkapp.model.errors import KafkaAccessError
from sparkapp.model.report import HEARTBEAT_SECONDS
from sparkapp.spark.progress import Pending, Progress

LOG = logging.getLogger(__name__)

KNOWN_SECONDS = 3 * HEARTBEAT_SECONDS
"""A lag that nobody could measure for longer is unknown."""


class Source(Protocol):
    """The enumerator, as the clock sees it."""

    @property
    def pending(self) -> Pending | None: ...

    @property
    def seconds_since_look(self) -> float: ...

    def look(self) -> None: ...


class LagClock:
    """A daemon thread that asks the brokers for the partitions' ends where no plan has done so, until :meth:`close`.

    An idle job plans several times a second, so that only long micro-batches and stalls cost requests.

    :param interval: seconds between two looks.
    """

    def __init__(self, source: Source, progress: Progress, *, interval: float = HEARTBEAT_SECONDS) -> None:
        self._source = source
        self._progress = progress
        self._interval = interval
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag-clock", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=30)

    @property
    def pending(self) -> Pending | None:
        """Records of each partition not yet read; None where nobody knows. From any thread."""
        return self._source.pending if self._source.seconds_since_look <= KNOWN_SECONDS else None

    def tick(self) -> None:
        """One look, where one is due."""
        if self._source.pending is None or self._source.seconds_since_look >= self._interval:
            try:
                self._source.look()
            except KafkaAccessError as error:
                LOG.warning("the lag could not be measured: %s", error)
        self._progress.measured()

    def _run(self) -> None:
        while not self._closed.is_set():
            self.tick()
            self._closed.wait(self._interval)
