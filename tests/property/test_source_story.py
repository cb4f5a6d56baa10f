"""Any story of a source: nothing is skipped, nothing is read twice, and each partition has one reader at a time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from sparkapp.checkpoint.pre_committed import PreCommitted, document_after
from sparkapp.clients.topics.topic_pattern import TopicPattern
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import NO_SLOTS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.sections.source import OnDataLoss, OnTopicDeleted
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import FIRST_HINT
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import Subscriber, TopicListSubscriber, TopicPatternSubscriber
from sparkapp.source.offsets_initializer import EarliestOffsetsInitializer, LatestOffsetsInitializer
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.jobs.plain_job import plain_spec

BY_PATTERN = TopicPatternSubscriber(TopicPattern("in-."))
JOB = Job(namespace="n", name="job", uid="uid", generation=1, attempt=1, spec=plain_spec())
NOW = "2026-11-21T08:00:00Z"
RETURNS = [
    ("delete", "in-b", 0), ("checkpoint", "", 1), ("grow", "in-b", 1), ("produce", "in-b", 9), ("restart", "", 1),
]  # fmt: skip
"""A topic is deleted, a document is written without it, and it is there again at the next start."""
CLAIM = CheckpointDocument(job_uid="uid", attempt=1, checkpoint_id=0, created_at=NOW, parallelism=1, prefix="p")
TOPICS = ("in-a", "in-b", "in-c")
SETS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)
"""Topics that are there at the first start, with their partitions."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from(TOPICS), st.integers(0, 40)),
        st.tuples(st.just("grow"), st.sampled_from(TOPICS), st.integers(1, 3)),
        st.tuples(st.just("checkpoint"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("begin"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("fail"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("restart"), st.just(""), st.integers(1, 9)),
        st.tuples(st.just("delete"), st.sampled_from(TOPICS), st.just(0)),
    ),
    max_size=40,
)


class Story:
    """A cluster that grows and loses topics, and a source that is checkpointed, fails and is restarted with another
    parallelism, from the document of its last checkpoint.

    A topic that was deleted is made again only when the source knows of the deletion. The document may not know.
    """

    def __init__(self, topics: Mapping[str, int], *, bounded: bool, subscriber: Subscriber = BY_PATTERN) -> None:
        self.cluster = FakeCluster({"other": 4})
        self._ids = itertools.count()
        for topic, partitions in topics.items():
            self._grow(topic, partitions)
            self._produce(topic, partitions)
        self.bounded = bounded
        self.subscriber = subscriber
        self.parallelism = 1
        self.clock = 0.0
        self.read: dict[TopicPartition, list[KafkaPartitionSplit]] = {}
        self.previous_owners: list[list[KafkaPartitionSplit]] = []
        """What was read of partitions that are gone."""
        self.begun: list[tuple[PreCommitted, list[list[KafkaPartitionSplit]]]] = []
        """Checkpoints that are not complete, and where their splits will have been read."""
        self.document = replace(CLAIM, stopping="Latest" if bounded else "")
        self.source = self._new_source()
        self.source.start(None)
        self._begin_attempt({})

    def _begin_attempt(self, kept: Mapping[TopicPartition, int]) -> None:
        """Writes where a source begins that has started.

        :param kept: stops of partitions that were read before.
        """
        splits, stops, ids = self.source.unplanned(), dict(self.source.stops), dict(self.source.topic_ids)
        if self.bounded:
            assert stops == {each: kept.get(each, self.cluster.ends.get(each, 0)) for each in self.source.offsets}
        self._write(replace(self.document, splits=splits, stops=stops, topic_ids=ids))

    def _write(self, document: CheckpointDocument) -> None:
        self.document = decode(encode(document), job_uid="uid")
        assert self.document.stops.keys() == (self.document.offsets.keys() if self.bounded else set())

    def _grow(self, topic: str, partitions: int) -> None:
        if topic not in self.cluster.partitions:
            self.cluster.ids[topic] = f"{topic}-{next(self._ids):05}"
        self.cluster.grow(topic, partitions)

    def _new_source(self) -> KafkaSourceEnumerator:
        return KafkaSourceEnumerator(
            cluster=self.cluster,
            subscriber=self.subscriber,
            starting=EarliestOffsetsInitializer(),
            options=EnumeratorOptions(
                discovery_interval=1,
                max_offsets=25,
                on_topic_deleted=OnTopicDeleted.IGNORE,
                on_data_loss=OnDataLoss.SKIP_TO_AVAILABLE,
                stopping=LatestOffsetsInitializer() if self.bounded else None,
            ),
            warn=self._hear,
            clock=lambda: self.clock,
        )

    def _hear(self, reason: DriverEvent, message: str) -> None:
        assert reason is not DriverEvent.OFFSETS_SKIPPED, message

    def do(self, what: str, topic: str, number: int) -> None:
        if what == "produce":
            self._produce(topic, number)
        elif what == "grow":
            if topic not in self.cluster.deleted or all(each.topic != topic for each in self.source.offsets):
                self._grow(topic, number)
        elif what == "delete":
            self._delete(topic)
        elif what == "restart":
            self.parallelism = number
            self.begun.clear()
            self.source = self._new_source()
            offsets, stops, ids = self.document.offsets, self.document.stops, self.document.topic_ids
            self.source.start(offsets, stops, ids)
            same = {each for each in offsets if ids[each.topic] == self.cluster.ids[each.topic]}
            self._begin_attempt({each: stop for each, stop in stops.items() if each in same})
        elif what == "checkpoint" and self.begun:
            self._complete(*self.begun.pop(0))
        elif what != "begin" or len(self.begun) < 2:
            self._plan(what, number)

    def _plan(self, what: str, number: int) -> None:
        self.clock += number
        self.source.discover_if_due()
        splits = self.source.plan()
        self._assert_one_reader_each(splits)
        assert {split.partition for split in splits} == set(self.source.offsets)
        assert not self.cluster.deleted & {split.partition.topic for split in splits}, "gone, and not read"
        places = [self.read.setdefault(split.partition, []) for split in splits]
        checkpoint = PreCommitted(
            checkpoint_id=self.document.checkpoint_id + len(self.begun) + 1, splits=splits, aligned=True,
            committables=(), records_out=0, stops=dict(self.source.stops), topic_ids=dict(self.source.topic_ids),
        )  # fmt: skip
        if what == "checkpoint":
            self._complete(checkpoint, places)
        elif what == "begin":
            self.source.begin(splits)
            self.begun.append((checkpoint, places))

    def _complete(self, checkpoint: PreCommitted, places: list[list[KafkaPartitionSplit]]) -> None:
        self._write(
            document_after(
                self.document, checkpoint, JOB, hint=FIRST_HINT, slots=NO_SLOTS, now=NOW,
                mode=OffsetCommitMode.ON_CHECKPOINTS,
            )
        )  # fmt: skip
        self.source.complete(checkpoint.splits)
        for split, place in zip(checkpoint.splits, places, strict=True):
            place.append(split)

    def _produce(self, topic: str, number: int) -> None:
        for partition in range(self.cluster.partitions.get(topic, 0)):
            each = TopicPartition(topic, partition)
            self.cluster.ends[each] = self.cluster.ends.get(each, 0) + number + partition

    def _delete(self, topic: str) -> None:
        if topic in self.cluster.partitions:
            self.cluster.delete(topic)
            for each in [each for each in self.read if each.topic == topic]:
                self.previous_owners.append(self.read.pop(each))

    def _assert_one_reader_each(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        assert len({split.partition for split in splits}) == len(splits)
        groups = splits_by_subtask(splits, self.parallelism)
        read = [split for group in groups.values() for split in group]
        assert sorted(read) == [split for split in splits if split.size], "each split with records has one reader"
        assert all(0 <= subtask < self.parallelism for subtask in groups)
        assert sum(split.size for split in splits) <= 25

    def assert_contiguous(self) -> None:
        for splits in filter(None, (*self.read.values(), *self.previous_owners)):
            partition = splits[0].partition
            assert splits[0].start == 0, f"{partition} was not read from its beginning"
            for before, after in itertools.pairwise(splits):
                assert after.start == before.stop, f"{partition} was skipped or read twice"


@given(SETS, STEPS)
def test_every_partition_is_read_once_from_its_beginning(
    topics: dict[str, int], steps: list[tuple[str, str, int]]
) -> None:
    story = Story(topics, bounded=False)
    for step in steps:
        story.do(*step)
    while story.begun:
        story.do("checkpoint", "", 1)
    while True:  # the next plans know of all records
        story.do("checkpoint", "", 1)
        if not any((story.source.pending or {}).values()):
            break
    story.assert_contiguous()
    known = {
        TopicPartition(topic, number) for topic in TOPICS for number in range(story.cluster.partitions.get(topic, 0))
    }
    assert set(story.source.offsets) == known
    assert {each for each, splits in story.read.items() if splits[-1].stop} == {
        each for each in known if story.cluster.ends.get(each, 0)
    }
    assert all(splits[-1].stop == story.cluster.ends.get(each, 0) for each, splits in story.read.items())


@given(SETS, STEPS, st.booleans())
@example({"in-a": 1, "in-b": 1}, RETURNS, True)
def test_a_bounded_source_reads_exactly_to_its_stops_whatever_happens(
    topics: dict[str, int], steps: list[tuple[str, str, int]], by_name: bool
) -> None:
    story = Story(topics, bounded=True, subscriber=TopicListSubscriber(tuple(topics)) if by_name else BY_PATTERN)
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
        if partition.topic not in story.cluster.deleted:
            assert sum(split.size for split in story.read.get(partition, ())) == stop
