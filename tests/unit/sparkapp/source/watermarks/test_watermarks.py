"""Watermarks of partitions, subtasks and the job: minimum of the active, never back, and the rule of idleness."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.source import Source
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.source.watermarks.job_watermarks import JobWatermarks, job_watermarks_of
from sparkapp.source.watermarks.subtask_watermark import (
    NO_LIMIT,
    NO_WATERMARK,
    GivenWatermarks,
    ReachedWatermarks,
    SubtaskWatermark,
    latest_times,
)
from tests.support.jobs.plain_job import plain_spec

BOUND = 100
PARTITIONS = [TopicPartition("in", number) for number in range(4)]
IN0, IN1, IN2, IN3 = PARTITIONS


class Attempt:
    """An attempt without Kafka and Spark: two subtasks, a clock, and the offsets of four partitions."""

    def __init__(self, *, timeout: float = 0, parallelism: int = 2, pieces: bool = False) -> None:
        self.now = 1000.0
        self.parallelism = parallelism
        self.marks = JobWatermarks(parallelism=parallelism, idle_timeout=timeout, pieces=pieces, clock=lambda: self.now)
        self.offsets = dict.fromkeys(PARTITIONS, 0)
        self.seen: list[int] = []
        """Watermarks of the subtasks before each batch, in the order of the calls."""
        self.ahead = False
        """Whether a subtask's watermark was ahead of the partition of a record that it read."""

    def owner(self, partition: TopicPartition) -> int:
        return split_owner(*partition, self.parallelism)

    def checkpoint(
        self,
        records: Mapping[TopicPartition, Sequence[int]],
        *,
        unread: Sequence[TopicPartition] = (),
        readers: Mapping[TopicPartition, Sequence[int]] | None = None,
        stops: Mapping[TopicPartition, int] | None = None,
    ) -> dict[int, ReachedWatermarks]:
        """Reads the records, each of them in a batch of its own.

        :param records: times of the records, by partition.
        :param unread: partitions with more records than that.
        :param readers: subtasks that read a piece of a partition each, instead of its owner.
        """
        splits = [
            KafkaPartitionSplit(partition, offset, offset + len(records.get(partition, ())))
            for partition, offset in self.offsets.items()
        ]
        work: dict[int, tuple[KafkaPartitionSplit, ...]] = {}
        for split in splits:
            subtasks = (readers or {}).get(split.partition, (self.owner(split.partition),))
            bounds = [split.start + split.size * number // len(subtasks) for number in range(len(subtasks) + 1)]
            for subtask, (start, stop) in zip(subtasks, itertools.pairwise(bounds), strict=True):
                if start < stop:
                    work[subtask] = (*work.get(subtask, ()), KafkaPartitionSplit(split.partition, start, stop))
        starts = dict(self.offsets)
        self.offsets |= {split.partition: split.stop for split in splits}
        ends = {each: offset + (each in unread) for each, offset in self.offsets.items()}
        given = self.marks.begin(splits, work, ends=ends, stops=stops or {})
        reached = {}
        for subtask, part in work.items():
            watermark = SubtaskWatermark(given[subtask], bound_millis=BOUND)
            for split in part:
                first = starts[split.partition]
                latest = given[subtask].partitions[split.partition]
                for millis in records[split.partition][split.start - first : split.stop - first]:
                    self.seen.append(watermark.value)
                    self.ahead |= watermark.value > latest
                    watermark.observe({split.partition: millis})
                    latest = max(latest, millis - BOUND - 1)
            reached[subtask] = watermark.reached
        self.marks.end(reached)
        return reached

    def look(self, *, unread: Sequence[TopicPartition] = ()) -> None:
        splits = [KafkaPartitionSplit(each, offset, offset) for each, offset in self.offsets.items()]
        ends = {each: offset + (each in unread) for each, offset in self.offsets.items()}
        self.marks.look(splits, ends=ends, stops={})

    @property
    def paused(self) -> set[TopicPartition]:
        return {partition for partition, is_paused in self.marks.snapshot.paused.items() if is_paused}

    @property
    def idle(self) -> set[TopicPartition]:
        return {partition for partition, is_idle in self.marks.snapshot.idle.items() if is_idle}


def test_the_minimum_of_partitions_and_of_subtasks() -> None:
    attempt = Attempt()
    assert {attempt.owner(each) for each in (IN0, IN2)} == {attempt.owner(IN0)} != {attempt.owner(IN1)}
    attempt.checkpoint({IN0: [5000, 4950], IN1: [7000], IN2: [6000]})
    now = attempt.marks.snapshot
    assert now.partitions == {IN0: 4899, IN1: 6899, IN2: 5899}, "a record of 4900 may still come"
    assert now.subtasks == {attempt.owner(IN0): 4899}, "the other subtask has a partition without a record"
    assert now.job is None
    attempt.checkpoint({IN3: [9000]})
    assert attempt.marks.snapshot.subtasks == {attempt.owner(IN0): 4899, attempt.owner(IN1): 6899}
    assert attempt.marks.snapshot.job == 4899


def test_the_watermark_of_before_each_batch() -> None:
    attempt = Attempt(parallelism=1)
    attempt.checkpoint({IN1: [2000], IN2: [2000], IN3: [2000]})
    assert set(attempt.seen) == {NO_WATERMARK}
    attempt.seen.clear()
    attempt.checkpoint({IN0: [3000, 1500, 3500, 3600]})
    assert attempt.seen == [NO_WATERMARK, 1899, 1899, 1899], "three partitions wait at 1899"
    attempt.seen.clear()
    attempt.checkpoint({each: [4000] for each in PARTITIONS})
    assert attempt.seen == [1899, 1899, 1899, 1899]
    assert attempt.marks.snapshot.job == 3899


def test_a_partition_that_is_silent_becomes_idle_and_holds_nobody_back() -> None:
    attempt = Attempt(timeout=10)
    attempt.checkpoint({IN0: [5000], IN1: [6000], IN3: [6000]})
    attempt.now += 9
    attempt.checkpoint({IN0: [7000]})
    assert attempt.idle == set()
    assert attempt.marks.snapshot.job is None
    attempt.now += 1
    attempt.look()
    assert attempt.idle == {IN1, IN2, IN3}
    assert attempt.marks.snapshot.job == 6899, "a subtask with idle partitions only is left out"
    attempt.now += 10
    attempt.look()
    assert attempt.idle == set(PARTITIONS)
    assert attempt.marks.snapshot.job == 6899, "it stays where everything is idle"
    attempt.checkpoint({IN1: [6000]})
    assert attempt.idle == {IN0, IN2, IN3}
    assert attempt.marks.snapshot.partitions[IN1] == 5899
    assert attempt.marks.snapshot.job == 6899, "and does not go back"


def test_a_partition_with_unread_records_is_paused_and_never_idle() -> None:
    attempt = Attempt(timeout=10)
    attempt.checkpoint({each: [1000] for each in PARTITIONS})
    attempt.now += 100
    attempt.checkpoint({IN0: [5000], IN2: [5000]}, unread=[IN0, IN1])
    assert attempt.idle == {IN3}
    assert attempt.paused == {IN1}
    assert attempt.marks.snapshot.job == 899


def test_records_that_wait_for_the_next_checkpoint_pause_no_partition() -> None:
    """Between two checkpoints the lag clock finds what has come since; nothing holds it back."""
    attempt = Attempt()
    attempt.look(unread=PARTITIONS)
    assert attempt.paused == set(), "no checkpoint has passed them over"
    attempt.checkpoint({IN0: [5000], IN2: [5000]}, unread=[IN0, IN1])
    attempt.look(unread=PARTITIONS)
    assert attempt.paused == {IN1}
    attempt.look(unread=[IN0])
    assert attempt.paused == set()


def test_a_partition_at_its_stop_holds_nobody_back() -> None:
    attempt = Attempt()
    attempt.checkpoint({IN0: [5000], IN1: [6000], IN3: [6000]}, stops={IN0: 1, IN1: 1, IN2: 0, IN3: 1})
    assert attempt.marks.snapshot.job == 4899
    attempt.checkpoint({IN1: [8000], IN3: [8000]}, stops={IN0: 1, IN2: 0})
    assert attempt.marks.snapshot.job == 7899


TIMES = st.lists(st.integers(0, 5000), max_size=4)
Step = tuple[dict[TopicPartition, list[int]], set[TopicPartition], dict[TopicPartition, tuple[int, ...]], int]
STEPS = st.lists(
    st.tuples(
        st.fixed_dictionaries({}, optional=dict.fromkeys(PARTITIONS, TIMES)),
        st.sets(st.sampled_from(PARTITIONS)),
        st.dictionaries(st.sampled_from(PARTITIONS), st.sampled_from([(0,), (1,), (0, 1), (1, 0)])),
        st.integers(0, 15),
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from([0, 10]), st.booleans())
def test_minimum_of_the_active_never_back_wherever_partitions_are_read(
    steps: list[
        tuple[dict[TopicPartition, list[int]], set[TopicPartition], dict[TopicPartition, tuple[int, ...]], int]
    ],
    timeout: int,
    pieces: bool,
) -> None:
    attempt = Attempt(timeout=timeout, pieces=pieces)
    latest: dict[TopicPartition, int] = {}
    last_records = dict.fromkeys(PARTITIONS, attempt.now)
    before = attempt.marks.snapshot
    for number, (records, unread, readers, seconds) in enumerate(steps):
        if number:
            attempt.now += seconds
        reached = attempt.checkpoint(records, unread=sorted(unread), readers=readers if pieces else {})
        snapshot = attempt.marks.snapshot
        reads = {partition for partition, times in records.items() if times}
        idle = {
            partition
            for partition in set(PARTITIONS) - reads - unread
            if timeout and attempt.now - last_records[partition] >= timeout
        }
        assert attempt.idle == idle
        for partition in reads:
            latest[partition] = max(latest.get(partition, 0), *records[partition])
            last_records[partition] = attempt.now
        assert snapshot.partitions == {partition: millis - BOUND - 1 for partition, millis in latest.items()}
        for subtask in range(attempt.parallelism):
            held_by = [each for each in PARTITIONS if (pieces or attempt.owner(each) == subtask) and each not in idle]
            least = min((snapshot.partitions.get(each, NO_WATERMARK) for each in held_by), default=NO_WATERMARK)
            expected = max(least, before.subtasks.get(subtask, NO_WATERMARK))
            assert snapshot.subtasks.get(subtask, NO_WATERMARK) == expected
            if subtask in reached:
                assert reached[subtask].own == expected if not pieces else reached[subtask].own <= expected
        assert timeout or not attempt.ahead
        active = {attempt.owner(each) for each in PARTITIONS if each not in idle}
        least = min((snapshot.subtasks.get(each, NO_WATERMARK) for each in active), default=NO_WATERMARK)
        job = max(least, NO_WATERMARK if before.job is None else before.job)
        assert snapshot.job == (None if job == NO_WATERMARK else job)
        before = snapshot


def test_nobody_is_ahead_of_a_partition_that_is_read_in_pieces() -> None:
    attempt = Attempt(pieces=True)
    other = attempt.owner(IN1)
    attempt.checkpoint({each: [1000] for each in PARTITIONS})
    fast = {each: [5000] for each in (IN0, IN1, IN3)}
    reached = attempt.checkpoint({**fast, IN2: [1100, 1200]}, readers={IN2: (other,)}, unread=[IN2])
    assert reached[attempt.owner(IN2)].own == 899, "the owner of a partition waits for it while others read it"
    attempt.look(unread=[IN2])
    assert attempt.marks.snapshot.subtasks == {0: 1099, 1: 1099}
    assert attempt.marks.snapshot.job == 1099
    attempt.seen.clear()
    attempt.checkpoint({IN2: [1150, 1250, 1300, 1400]}, readers={IN2: (0, 1)})
    assert attempt.seen == [1099, 1099, 1099, 1199], "no subtask is ahead of a piece that it reads"
    assert attempt.marks.snapshot.job == 1299


@pytest.mark.parametrize(("max_records", "others"), [(0, NO_LIMIT), (5, NO_WATERMARK)])
def test_all_partitions_hold_a_subtask_back_where_the_job_cuts_partitions(max_records: int, others: int) -> None:
    source = Source(topics=("in",), group_id="g", max_out_of_orderness_seconds=0, max_records_per_split=max_records)
    spec = plain_spec(source=source, parallelism=2)
    marks = job_watermarks_of(spec)
    assert marks is not None
    splits = [KafkaPartitionSplit(each, 0, each in (IN1, IN3)) for each in PARTITIONS]
    reader = split_owner(*IN1, 2)
    given = marks.begin(splits, {reader: (splits[1], splits[3])}, ends={}, stops={})
    assert given[reader].others == others


def test_a_partition_that_is_deleted_holds_nobody_back_and_a_new_one_does() -> None:
    attempt = Attempt(parallelism=1)
    attempt.checkpoint({IN0: [5000], IN1: [5000], IN2: [5000]})
    del attempt.offsets[IN3]
    attempt.look()
    assert attempt.marks.snapshot.job == 4899
    attempt.offsets[IN3] = 0
    attempt.checkpoint({IN0: [8000], IN1: [8000], IN2: [8000]})
    assert attempt.marks.snapshot.job == 4899
    attempt.checkpoint({IN3: [3000]})
    assert attempt.marks.snapshot.job == 4899
    assert attempt.marks.snapshot.partitions[IN3] == 2899


def batch(*rows: tuple[str, int, datetime | None]) -> pa.RecordBatch:
    """Topic, partition and time of records."""
    columns = dict(zip(["topic", "partition", "timestamp"], zip(*rows, strict=True), strict=True))
    return pa.record_batch(
        [pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in SOURCE_SCHEMA],
        schema=SOURCE_SCHEMA,
    )


def test_the_latest_times_of_a_batch() -> None:
    found = batch(
        ("a", 0, datetime.fromtimestamp(5, UTC)), ("b", 0, datetime.fromtimestamp(2, UTC)), ("a", 1, None),
        ("a", 0, datetime.fromtimestamp(4, UTC)), ("b", 0, None), ("b", 7, datetime.fromtimestamp(-1.5, UTC)),
    )  # fmt: skip
    assert latest_times(found) == {
        TopicPartition("a", 0): 5000, TopicPartition("b", 0): 2000, TopicPartition("b", 7): -1500,
    }  # fmt: skip
    assert latest_times(found.slice(0, 0)) == {}


def test_a_batch_counts_when_the_next_one_is_read() -> None:
    given = GivenWatermarks(own=NO_WATERMARK, others=NO_LIMIT, partitions={IN0: NO_WATERMARK})
    watermark = SubtaskWatermark(given, bound_millis=BOUND)
    batches = [batch(("in", 0, datetime.fromtimestamp(seconds, UTC))) for seconds in (5, 7)]
    assert [watermark.value for _ in watermark.watch(batches)] == [NO_WATERMARK, 4899]
    assert watermark.value == 6899


def test_a_try_again_begins_where_the_failed_one_began() -> None:
    attempt = Attempt(parallelism=1)
    split = KafkaPartitionSplit(IN0, 0, 3)
    given = attempt.marks.begin([split], {0: (split,)}, ends={}, stops={})[0]
    assert given.others == NO_LIMIT
    failed = SubtaskWatermark(given, bound_millis=BOUND)
    failed.observe({IN0: 9000})
    again = SubtaskWatermark(given, bound_millis=BOUND)
    assert again.value == NO_WATERMARK
    again.observe({IN0: 9000})
    assert again.reached == failed.reached == ReachedWatermarks(own=8899, partitions={IN0: 8899})


def test_the_watermark_of_a_function_is_a_time_or_none() -> None:
    watermark = SubtaskWatermark(
        GivenWatermarks(own=NO_WATERMARK, others=NO_LIMIT, partitions={IN0: 0}), bound_millis=0
    )
    assert watermark.time() is None
    watermark.observe({IN0: 1_700_000_000_002})
    assert watermark.time() == datetime(2023, 11, 14, 22, 13, 20, 1000, UTC)
    watermark.observe({IN0: NO_LIMIT})
    assert watermark.time() == datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)


def test_the_watermark_of_a_function_is_none_before_the_year_1() -> None:
    """The first time of a ``datetime`` would make records late that are not."""
    first = -62_135_596_800_000
    watermark = SubtaskWatermark(
        GivenWatermarks(own=NO_WATERMARK, others=NO_LIMIT, partitions={IN0: NO_WATERMARK}), bound_millis=0
    )
    watermark.observe({IN0: first})
    assert watermark.time() is None
    watermark.observe({IN0: first + 1})
    assert watermark.time() == datetime(1, 1, 1, tzinfo=UTC)


def test_a_rescale_in_place_takes_no_subtask_ahead_of_a_partition_that_it_gets() -> None:
    attempt = Attempt()
    attempt.checkpoint({each: [1000 + 100 * each.partition] for each in PARTITIONS})
    job = attempt.marks.snapshot.job
    attempt.parallelism = 1
    attempt.marks.rescale(1)
    attempt.checkpoint({IN3: [2000]})
    now = attempt.marks.snapshot
    assert now.subtasks == {0: min(now.partitions.values())}
    assert now.job == job
    attempt.parallelism = 4
    attempt.marks.rescale(4)
    attempt.checkpoint({each: [3000] for each in PARTITIONS})
    assert attempt.marks.snapshot.subtasks == dict.fromkeys({attempt.owner(each) for each in PARTITIONS}, 2899)
