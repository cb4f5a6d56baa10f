"""Commits group offsets outside transactions, for monitoring: one commit under way, the newest wins (case S37)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)


class OffsetCommitter:
    """Takes offsets after each completed checkpoint and commits them in a thread of its own.

    A failed commit is counted and never fails the job: the checkpoint is what a restart reads, the group's offsets
    are for people and tools. While a commit is under way newer offsets replace those that still wait.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._consumer = Consumer(dict(config))
        self._condition = threading.Condition()
        self._waiting: dict[TopicPartition, int] = {}
        self._busy = False
        self._closed = False
        self.succeeded = 0
        self.failed = 0
        self._thread = threading.Thread(target=self._run, name="offset-committer", daemon=True)
        self._thread.start()

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Hands offsets over and returns at once."""
        with self._condition:
            self._waiting.update(offsets)
            self._condition.notify_all()

    def drain(self, timeout: float) -> bool:
        """Waits until nothing waits or is under way; for an orderly stop."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._waiting and not self._busy, timeout)

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join(timeout=10)
        self._consumer.close()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._closed)
                if self._closed and not self._waiting:
                    return
                offsets, self._waiting, self._busy = self._waiting, {}, True
            try:
                self._consumer.commit(
                    offsets=[ClientPartition(topic, number, offset) for (topic, number), offset in offsets.items()],
                    asynchronous=False,
                )
                self.succeeded += 1
            except KafkaException as error:
                self.failed += 1
                LOG.warning("committing group offsets failed (the job goes on): %s", error)
            with self._condition:
                self._busy = False
                self._condition.notify_all()
