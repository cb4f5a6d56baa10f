"""Any story of a source: nothing is skipped, nothing is read twice, and each partition has one reader at a time."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.source.enumerator import EnumeratorOptions, KafkaSourceEnumerator
from sparkapp.source.offsets_initializer import EarliestOffsetsInitializer, LatestOffsetsInitializer
from sparkapp.source.subscriber import TopicPatternSubscriber
from tests.support.fake_cluster import FakeCluster

TOPICS = ("in-a", "in-b", "in-c")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from(TOPICS), st.integers(0, 40)),
        st.tuples(st.just("grow"), st.sampled_from(TOPICS), st.integers(1, 3)),
        st.tuples(st.just("checkpoint"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("fail"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("restart"), st.just(""), st.integers(1, 9)),
    ),
    max_size=40,
)


class Story:
    """A cluster that grows, and a source that is checkpointed, fails and is restarted with another parallelism."""

    def __init__(self, *, bounded: bool) -> None:
        self.cluster = FakeCluster({"in-a": 1, "other": 4})
        self.bounded = bounded
        self.parallelism = 1
        self.clock = 0.0
        self.read: dict[TopicPartition, list[KafkaPartitionSplit]] = {}
        self.source = self._life()
        self.source.start(None)

    def _life(self) -> KafkaSourceEnumerator:
        return KafkaSourceEnumerator(
            cluster=self.cluster,
            subscriber=TopicPatternSubscriber(re.compile("in-.")),
            starting=EarliestOffsetsInitializer(),
            stopping=LatestOffsetsInitializer() if self.bounded else None,
            options=EnumeratorOptions(discovery_interval=1, max_offsets=25),
            warn=lambda reason, message: None,
            clock=lambda: self.clock,
        )

    def do(self, what: str, topic: str, number: int) -> None:
        if what == "produce":
            for partition in range(self.cluster.partitions.get(topic, 0)):
                one = TopicPartition(topic, partition)
                self.cluster.ends[one] = self.cluster.ends.get(one, 0) + number + partition
        elif what == "grow":
            self.cluster.partitions[topic] = self.cluster.partitions.get(topic, 0) + number
        elif what == "restart":
            self.parallelism = number
            former = self.source
            self.source = self._life()
            self.source.start(dict(former.offsets), dict(former.stops))
        else:
            self.clock += number
            self.source.discover_if_due()
            splits = self.source.plan()
            self._assert_one_reader_each(splits)
            if what == "checkpoint":
                self.source.complete(splits)
                for split in splits:
                    self.read.setdefault(split.partition, []).append(split)

    def _assert_one_reader_each(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        assert len({split.partition for split in splits}) == len(splits)
        groups = splits_by_subtask(splits, self.parallelism)
        read = [split for group in groups.values() for split in group]
        assert sorted(read) == [split for split in splits if split.size], "each split with records has one reader"
        assert all(0 <= subtask < self.parallelism for subtask in groups)
        assert sum(split.size for split in splits) <= 25

    def assert_contiguous(self) -> None:
        for partition, splits in self.read.items():
            assert splits[0].start == 0, f"{partition} was not read from its beginning"
            for before, after in itertools.pairwise(splits):
                assert after.start == before.stop, f"{partition} was skipped or read twice"


@given(STEPS)
def test_every_partition_is_read_once_from_its_beginning(steps: list[tuple[str, str, int]]) -> None:
    story = Story(bounded=False)
    for step in steps:
        story.do(*step)
    while True:  # work the rest off
        story.do("checkpoint", "", 1)
        if not story.source.lag:
            break
    story.assert_contiguous()
    known = {
        TopicPartition(topic, number) for topic in TOPICS for number in range(story.cluster.partitions.get(topic, 0))
    }
    assert {one for one, splits in story.read.items() if splits[-1].stop} == {
        one for one in known if story.cluster.ends.get(one, 0)
    }
    assert all(splits[-1].stop == story.cluster.ends.get(one, 0) for one, splits in story.read.items())


@given(STEPS)
def test_a_bounded_source_reads_exactly_to_its_stops_whatever_happens(steps: list[tuple[str, str, int]]) -> None:
    story = Story(bounded=True)
    for step in steps:
        story.do(*step)
    for _ in range(200):
        if story.source.finished:
            break
        story.do("checkpoint", "", 1)
    assert story.source.finished
    story.assert_contiguous()
    for partition, stop in story.source.stops.items():
        assert story.source.offsets[partition] == max(stop, 0)
        assert sum(split.size for split in story.read.get(partition, ())) == stop
