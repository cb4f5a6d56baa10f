"""Commits group offsets outside transactions, for monitoring: one commit under way, the newest wins (case S37)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)


class OffsetCommitCallback(Protocol):
    """Told of each commit, in the committer's thread (what Flink's callback of seed 000 counts)."""

    def on_complete(self, offsets: Mapping[TopicPartition, int], error: str) -> None:
        """One commit has its answer.

        :param offsets: what the group has now; without the partitions that were refused.
        :param error: why all or some were refused, else empty.
        """
        ...


class OffsetCommitter:
    """Takes offsets after each completed checkpoint and commits them in a thread of its own.

    A failed commit never fails the job: the checkpoint is what a restart reads, the group's offsets are for people
    and tools. While a commit is under way newer offsets replace those that still wait; offsets whose commit failed go
    along with the next one, unless newer ones have come by then.

    :param config: the job's consumer configuration.
    """

    def __init__(self, config: Mapping[str, str], callback: OffsetCommitCallback) -> None:
        self._consumer = Consumer(dict(config))
        self._callback = callback
        self._condition = threading.Condition()
        self._waiting: dict[TopicPartition, int] = {}
        self._refused: dict[TopicPartition, int] = {}
        """Offsets of failed commits; used in the thread alone."""
        self._busy = False
        self._closed = False
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
        if self._thread.is_alive():
            # librdkafka looks for a group's coordinator for a minute; to close under a commit ends the process.
            LOG.warning("a commit of group offsets is still under way at the end and is given up")
            return
        self._consumer.close()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._closed)
                if self._closed and not self._waiting:
                    return
                offsets, self._waiting, self._busy = self._refused | self._waiting, {}, True
            self._commit(offsets)
            with self._condition:
                self._busy = False
                self._condition.notify_all()

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            answers = self._consumer.commit(
                offsets=[ClientPartition(topic, number, offset) for (topic, number), offset in offsets.items()],
                asynchronous=False,
            )
            errors = {TopicPartition(one.topic, one.partition): one.error for one in answers if one.error is not None}
        except KafkaException as error:
            errors = dict.fromkeys(offsets, error.args[0])
        # A partition that is gone would be refused for ever.
        self._refused = {
            partition: offsets[partition]
            for partition, error in errors.items()
            if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART
        }
        text = ""
        if errors:
            partition, first = next(iter(errors.items()))
            text = f"{len(errors)} of {len(offsets)} partitions refused, {partition}: {first.str()}"
            LOG.warning("committing group offsets failed (the job goes on): %s", text)
        committed = {partition: offset for partition, offset in offsets.items() if partition not in errors}
        self._callback.on_complete(committed, text)
