"""Group S: where reading begins and ends, and which partitions are read, against a real broker.

The fixture is the catalogue's (``tests/support/kafka/source_fixture.py``). What is read when, and by which subtask, is
in ``test_s_enumerator.py``.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sparkapp.clients import kafka_cluster_view as cluster
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.topics.topic_pattern import TopicPattern
from sparkapp.dataplane.batch import open_consumer
from sparkapp.model.errors import KafkaUnreachable, TopicNotFound
from sparkapp.model.job.client.config import group_member_config
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.job.spec_from_resource import spec_from_resource
from sparkapp.model.job.startup import ResetStrategy
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.subscriber import PartitionSetSubscriber, TopicListSubscriber, TopicPatternSubscriber
from sparkapp.source.enumerator.watermark_alignment import WatermarkAlignment
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import (
    CommittedOffsetsInitializer,
    EarliestOffsetsInitializer,
    LatestOffsetsInitializer,
    SpecificOffsetsInitializer,
    TimestampOffsetsInitializer,
    TimestampStopsInitializer,
)
from tests.support.fakes.cluster_view import CountingView
from tests.support.jobs.commit_counter import CommitCounter
from tests.support.kafka.source_fixture import RECORDS, SourceFixture
from tests.support.kafka.topics import create_topics
from tests.support.kubernetes.api_client import await_that

MANY = 2**31 - 1


@pytest.fixture
def source_fixture(source_fixture: SourceFixture) -> SourceFixture:
    return source_fixture


def test_S13_a_member_of_a_group_is_seen_with_the_jobs_name(
    source_fixture: SourceFixture, topic: str, unique: str
) -> None:
    resource = {
        "kafka": {"bootstrapServers": source_fixture.bootstrap},
        "sink": {"topic": "out", "deliveryGuarantee": "AtLeastOnce"},
        "source": {
            "topics": [topic], "groupId": unique, "groupMembership": {"mode": "Subscribe"},
            "startup": {"mode": "GroupOffsets"},
        },
    }  # fmt: skip
    spec = spec_from_resource(resource, namespace="shop", name="orders")
    job = Job(namespace="shop", name="orders", uid="u", generation=1, attempt=1, spec=spec)
    member = Consumer(group_member_config(job, security={}))
    admin = AdminClient({"bootstrap.servers": source_fixture.bootstrap})

    def seen() -> list[str]:
        member.poll(0.1)
        described = admin.describe_consumer_groups([unique])[unique].result(30)
        return [each.client_id for each in described.members]

    try:
        member.subscribe([topic])
        assert await_that("the member is seen", seen, seconds=60) == ["shop.orders-member"]
    finally:
        member.close()


def test_S13_a_question_is_given_up_at_the_time_out(source_fixture: SourceFixture) -> None:
    view = KafkaClusterView(
        {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "client.id": "ns.job"}, read_committed=True, timeout=0.5
    )
    try:
        with pytest.raises(KafkaUnreachable):
            view.topics()
    finally:
        view.close()


@pytest.mark.parametrize(("strategy", "offset"), [(ResetStrategy.EARLIEST, 9), (ResetStrategy.LATEST, RECORDS)])
def test_S24_a_committed_offset_outside_the_log_follows_the_strategy(
    source_fixture: SourceFixture, strategy: ResetStrategy, offset: int
) -> None:
    """The fixture's group stands at 11 in partition 9, whose log ends at 10."""
    each = CommittedOffsetsInitializer(
        strategy, warn=lambda reason, text: source_fixture.warnings.append((reason, text))
    )
    source_fixture.warnings.clear()
    found = each.offsets(source_fixture.partitions(source_fixture.topic), source_fixture.view)
    assert found == {
        each: each.partition + 2 if each.partition < 9 else offset
        for each in source_fixture.partitions(source_fixture.topic)
    }
    assert [reason for reason, _ in source_fixture.warnings] == ["OffsetOutOfRange"]
    assert "topic-9 at 11 (the log holds 9 to 10)" in source_fixture.warnings[0][1]


def open_transaction(source_fixture: SourceFixture, unique: str) -> tuple[TopicPartition, Callable[[], None]]:
    """A partition whose records 3 to 6 are in an open transaction, and what commits it and waits until readers see."""
    partition = TopicPartition(f"open-{unique[-8:]}", 0)
    source_fixture.create(**{partition.topic: 1})
    source_fixture.fill(partition.topic, 3)
    producer = Producer({"bootstrap.servers": source_fixture.bootstrap, "transactional.id": unique})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in range(4):
        producer.produce(partition.topic, value=str(value), partition=0)
    assert producer.flush(30) == 0

    def commit() -> None:
        producer.commit_transaction(30)
        view = source_fixture.view
        await_that("the transaction has ended", lambda: view.latest([partition]) == view.log_ends([partition]))

    return partition, commit


def test_S24_an_offset_behind_an_open_transaction_is_read_when_it_has_ended(
    source_fixture: SourceFixture, unique: str
) -> None:
    partition, commit = open_transaction(source_fixture, unique)
    assert (source_fixture.view.latest([partition]), source_fixture.view.log_ends([partition])) == (
        {partition: 3},
        {partition: 7},
    )
    each = source_fixture.enumerator(
        SpecificOffsetsInitializer({partition: 5}, ResetStrategy.EARLIEST),
        subscriber=TopicListSubscriber((partition.topic,)),
    )
    each.start(None)
    assert [(split.start, split.stop) for split in each.plan()] == [(5, 5)]
    commit()
    assert [(split.start, split.stop) for split in each.plan()] == [(5, 8)]


def test_a_member_leaves_alone_what_the_group_has_read_beyond(source_fixture: SourceFixture, unique: str) -> None:
    """Another member read uncommitted records of it. Ours waits until the transaction has ended."""
    events = list[str]()
    partition, commit = open_transaction(source_fixture, unique)
    other = Consumer({"bootstrap.servers": source_fixture.bootstrap, "group.id": source_fixture.group})
    other.commit(offsets=[ClientPartition(partition.topic, 0, 5)], asynchronous=False)
    other.close()
    member = GroupMembership(
        cluster=source_fixture.view, initializer=CommittedOffsetsInitializer(ResetStrategy.EARLIEST),
        tell=lambda reason, *_: events.append(reason), changed=lambda _: None, callback=CommitCounter(),
    )  # fmt: skip
    member.start(None, [partition])
    member.assigned([partition])
    assert (member.take(), member.take()) == ({}, {})
    assert events.count("PartitionBeyondEnd") == 1
    commit()
    assert member.take() == {partition: 5}
    member.close()


def test_S17_a_timestamp_is_the_first_record_at_or_after_it(source_fixture: SourceFixture) -> None:
    partitions = source_fixture.partitions(source_fixture.pattern_topic)
    for millis, offset in ((0, 0), (1, 0), (2, 1), (5000, 5), (5001, 5), (5002, 6), (9001, 9), (9002, RECORDS)):
        found = TimestampOffsetsInitializer(millis).offsets(partitions, source_fixture.view)
        assert set(found.values()) == {offset}, millis


def test_S17_a_timestamp_before_deleted_records_is_the_first_one_left(source_fixture: SourceFixture) -> None:
    """Flink's case: a record is found at its time or the next one after it, from partition 3 on the first one left."""
    found = TimestampOffsetsInitializer(3001).offsets(
        source_fixture.partitions(source_fixture.topic), source_fixture.view
    )
    assert found == {each: max(3, each.partition) for each in source_fixture.partitions(source_fixture.topic)}


@pytest.mark.parametrize(("seconds", "found"), [(60, 7), (120, None)])
def test_S17_a_timestamp_behind_an_open_transaction_is_found(
    source_fixture: SourceFixture, unique: str, seconds: int, found: int | None
) -> None:
    """Records 7 and 8 have the time of in 60 seconds, and no record has that of in 120: the log's end is the stop."""
    partition, commit = open_transaction(source_fixture, unique)
    now = round(time.time() * 1000)
    producer = Producer({"bootstrap.servers": source_fixture.bootstrap})
    for value in ("7", "8"):
        producer.produce(partition.topic, value=value, partition=0, timestamp=now + 60_000)
    assert producer.flush(30) == 0
    millis, stop = now + seconds * 1000, 9 if found is None else found
    for strategy in ResetStrategy:
        if found is not None:
            start = TimestampOffsetsInitializer(millis, strategy)
            assert start.offsets([partition], source_fixture.view) == {partition: found}
    each = source_fixture.enumerator(
        subscriber=TopicListSubscriber((partition.topic,)), stopping=TimestampStopsInitializer(millis)
    )
    each.start(None)
    consumer = open_consumer({"bootstrap.servers": source_fixture.bootstrap, "group.id": source_fixture.group})
    rows = []
    for end in (3, stop):
        splits = each.plan()
        assert [split.stop for split in splits] == [end]
        assert not each.finished
        rows.append(sum(batch.num_rows for batch in consumer.read(splits)))
        each.complete(splits)
        if end == 3:
            commit()
    consumer.close()
    assert (rows, each.finished) == ([3, stop - 3], True)


def test_offsets_are_the_same_whatever_number_of_partitions_a_request_takes(
    source_fixture: SourceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = [
        *source_fixture.partitions(source_fixture.topic),
        *source_fixture.partitions(source_fixture.pattern_topic),
    ]
    times = dict.fromkeys(partitions, 4001)

    def everything() -> tuple[object, ...]:
        view = source_fixture.view
        return view.earliest(partitions), view.latest(partitions), view.committed(partitions), view.records_at(times)

    whole = everything()
    for number in (1, 3, 20):
        monkeypatch.setattr(cluster, "_IN_A_REQUEST", number)
        assert everything() == whole
    assert source_fixture.view.earliest([]) == source_fixture.view.committed([]) == {}


def test_S18_a_timestamp_on_empty_partitions_is_0(source_fixture: SourceFixture) -> None:
    name = f"empty-{uuid.uuid4().hex[:8]}"
    create_topics(source_fixture.bootstrap, NewTopic(name, 3, 1))
    partitions = [TopicPartition(name, number) for number in range(3)]
    found = TimestampOffsetsInitializer(2000).offsets(partitions, source_fixture.view)
    assert found == dict.fromkeys(partitions, 0)


def test_S19_specific_offsets_then_the_group_then_the_strategy(source_fixture: SourceFixture) -> None:
    first, second = TopicPartition(source_fixture.topic, 0), TopicPartition(source_fixture.topic, 1)
    other = TopicPartition(source_fixture.pattern_topic, 0)
    named = SpecificOffsetsInitializer({first: 7}, ResetStrategy.EARLIEST)
    assert named.offsets([first, second, other], source_fixture.view) == {first: 7, second: 3, other: 0}
    latest = SpecificOffsetsInitializer({first: 7}, ResetStrategy.LATEST)
    assert latest.offsets([other], source_fixture.view) == {other: RECORDS}
    deleted = SpecificOffsetsInitializer({second: 0}, ResetStrategy.EARLIEST)
    assert deleted.offsets([second], source_fixture.view) == {second: 1}, "offset 0 was deleted: the strategy decides"


def test_S21_an_internal_topic_is_read_by_its_name_and_matches_no_pattern(source_fixture: SourceFixture) -> None:
    offsets = "__consumer_offsets"
    enumerator = source_fixture.enumerator(EarliestOffsetsInitializer(), subscriber=TopicListSubscriber((offsets,)))
    enumerator.start(None)
    splits = [split for split in enumerator.plan() if split.size]
    assert {split.partition.topic for split in splits} == {offsets}, "the group's offsets are in there"
    consumer = open_consumer({"bootstrap.servers": source_fixture.bootstrap, "group.id": source_fixture.group})
    assert sum(batch.num_rows for batch in consumer.read(splits)) > 0
    consumer.close()
    pattern = TopicPatternSubscriber(TopicPattern(".*"))
    assert offsets not in {each.topic for each in pattern.partitions(source_fixture.view.topics())}


def test_S22_an_unknown_topic_and_an_unknown_partition_are_named(source_fixture: SourceFixture) -> None:
    with pytest.raises(TopicNotFound, match="'nowhere' does not exist"):
        source_fixture.enumerator(EarliestOffsetsInitializer(), subscriber=TopicListSubscriber(("nowhere",))).start(
            None
        )
    chosen = PartitionSetSubscriber(frozenset({TopicPartition(source_fixture.topic, MANY)}))
    with pytest.raises(TopicNotFound, match=f"source partition 'topic-{MANY}' does not exist on Kafka brokers"):
        source_fixture.enumerator(EarliestOffsetsInitializer(), subscriber=chosen).start(None)


@pytest.mark.parametrize(("strategy", "offset"), [(ResetStrategy.EARLIEST, 0), (ResetStrategy.LATEST, RECORDS)])
def test_S24_no_commit_and_a_strategy(source_fixture: SourceFixture, strategy: ResetStrategy, offset: int) -> None:
    each = source_fixture.enumerator(
        CommittedOffsetsInitializer(strategy), subscriber=TopicListSubscriber((source_fixture.pattern_topic,))
    )
    each.start(None)
    assert set(each.offsets.values()) == {offset}


@pytest.mark.parametrize("bounded", [True, False])
def test_S30_a_bounded_source_looks_for_no_partitions_after_its_start(
    source_fixture: SourceFixture, unique: str, bounded: bool
) -> None:
    """Its builder has partition.discovery.interval.ms = -1; the default is 300000, at which the other one looks."""
    name, now, view = f"bounded-{unique[-8:]}", [0.0], CountingView(source_fixture.view)
    source_fixture.create(**{name: 1})
    source_fixture.fill(name, 4)
    interval = _spec().source.discovery_interval_seconds
    assert interval * 1000 == 300_000
    each = source_fixture.enumerator(
        subscriber=TopicListSubscriber((name,)), view=view, interval=interval, clock=lambda: now[0],
        stopping=LatestOffsetsInitializer() if bounded else None,
    )  # fmt: skip
    each.start(None)
    source_fixture.grow(name, 2)
    source_fixture.fill(name, 3, partition=1)
    listings = view.listings
    now[0] = float(interval)
    found = each.discover_if_due()
    splits = each.plan()
    each.complete(splits)
    if bounded:
        assert (found, view.listings, each.finished) == (None, listings, True)
        assert [split.stop for split in splits] == [4]
    else:
        assert found is not None
        assert (view.listings, [split.stop for split in splits]) == (listings + 1, [4, 3])


def test_S30_a_bounded_source_ends_at_the_stops_of_its_start(source_fixture: SourceFixture) -> None:
    each = source_fixture.enumerator(
        TimestampOffsetsInitializer(2001), subscriber=TopicListSubscriber((source_fixture.pattern_topic,)),
        stopping=TimestampStopsInitializer(6001),
    )  # fmt: skip
    each.start(None)
    splits = each.plan()
    assert {(split.start, split.stop) for split in splits} == {(2, 6)}
    assert not each.finished
    each.complete(splits)
    assert each.finished


def _spec() -> JobSpec:
    """Of a resource that says nothing beyond what it must."""
    resource = {"kafka": {"bootstrapServers": "b:1"}, "source": {"topics": ["in"]}, "sink": {"topic": "out"}}
    return spec_from_resource(resource, namespace="shop", name="orders")


def test_partitions_are_kept_together_in_record_time(source_fixture: SourceFixture) -> None:
    """Partition p of the cut topic begins at record p, so partition 9 could be read to its end at once."""
    alignment = WatermarkAlignment(source_fixture.view, 2000)
    offsets = {each: each.partition for each in source_fixture.partitions(source_fixture.topic)}
    ends = dict.fromkeys(offsets, RECORDS)
    seen = []
    while offsets != ends:
        cut = alignment.cut(offsets, ends)
        assert cut != offsets
        seen.append(max(cut[each] for each in offsets if cut[each] > offsets[each]))
        offsets = cut
    assert seen == [3, 6, 9, 10]


def test_the_time_of_the_next_record_is_found_in_the_middle_of_a_log(source_fixture: SourceFixture) -> None:
    first, second = source_fixture.partitions(source_fixture.pattern_topic)[:2]
    ends = {first: RECORDS, second: RECORDS}
    assert WatermarkAlignment(source_fixture.view, 1000).cut({first: 7, second: 4}, ends) == {first: 7, second: 6}
