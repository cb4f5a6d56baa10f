"""Group S: where reading begins and ends, which partitions are read, against a real broker.

The catalogue's fixture: topics ``topic`` and ``pattern-topic`` of ten partitions with ten records each; record i of a
partition has value i and time i * 1000. In partition p of ``topic`` the records below offset p are deleted, and the
group's committed offset is p + 2.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sparkapp.model.errors import TopicNotFound, UndefinedOffset
from sparkapp.model.partition import TopicPartition
from sparkapp.model.positions import ResetStrategy
from sparkapp.model.split import splits_by_subtask
from sparkapp.source.cluster import KafkaClusterView
from sparkapp.source.enumerator import EnumeratorOptions, KafkaSourceEnumerator
from sparkapp.source.offsets_initializer import (
    CommittedOffsetsInitializer,
    EarliestOffsetsInitializer,
    LatestOffsetsInitializer,
    OffsetsInitializer,
    SpecificOffsetsInitializer,
    TimestampOffsetsInitializer,
)
from sparkapp.source.subscriber import (
    PartitionSetSubscriber,
    Subscriber,
    TopicListSubscriber,
    TopicPatternSubscriber,
)
from sparkapp.source.watermark_alignment import WatermarkAlignment

PARTITIONS = 10
RECORDS = 10
MANY = 2**31 - 1


@dataclass(frozen=True)
class Site:
    """The fixture's topics, and a view of the brokers with the group's offsets."""

    bootstrap: str
    topic: str
    pattern_topic: str
    group: str
    view: KafkaClusterView

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def enumerator(
        self,
        starting: OffsetsInitializer,
        *,
        subscriber: Subscriber | None = None,
        stopping: OffsetsInitializer | None = None,
    ) -> KafkaSourceEnumerator:
        return KafkaSourceEnumerator(
            cluster=self.view,
            subscriber=subscriber or TopicListSubscriber((self.topic,)),
            starting=starting,
            stopping=stopping,
            options=EnumeratorOptions(discovery_interval=0, max_offsets=10**6),
            warn=lambda reason, message: None,
        )


@pytest.fixture(scope="module")
def site(broker: str) -> Iterator[Site]:
    word = uuid.uuid4().hex[:8]
    topic, pattern_topic, group = f"topic-{word}", f"pattern-topic-{word}", f"group-{word}"
    admin = AdminClient({"bootstrap.servers": broker})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (topic, pattern_topic)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": broker})
    for name in (topic, pattern_topic):
        for number in range(PARTITIONS):
            for value in range(RECORDS):
                producer.produce(name, value=str(value), partition=number, timestamp=value * 1000 + 1)
    assert producer.flush(30) == 0
    cut = [ClientPartition(topic, number, number) for number in range(1, PARTITIONS)]
    for deleted in admin.delete_records(cut).values():
        deleted.result(30)
    consumer = Consumer({"bootstrap.servers": broker, "group.id": group})
    offsets = [ClientPartition(topic, number, number + 2) for number in range(PARTITIONS)]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()
    config = {"bootstrap.servers": broker, "group.id": group, "client.id": "ns.job", "enable.auto.commit": "false"}
    view = KafkaClusterView(config, read_committed=True)
    yield Site(broker, topic, pattern_topic, group, view)
    view.close()


def test_S14_earliest_is_the_first_record_that_is_left(site: Site) -> None:
    found = EarliestOffsetsInitializer().offsets(site.partitions(site.topic), site.view)
    assert found == {one: one.partition for one in site.partitions(site.topic)}


def test_S15_latest_is_a_real_end_offset(site: Site) -> None:
    found = LatestOffsetsInitializer().offsets(site.partitions(site.topic), site.view)
    assert set(found.values()) == {RECORDS}


def test_S16_committed_offsets(site: Site) -> None:
    found = CommittedOffsetsInitializer(ResetStrategy.NONE).offsets(site.partitions(site.topic), site.view)
    assert found == {one: one.partition + 2 for one in site.partitions(site.topic)}


def test_a_timestamp_is_the_first_record_at_or_after_it(site: Site) -> None:
    partitions = site.partitions(site.pattern_topic)
    for millis, offset in ((0, 0), (1, 0), (2, 1), (5000, 5), (5001, 5), (5002, 6), (9001, 9), (9002, RECORDS)):
        found = TimestampOffsetsInitializer(millis).offsets(partitions, site.view)
        assert set(found.values()) == {offset}, millis


def test_a_timestamp_before_deleted_records_is_the_first_one_left(site: Site) -> None:
    found = TimestampOffsetsInitializer(3001).offsets(site.partitions(site.topic), site.view)
    assert found == {one: max(3, one.partition) for one in site.partitions(site.topic)}


def test_S18_a_timestamp_on_empty_partitions_is_0(site: Site) -> None:
    name = f"empty-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": site.bootstrap})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(30)
    partitions = [TopicPartition(name, number) for number in range(3)]
    found = TimestampOffsetsInitializer(2000).offsets(partitions, site.view)
    assert found == dict.fromkeys(partitions, 0)


def test_specific_offsets_then_the_group_then_the_strategy(site: Site) -> None:
    first, second = TopicPartition(site.topic, 0), TopicPartition(site.topic, 1)
    other = TopicPartition(site.pattern_topic, 0)
    named = SpecificOffsetsInitializer({first: 7}, ResetStrategy.EARLIEST)
    assert named.offsets([first, second, other], site.view) == {first: 7, second: 3, other: 0}
    latest = SpecificOffsetsInitializer({first: 7}, ResetStrategy.LATEST)
    assert latest.offsets([other], site.view) == {other: RECORDS}
    deleted = SpecificOffsetsInitializer({second: 0}, ResetStrategy.EARLIEST)
    assert deleted.offsets([second], site.view) == {second: 1}, "offset 0 was deleted: the strategy decides"


def test_S20_no_specific_offsets(site: Site) -> None:
    with pytest.raises(UndefinedOffset, match="no specific offsets were specified"):
        SpecificOffsetsInitializer({}, ResetStrategy.NONE)


def test_S21_subscribers(site: Site) -> None:
    topics = site.view.topics()
    both = TopicListSubscriber((site.topic, site.pattern_topic)).partitions(topics)
    assert both == {*site.partitions(site.topic), *site.partitions(site.pattern_topic)}
    word = site.topic.rpartition("-")[2]
    matching = TopicPatternSubscriber(re.compile(f"pattern.*{word}")).partitions(topics)
    assert matching == set(site.partitions(site.pattern_topic))
    chosen = frozenset({TopicPartition(site.topic, 3), TopicPartition(site.pattern_topic, 9)})
    assert PartitionSetSubscriber(chosen).partitions(topics) == chosen


def test_S22_an_unknown_topic_and_an_unknown_partition_are_named(site: Site) -> None:
    with pytest.raises(TopicNotFound, match="'nowhere' does not exist"):
        site.enumerator(EarliestOffsetsInitializer(), subscriber=TopicListSubscriber(("nowhere",))).start(None)
    chosen = PartitionSetSubscriber(frozenset({TopicPartition(site.topic, MANY)}))
    with pytest.raises(
        TopicNotFound, match=f"Partition '{site.topic}-{MANY}' does not exist on Kafka brokers|does not"
    ):
        site.enumerator(EarliestOffsetsInitializer(), subscriber=chosen).start(None)


def test_S23_no_commit_and_no_strategy(site: Site) -> None:
    one = site.enumerator(
        CommittedOffsetsInitializer(ResetStrategy.NONE), subscriber=TopicListSubscriber((site.pattern_topic,))
    )
    with pytest.raises(UndefinedOffset, match="Undefined offset with no reset policy for partition"):
        one.start(None)


@pytest.mark.parametrize(("strategy", "offset"), [(ResetStrategy.EARLIEST, 0), (ResetStrategy.LATEST, RECORDS)])
def test_S24_no_commit_and_a_strategy(site: Site, strategy: ResetStrategy, offset: int) -> None:
    one = site.enumerator(CommittedOffsetsInitializer(strategy), subscriber=TopicListSubscriber((site.pattern_topic,)))
    one.start(None)
    assert set(one.offsets.values()) == {offset}


def test_S01_every_partition_has_one_owner_and_the_metadata_order_does_not_matter(site: Site) -> None:
    one = site.enumerator(
        EarliestOffsetsInitializer(), subscriber=TopicListSubscriber((site.pattern_topic, site.topic))
    )
    one.start(None)
    splits = one.plan()
    groups = splits_by_subtask(splits, 3)
    assert groups == splits_by_subtask(reversed(splits), 3), "S34"
    read = [split for group in groups.values() for split in group]
    # Partition 0 of the cut topic holds ten records, partition 9 one: none is empty.
    assert sorted(read) == list(splits)
    assert sum(split.size for split in read) == 2 * RECORDS * PARTITIONS - sum(range(PARTITIONS))


def test_S30_a_bounded_source_ends_at_the_stops_of_its_start(site: Site) -> None:
    one = site.enumerator(
        TimestampOffsetsInitializer(2001), subscriber=TopicListSubscriber((site.pattern_topic,)),
        stopping=TimestampOffsetsInitializer(6001),
    )  # fmt: skip
    one.start(None)
    splits = one.plan()
    assert {(split.start, split.stop) for split in splits} == {(2, 6)}
    assert not one.finished
    one.complete(splits)
    assert one.finished
    assert one.no_more_new_partition_splits


def test_partitions_are_kept_together_in_record_time(site: Site) -> None:
    """Partition p of the cut topic begins at record p, so partition 9 could be read to its end at once."""
    alignment = WatermarkAlignment(site.view, 2000)
    offsets = {one: one.partition for one in site.partitions(site.topic)}
    ends = dict.fromkeys(offsets, RECORDS)
    seen = []
    while offsets != ends:
        cut = alignment.cut(offsets, ends)
        assert cut != offsets
        seen.append(max(cut[one] for one in offsets if cut[one] > offsets[one]))
        offsets = cut
    assert seen == [3, 6, 9, 10]


def test_the_time_of_the_next_record_is_found_in_the_middle_of_a_log(site: Site) -> None:
    first, second = site.partitions(site.pattern_topic)[:2]
    ends = {first: RECORDS, second: RECORDS}
    assert WatermarkAlignment(site.view, 1000).cut({first: 7, second: 4}, ends) == {first: 7, second: 6}
