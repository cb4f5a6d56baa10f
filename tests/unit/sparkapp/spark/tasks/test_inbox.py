"""A subtask's part of an open checkpoint: it reads until the barrier, and what the plan has at least."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pytest

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.dataplane.settings import BATCH_ROWS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import SubtaskDisconnected
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.tasks import inbox as inbox_module
from sparkapp.spark.tasks.control_frames import Work, encode_barrier, encode_stop, encode_work
from sparkapp.spark.tasks.inbox import CheckpointRead, Inbox
from sparkapp.spark.tasks.write_task import WriteOrder
from tests.support.patience import PATIENCE

A, B = TopicPartition("in", 0), TopicPartition("in", 1)
SPLITS = (KafkaPartitionSplit(A, 10, 14), KafkaPartitionSplit(B, 5, 5))
ORDER = WriteOrder(
    checkpoint_id=7, subtask=1, next_free=0, settled=6, writes_what_it_reads=True, ranges=SPLITS, group_id="g"
)
OPEN = Work(order=ORDER, splits=SPLITS, limits=(20, 9))
FIXED = Work(order=ORDER, splits=SPLITS)


class Channel:
    """Frames of the engine, as the test sends them."""

    def __init__(self) -> None:
        self.frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def receive_body(self) -> dict[str, Any]:
        frame = self.frames.get()
        if frame is None:
            raise SubtaskDisconnected("gone")
        body: dict[str, Any] = json.loads(frame)
        return body


class Consumer:
    """Has records up to ``ends``, and gives them one by one."""

    def __init__(self, **ends: int) -> None:
        self.ends = {A: ends["a"], B: ends["b"]}
        self.followed: dict[TopicPartition, int] = {}
        self.stops: dict[TopicPartition, int] = {}
        self.waits: list[int] = []
        self.bounded: list[Sequence[KafkaPartitionSplit]] = []
        self.asked = threading.Event()

    def follow(self, splits: Sequence[KafkaPartitionSplit], *, columns: frozenset[str]) -> None:
        self.followed = {split.partition: split.start for split in splits}
        self.stops = {split.partition: split.stop for split in splits}

    def next_batch(self, *, wait_millis: int, linger_millis: int, max_rows: int) -> pa.RecordBatch | None:
        self.waits.append(wait_millis)
        for partition, at in self.followed.items():
            if at < min(self.ends[partition], self.stops[partition]):
                self.followed[partition] += 1
                return pa.record_batch({"offset": [at]})
        self.asked.set()
        return None

    def read(self, splits: Sequence[KafkaPartitionSplit], *, columns: frozenset[str]) -> Iterator[pa.RecordBatch]:
        self.bounded.append(splits)
        yield from (pa.record_batch({"offset": list(range(split.start, split.stop))}) for split in splits)


@pytest.fixture
def channel() -> Channel:
    return Channel()


def read(work: Work, inbox: Inbox, consumer: Any) -> tuple[CheckpointRead, list[int]]:
    reading = CheckpointRead(work, inbox=inbox, consumer=consumer, columns=frozenset({"offset"}), interval=0.1)
    return reading, [offset for batch in reading.batches() for offset in batch.column("offset").to_pylist()]


def inbox_of(channel: Any, consumer: Consumer | None = None) -> Inbox:
    return Inbox(channel, wake=lambda: None if consumer is None else consumer.asked.set())


def ranges(found: CheckpointRead) -> Mapping[TopicPartition, tuple[int, int]]:
    return {split.partition: (split.start, split.stop) for split in found.ranges}


def test_it_reads_beyond_the_plan_until_the_barrier_and_not_behind_it(channel: Channel) -> None:
    consumer = Consumer(a=17, b=6)
    inbox = inbox_of(channel)

    def barrier() -> None:
        consumer.asked.wait(PATIENCE)
        channel.frames.put(encode_barrier(6))
        channel.frames.put(encode_barrier(7))

    threading.Thread(target=barrier).start()
    found, offsets = read(OPEN, inbox, consumer)
    assert sorted(offsets) == [5, *range(10, 17)]
    assert ranges(found) == {A: (10, 17), B: (5, 6)}
    assert found.stops == (17, 6)
    assert consumer.bounded == [], "nothing of the plan was left"
    assert consumer.waits[-1] == 0, "behind the barrier it takes only what is there"


def test_behind_the_barrier_it_reads_what_the_plan_still_lacks(channel: Channel) -> None:
    consumer = Consumer(a=12, b=5)
    channel.frames.put(encode_barrier(7))
    inbox = inbox_of(channel, consumer)
    assert consumer.asked.wait(PATIENCE), "a barrier ends the wait of the read"
    found, offsets = read(OPEN, inbox, consumer)
    assert offsets == list(range(10, 14))
    assert consumer.waits == [0]
    assert ranges(found) == {A: (10, 14)}, "a partition without records has no range"
    assert found.stops == (14, 5)


def test_it_ends_without_a_barrier_where_it_may_read_no_more(channel: Channel) -> None:
    found, offsets = read(OPEN, inbox_of(channel), Consumer(a=100, b=100))
    assert sorted(offsets) == [*range(5, 9), *range(10, 20)]
    assert found.stops == (20, 9)


def test_a_stop_ends_an_open_checkpoint(channel: Channel) -> None:
    consumer = Consumer(a=14, b=5)
    channel.frames.put(encode_stop())
    inbox = inbox_of(channel, consumer)
    assert inbox.next_work() is None
    assert consumer.asked.wait(PATIENCE)
    assert read(OPEN, inbox, consumer)[0].stops == (14, 5)


def test_fixed_ranges_are_read_as_they_are(channel: Channel) -> None:
    consumer = Consumer(a=100, b=100)
    found, offsets = read(FIXED, inbox_of(channel), consumer)
    assert offsets == list(range(10, 14))
    assert (found.ranges, found.stops) == (SPLITS, ())


def test_work_comes_in_order_and_the_end_of_the_connection_behind_it(channel: Channel) -> None:
    for frame in (encode_work(OPEN), encode_barrier(7), encode_work(FIXED)):
        channel.frames.put(frame)
    inbox = inbox_of(channel)
    assert [inbox.next_work(), inbox.next_work()] == [OPEN, FIXED]
    assert inbox.is_behind_barrier(7)
    assert not inbox.is_behind_barrier(8)
    channel.frames.put(None)
    with pytest.raises(SubtaskDisconnected):
        inbox.next_work()


def test_a_frame_that_cannot_be_read_ends_the_subtask(channel: Channel) -> None:
    channel.frames.put(b'{"work": {}}')
    with pytest.raises(KeyError):
        inbox_of(channel).next_work()


def test_an_open_checkpoint_ends_with_the_connection(channel: Channel) -> None:
    """A driver that was frozen for too long sends its barrier to nobody."""
    consumer = Consumer(a=17, b=6)
    inbox = inbox_of(channel, consumer)
    reading = CheckpointRead(
        OPEN, inbox=inbox, consumer=cast("Any", consumer), columns=frozenset({"offset"}), interval=0.1
    )
    done = run_in_background(lambda: len(list(reading.batches())), name="read")
    assert consumer.asked.wait(PATIENCE)
    consumer.asked.clear()
    channel.frames.put(None)
    assert done.result(timeout=PATIENCE) == 8
    assert consumer.asked.wait(PATIENCE), "the wait of the read was ended"
    with pytest.raises(SubtaskDisconnected):
        inbox.next_work()


class Clock:
    """Seconds that pass while the consumer is asked for a batch."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_only_a_batch_that_is_not_full_was_waited_for(channel: Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    sizes = iter([BATCH_ROWS, BATCH_ROWS - 1, 0])

    class Slow(Consumer):
        def next_batch(self, *, wait_millis: int, linger_millis: int, max_rows: int) -> pa.RecordBatch | None:
            clock.now += 1.0
            rows = next(sizes)
            if not rows:
                self.followed = dict(self.stops)
            return pa.record_batch({"offset": [0] * rows}) if rows else None

    monkeypatch.setattr(inbox_module, "time", clock)
    found, offsets = read(OPEN, inbox_of(channel), Slow(a=10, b=5))
    assert len(offsets) == 2 * BATCH_ROWS - 1
    assert found.waited == 2.0
