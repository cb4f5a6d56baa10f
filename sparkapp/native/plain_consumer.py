"""The consumer's fallback without the C extension: confluent_kafka's message objects, gathered by Python."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from sparkapp.model.errors import ReadTimedOut
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.native.broker_errors import BrokerErrors
from sparkapp.native.interface import ALL_COLUMNS
from sparkapp.native.kafka_errors import RETRIED, error_for
from sparkapp.native.lanes import Lane, align, unfinished
from sparkapp.native.plain_columns import batch_of
from sparkapp.native.settings import consumer_settings

_TAKE = 10_000
"""Messages taken from the client at once."""
_WAIT = 0.1
_KEEP = 20_000
"""Messages kept of a partition that is not read now, before its fetching is paused."""


@dataclass(slots=True)
class _Kept:
    """Messages of a partition that the client handed out and the caller has not got.

    :param reached: every record below this offset has been handed out; record gaps and the log's end move it too.
    """

    reached: int
    messages: deque[Message] = field(default_factory=deque)
    paused: bool = False


class PlainConsumer:
    """:class:`sparkapp.native.interface.BatchConsumer` over confluent_kafka; about a fifth of the extension's speed.

    confluent_kafka gives no access to the queue of one partition. What arrives of a partition beyond its stop is
    therefore kept for the next read, and the partition is paused where too much of it comes.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._errors = BrokerErrors()
        settings: dict[str, object] = {**consumer_settings(config)}
        settings["error_cb"] = lambda error: self._errors.note(error.code(), error.str())
        self._client = Consumer(settings)
        self._lanes: dict[TopicPartition, Lane] = {}
        self._kept: dict[TopicPartition, _Kept] = {}

    def read(
        self,
        splits: Sequence[KafkaPartitionSplit],
        *,
        columns: frozenset[str] = ALL_COLUMNS,
        max_rows: int = 65_536,
        max_bytes: int = 16 << 20,
        stall_timeout: float = 120.0,
    ) -> Iterator[pa.RecordBatch]:
        """See :meth:`sparkapp.native.interface.BatchConsumer.read`."""
        finished = False
        try:
            pending = self._align(splits)
            while pending:
                rows = self._gather(pending, splits, max_rows, max_bytes, stall_timeout)
                if rows:
                    yield batch_of(rows, columns)
            finished = True
        finally:
            if not finished:
                # An error leaves partitions stopped, an abandoned read leaves rows that nobody counted: start anew.
                self._forget_all()

    def close(self) -> None:
        """Ends the client; nothing is committed."""
        self._lanes.clear()
        self._kept.clear()
        self._client.close()

    def _align(self, splits: Sequence[KafkaPartitionSplit]) -> dict[TopicPartition, int]:
        """Assigns what is to be read; returns the stop of each partition."""
        change = align(self._lanes, splits)
        if change.drop:
            self._client.incremental_unassign([Position(*partition) for partition in change.drop])
            for partition in change.drop:
                del self._kept[partition]
        if change.add:
            self._client.incremental_assign([Position(*split.partition, split.start) for split in change.add])
            for split in change.add:
                self._kept[split.partition] = _Kept(reached=split.start)
        return {split.partition: split.stop for split in splits if split.size}

    def _gather(
        self,
        pending: dict[TopicPartition, int],
        splits: Sequence[KafkaPartitionSplit],
        max_rows: int,
        max_bytes: int,
        stall_timeout: float,
    ) -> list[Message]:
        """Waits for the next rows, up to a full batch or the end of every split; finished ones leave ``pending``."""
        rows: list[Message] = []
        room = max_bytes
        last_progress = time.monotonic()
        while pending and len(rows) < max_rows and room > 0:
            share = max(1, max_rows // len(pending))
            for partition, stop in list(pending.items()):
                room -= self._take(partition, stop, min(share, max_rows - len(rows)), room, rows)
                if self._is_done(partition, stop):
                    self._lanes[partition].position = stop
                    del pending[partition]
            if not pending or any(self._is_ready(partition) for partition in pending):
                continue
            if self._receive(wait=_WAIT if not rows else 0.01):
                last_progress = time.monotonic()
                self._errors.forget()
            elif rows:
                break
            elif time.monotonic() - last_progress > stall_timeout:
                doing = f"no progress for {stall_timeout:g} s reading {unfinished(self._lanes, splits)}"
                raise self._errors.explain(doing, ReadTimedOut)
            else:
                self._errors.raise_final(f"reading {unfinished(self._lanes, splits)}")
        return rows

    def _take(self, partition: TopicPartition, stop: int, share: int, room: int, rows: list[Message]) -> int:
        """Moves kept messages below the stop to the rows; returns their bytes."""
        kept = self._kept[partition]
        size = 0
        while kept.messages and share > 0 and size < room:
            message = kept.messages[0]
            if message.offset() >= stop:
                break
            rows.append(kept.messages.popleft())
            self._lanes[partition].position = message.offset() + 1
            size += len(message)
            share -= 1
        if kept.paused and not kept.messages:
            self._client.resume([Position(*partition)])
            kept.paused = False
        return size

    def _is_ready(self, partition: TopicPartition) -> bool:
        return bool(self._kept[partition].messages)

    def _is_done(self, partition: TopicPartition, stop: int) -> bool:
        kept = self._kept[partition]
        return kept.messages[0].offset() >= stop if kept.messages else kept.reached >= stop

    def _receive(self, *, wait: float) -> bool:
        """Takes what the client has, waiting for a first message only; says whether a partition moved."""
        try:
            messages = self._client.consume(_TAKE, 0) or self._client.consume(1, wait)
        except KafkaException as failure:
            raise error_for(failure.args[0], "reading") from failure
        moved = False
        for message in messages:
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            error = message.error()
            kept = self._kept.get(partition)
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                if error.code() not in RETRIED:
                    raise error_for(error, f"reading {partition}")
                self._errors.note(error.code(), error.str())
            elif kept is None:
                continue
            elif error is not None:
                moved |= message.offset() > kept.reached
                kept.reached = max(kept.reached, message.offset())
            elif message.offset() >= kept.reached:
                kept.messages.append(message)
                kept.reached = message.offset() + 1
                moved = True
        self._pause_full()
        return moved

    def _pause_full(self) -> None:
        for partition, kept in self._kept.items():
            if len(kept.messages) > _KEEP and not kept.paused:
                self._client.pause([Position(*partition)])
                kept.paused = True

    def _forget_all(self) -> None:
        self._lanes.clear()
        self._kept.clear()
        self._client.unassign()
