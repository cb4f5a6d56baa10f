"""Measures the job's lag in a thread of the driver, so that the lag of a stalled stream grows."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import Protocol

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.clients.deadline import Clock
from sparkapp.model.errors import KafkaAccessError
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import BEGINNINGS_SECONDS, HEARTBEAT_SECONDS
from sparkapp.spark.reporting.load_meter import Look
from sparkapp.spark.reporting.progress import Pending, Progress

LOG = logging.getLogger(__name__)

KNOWN_SECONDS = 3 * HEARTBEAT_SECONDS
"""Age in seconds after which a measured lag is unknown."""
_CLOSE_SECONDS = 30.0
"""A question to the brokers gives up before."""


class Source(Protocol):
    """The methods of the enumerator that the clock calls."""

    @property
    def pending(self) -> Pending | None:
        """Records of each partition not yet read at the last look; None before it."""
        ...

    @property
    def ends(self) -> Mapping[TopicPartition, int] | None:
        """The partitions' ends at the last look; None before it."""
        ...

    @property
    def seconds_since_look(self) -> float:
        """Age of the last look in seconds."""
        ...

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Ids of the topics that are read, as far as they are known."""
        ...

    def look(self) -> None:
        """Asks the brokers for the partitions' ends.

        :raises KafkaAccessError: no broker answers.
        """
        ...

    def beginnings(self) -> Mapping[TopicPartition, int]:
        """Asks the brokers where the partitions begin; empty where that is not reported.

        :raises KafkaAccessError: no broker answers.
        """
        ...


class LagClock:
    """A daemon thread that asks the brokers for the partitions' ends, until :meth:`close`.

    A plan of the enumerator asks, too. An idle job plans several times a second, so only long micro-batches and stalls
    cost requests.

    Every :data:`BEGINNINGS_SECONDS` it also asks where the partitions begin, for snapshots (ADR 89).

    :param interval: seconds between two looks. :param clock: monotonic seconds.
    """

    def __init__(
        self, source: Source, progress: Progress, *, interval: float = HEARTBEAT_SECONDS, clock: Clock = time.monotonic
    ) -> None:
        self._clock = clock
        self._begins_at = -math.inf
        self._source = source
        self._progress = progress
        self._interval = interval
        self._thread = PeriodicThread(self.tick, name="lag-clock", interval=interval, patience=_CLOSE_SECONDS)

    def start(self) -> None:
        """Starts the thread; called by the wiring when the first document is written."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and waits for its last look."""
        self._thread.close()

    @property
    def pending(self) -> Pending | None:
        """Records of each partition not yet read; None if unknown. From any thread."""
        return self._source.pending if self._source.seconds_since_look <= KNOWN_SECONDS else None

    @property
    def look(self) -> Look | None:
        """The last look; None if the lag is unknown. From any thread."""
        age, ends = self._source.seconds_since_look, self._source.ends
        return Look(age, ends) if ends is not None and age <= KNOWN_SECONDS else None

    def tick(self) -> None:
        """Asks the brokers if the last answer is older than the interval; called by the thread."""
        if self._source.pending is None or self._source.seconds_since_look >= self._interval:
            try:
                self._source.look()
            except KafkaAccessError as error:
                LOG.warning("lag could not be measured: %s", error)
        self._progress.measured()
        if self._clock() - self._begins_at >= BEGINNINGS_SECONDS:
            self._look_at_beginnings()

    def _look_at_beginnings(self) -> None:
        try:
            found = self._source.beginnings()
        except KafkaAccessError as error:
            LOG.warning("the beginnings of the partitions are unknown: %s", error)
            return
        self._begins_at = self._clock()
        self._progress.begins(found, self._source.topic_ids)
