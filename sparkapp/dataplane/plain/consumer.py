"""The consumer without the C extension: Python gathers confluent_kafka's message objects."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from sparkapp.clients.errors import RETRIED, error_for
from sparkapp.clients.security.oauth_token import with_token_callback
from sparkapp.dataplane.partition_queue import AssignmentChange
from sparkapp.dataplane.plain.columns import batch_of
from sparkapp.dataplane.reader import BoundedReader, Gathered, Limits
from sparkapp.dataplane.settings import consumer_settings
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.partition import TopicPartition

_TAKE = 10_000
"""Messages taken from the client at once."""
_LINGER = 0.01
"""Seconds that a batch with rows waits for more rows."""
_ROWS_AT_ONCE = 1000
"""Rows taken from a partition before the next partition is served."""
_KEEP = 20_000
"""Kept messages of a partition outside the current read, before its fetching is paused."""


@dataclass(slots=True)
class _Kept:
    """Messages of a partition that the client returned and the caller has not read.

    :param position: the next offset for the caller.
    :param stop: end of the current read.
    :param reached: the client has returned every record below, or it never existed.
    """

    position: int
    stop: int
    reached: int
    messages: deque[Message] = field(default_factory=deque)
    is_paused: bool = False

    @property
    def is_done(self) -> bool:
        return (self.messages[0].offset() if self.messages else self.reached) >= self.stop


class PlainConsumer(BoundedReader):
    """:class:`sparkapp.dataplane.interface.BatchConsumer` over confluent_kafka; about a fifth of the extension's speed.

    confluent_kafka gives no access to the queue of a single partition. Records beyond a partition's stop are therefore
    kept for the next read. The partition is paused when it has too many of them.

    :raises ConfigurationError: a key or value that librdkafka refuses.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        super().__init__()
        self._settings: dict[str, object] = {**consumer_settings(config)}
        self._newest: str | None = None
        self._throttled = 0
        self._settings["stats_cb"] = self._keep_statistics
        self._settings["throttle_cb"] = self._count_throttling
        self._settings["error_cb"] = lambda error: self._errors.add(error.code(), error.str())
        try:
            self._client = Consumer(with_token_callback(self._settings))
        except KafkaException as failure:
            raise ConfigurationError(f"Kafka consumer: {failure.args[0].str()}") from failure
        self._kept: dict[TopicPartition, _Kept] = {}
        self._pending: list[TopicPartition] = []

    def _end(self) -> None:
        self._client.close()

    def _reopen(self) -> None:
        self._client.close()
        self._client = Consumer(with_token_callback(self._settings))
        self._kept.clear()

    def _apply(self, change: AssignmentChange) -> None:
        try:
            self._reassign(change)
        except KafkaException as failure:
            raise error_for(failure.args[0], "assigning partitions") from failure

    def _reassign(self, change: AssignmentChange) -> None:
        if change.drop:
            # A partition stays paused in librdkafka after its assignment; its next assignment would never resume.
            paused = [Position(*partition) for partition in change.drop if self._kept[partition].is_paused]
            if paused:
                self._client.resume(paused)
            self._client.incremental_unassign([Position(*partition) for partition in change.drop])
            for partition in change.drop:
                del self._kept[partition]
        if change.add:
            self._client.incremental_assign([Position(*split.partition, split.start) for split in change.add])
            for split in change.add:
                self._kept[split.partition] = _Kept(split.start, split.start, split.start)

    def _begin(self, stops: dict[TopicPartition, int]) -> None:
        self._pending = list(stops)
        for partition, stop in stops.items():
            self._kept[partition].stop = stop

    def _gather(self, limits: Limits) -> Gathered:
        rows: list[Message] = []
        room = limits.max_bytes
        moved = False
        is_full = False
        linger_until = time.monotonic() + limits.linger_millis / 1000
        while self._pending and not is_full:
            if rows and limits.from_start and time.monotonic() >= linger_until:
                break
            before = len(rows), len(self._pending)
            for partition in list(self._pending):
                room, is_full = self._take(partition, min(_ROWS_AT_ONCE, limits.max_rows - len(rows)), room, rows)
                if self._kept[partition].is_done:
                    self._kept[partition].position = self._kept[partition].stop
                    self._pending.remove(partition)
                elif not self._kept[partition].messages:
                    self._kept[partition].position = max(self._kept[partition].position, self._kept[partition].reached)
                if is_full := is_full or len(rows) >= limits.max_rows:
                    break
            if before != (len(rows), len(self._pending)):
                moved = True
            elif not is_full:
                linger = min(_LINGER, limits.linger_millis / 1000)
                came = self._receive(wait=linger if rows else limits.wait_millis / 1000)
                moved |= came
                if not came:
                    break
        return Gathered(batch_of(rows, limits.columns) if rows else None, moved, len(self._pending))

    def _take(self, partition: TopicPartition, share: int, room: int, rows: list[Message]) -> tuple[int, bool]:
        """Moves kept messages below the stop to the rows; returns the remaining bytes and whether the batch is full."""
        kept = self._kept[partition]
        while kept.messages and share > 0:
            message = kept.messages[0]
            size = len(message.value() or b"") + len(message.key() or b"")
            if message.offset() >= kept.stop:
                break
            if rows and size > room:
                return room, True
            rows.append(kept.messages.popleft())
            kept.position = message.offset() + 1
            room -= size
            share -= 1
        if kept.is_paused and not kept.messages:
            self._client.resume([Position(*partition)])
            kept.is_paused = False
        return room, room <= 0

    def _receive(self, *, wait: float) -> bool:
        """Takes the available messages, waiting for the first message only; returns whether a partition advanced."""
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
                # An error without a topic concerns the client itself, its group for instance.
                if partition.topic and error.code() not in RETRIED:
                    raise error_for(error, f"reading {partition}")
                self._errors.add(error.code(), error.str())
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
            if len(kept.messages) > _KEEP and not kept.is_paused:
                self._client.pause([Position(*partition)])
                kept.is_paused = True

    @property
    def behind(self) -> int:
        """See :attr:`sparkapp.dataplane.interface.BatchConsumer.behind`."""
        found = 0
        for partition, position, _ in self._positions():
            _, end = self._client.get_watermark_offsets(Position(*partition), cached=True)
            found += max(0, end - position)
        return found

    def wake(self) -> None:
        """See :meth:`sparkapp.dataplane.interface.BatchConsumer.wake`; a wait is short."""

    def _end_reads(self) -> None:
        """A wait is short (``settings.WAIT_MILLIS``)."""

    def _topic_error(self, topic: str, seconds: float) -> int:
        try:
            error = self._client.list_topics(topic, seconds).topics[topic].error
        except KafkaException as failure:
            error = failure.args[0]
        return 0 if error is None else int(error.code())

    def _keep_statistics(self, text: str) -> None:
        self._newest = text

    def _count_throttling(self, event: Any) -> None:
        self._throttled += round(event.throttle_time * 1000)

    def _take_statistics(self) -> tuple[str | None, int]:
        taken = self._newest, self._throttled
        self._newest, self._throttled = None, 0
        return taken

    def _rejoin(self) -> None:
        """Impossible with confluent_kafka: the read fails, and the next read has a new client."""

    def _positions(self) -> list[tuple[TopicPartition, int, int]]:
        return [(partition, self._kept[partition].position, self._kept[partition].stop) for partition in self._pending]
