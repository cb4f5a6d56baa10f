"""Group S: when partitions are looked for, and which subtask reads what, against a real broker.

Flink's readers register and are handed splits. Here a subtask is a task of the micro-batch: the plan of a checkpoint
is divided among subtasks by the owner formula, so an assignment is what a plan gives a subtask, and a reader that
failed or is new has the next plan's share.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from sparkapp.clients.topics.topic_pattern import TopicPattern
from sparkapp.dataplane.batch import open_consumer
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.errors import OffsetsWentBackwards, TopicRecreated
from sparkapp.model.job.sections.source import OnDataLoss, OnTopicDeleted
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.discovery import PartitionChange
from sparkapp.source.enumerator.subscriber import TopicListSubscriber, TopicPatternSubscriber
from sparkapp.source.offsets_initializer import LatestOffsetsInitializer
from tests.support.clock import FakeClock
from tests.support.kafka.source_fixture import PARTITIONS, RECORDS, SourceFixture

BOTH = TopicListSubscriber(("pattern-topic", "topic"))
LAGS = {number: RECORDS - number for number in range(PARTITIONS)}
"""Of the fixture's topic: partition p begins at p."""


def shares_of(splits: Iterable[KafkaPartitionSplit], parallelism: int) -> dict[int, dict[str, set[int]]]:
    """The partitions that each subtask reads, by topic."""
    shares: dict[int, dict[str, set[int]]] = {}
    for subtask, given in splits_by_subtask(splits, parallelism).items():
        for split in given:
            shares.setdefault(subtask, {}).setdefault(split.partition.topic, set()).add(split.partition.partition)
    return shares


def test_S05_a_pattern_finds_a_topic_that_is_made_while_the_job_runs(
    source_fixture: SourceFixture, unique: str
) -> None:
    word, clock = unique[-8:], FakeClock()
    first, second, other = f"{word}-a", f"{word}-b", f"other-{word}"
    source_fixture.create(**{first: 1})
    each = source_fixture.enumerator(
        LatestOffsetsInitializer(),
        subscriber=TopicPatternSubscriber(TopicPattern(f"{word}-.")),
        interval=10,
        clock=clock,
    )
    each.start(None)
    source_fixture.create(**{second: 2, other: 1})
    source_fixture.fill(second, 3, partition=1)
    clock.now = 10.0
    assert each.discover_if_due() == PartitionChange(frozenset(source_fixture.partitions(second, (0, 1))), frozenset())
    assert [split.size for split in each.plan()] == [0, 0, 3], "from its beginning, whatever the startup"


def test_S06_a_discovery_gives_every_subtask_its_share_at_once(source_fixture: SourceFixture) -> None:
    each = source_fixture.enumerator(subscriber=BOTH)
    assert shares_of(each.plan(), 2) == {}, "both subtasks are there, and nothing is discovered"
    each.start(None)
    odd, even = {1, 3, 5, 7, 9}, {0, 2, 4, 6, 8}
    assert shares_of(each.plan(), 2) == {
        0: {"topic": odd, "pattern-topic": even},
        1: {"topic": even, "pattern-topic": odd},
    }


def test_S08_what_is_restored_without_an_offset_is_placed_once_at_a_real_one(source_fixture: SourceFixture) -> None:
    """shouldLazilyInitializeSplitOffsetsOnMigration: Flink's state may name splits that were never read, by markers. A
    document has only offsets. What it does not have is placed when the job starts, at the first record that is left."""
    read = {each: each.partition + 1 for each in source_fixture.partitions("topic", range(0, PARTITIONS, 2))}
    each = source_fixture.enumerator(LatestOffsetsInitializer())
    each.start(read)
    unread = {two: two.partition for two in source_fixture.partitions("topic", range(1, PARTITIONS, 2))}
    assert each.offsets == {**unread, **read}
    assert {split.partition: split.start for split in each.unplanned()} == each.offsets, "as the document has them"
    again = source_fixture.enumerator(LatestOffsetsInitializer())
    again.start(dict(each.offsets))
    assert again.offsets == each.offsets, "a second restart places nothing"


def test_S10_what_a_subtask_has_read_is_not_given_again(source_fixture: SourceFixture) -> None:
    read = {each: RECORDS for each in source_fixture.partitions("topic", (1, 3, 5, 7, 9))}
    begun = {each: each.partition for each in source_fixture.partitions("topic", (0, 2, 4, 6, 8))}
    each = source_fixture.enumerator()
    each.start({**read, **begun})
    assert shares_of(each.plan(), 2) == {1: {"topic": {0, 2, 4, 6, 8}}}
    assert source_fixture.warnings == []


def test_S11_S14_what_a_checkpoint_has_of_the_source_step_by_step(source_fixture: SourceFixture) -> None:
    clock = FakeClock()
    each = source_fixture.enumerator(max_rate=1, clock=clock)
    assert (dict(each.offsets), each.unplanned()) == ({}, ()), "before the discovery"
    each.start(None)
    begun = {partition: partition.partition for partition in source_fixture.partitions("topic")}
    assert each.offsets == begun, "after it; the starts are written down before anything is read"
    assert all(split.size == 0 for split in each.unplanned())
    splits = each.plan()
    assert each.offsets == begun, "planned, not completed"
    each.complete(splits)
    assert each.offsets == {partition: start + 1 for partition, start in begun.items()}, "partly read"
    while any((each.pending or {}).values()):
        clock.now += 1
        each.complete(each.plan())
    assert each.offsets == dict.fromkeys(begun, RECORDS), "all"


def test_S12_only_the_new_partition_is_found_and_all_twenty_are_gone(
    source_fixture: SourceFixture, unique: str
) -> None:
    word, clock = unique[-8:], FakeClock()
    old, new = (f"left-{word}", f"right-{word}"), f"dynamic-{word}"
    source_fixture.create(**dict.fromkeys(old, 10))
    for topic in old:
        source_fixture.fill(topic, 1)
    each = source_fixture.enumerator(
        subscriber=TopicListSubscriber((*old, new)), interval=1, clock=clock, deleted=OnTopicDeleted.IGNORE
    )
    each.start({partition: 0 for topic in old for partition in source_fixture.partitions(topic)})
    assert len(each.offsets) == 20
    source_fixture.delete(*old)
    source_fixture.create(**{new: 1})
    source_fixture.fill(new, 3)
    clock.now = 1.0
    change = each.discover_if_due()
    assert change is not None
    assert change.new == {TopicPartition(new, 0)}
    assert change.removed == {partition for topic in old for partition in source_fixture.partitions(topic)}
    assert [(str(split.partition), split.start, split.stop) for split in each.plan()] == [(f"{new}-0", 0, 3)]
    assert [reason for reason, _ in source_fixture.warnings] == ["PartitionRemoved", "PartitionAdded"]


def test_S39_a_cap_is_shared_in_proportion_and_never_exceeded(source_fixture: SourceFixture) -> None:
    """Lags of 10, 9 … 1; a fifth of each is 2, 1.8 … 0.2: each gets one, and what is left goes to the largest."""
    each = source_fixture.enumerator(max_offsets=11)
    each.start(None)
    first = each.plan()
    assert [split.size for split in first] == [2, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    each.complete(first)
    read = [sum(split.size for split in first)]
    while any((each.pending or {}).values()):
        splits = each.plan()
        read.append(sum(split.size for split in splits))
        each.complete(splits)
    assert read == [11] * math.ceil(sum(LAGS.values()) / 11)
    assert set(each.offsets.values()) == {RECORDS}


@pytest.mark.parametrize("policy", OnDataLoss)
def test_S40_a_topic_recreated_with_fewer_records(
    source_fixture: SourceFixture, unique: str, policy: OnDataLoss
) -> None:
    name = f"recreated-{unique[-8:]}"
    source_fixture.create(**{name: 1})
    source_fixture.fill(name, 500)
    each = source_fixture.enumerator(subscriber=TopicListSubscriber((name,)), lost=policy)
    each.start(None)
    each.complete(each.plan())
    assert each.offsets == {TopicPartition(name, 0): 500}
    source_fixture.delete(name)
    source_fixture.create(**{name: 1})
    source_fixture.fill(name, 300)
    if policy is OnDataLoss.FAIL:
        with pytest.raises(TopicRecreated, match="offset was changed from 500 to 300") as caught:
            each.plan()
        assert caught.value.fatal
        assert f"{name}-0" in caught.value.message
    else:
        assert [(split.start, split.stop) for split in each.plan()] == [(0, 300)]
        assert [reason for reason, _ in source_fixture.warnings] == ["TopicRecreated"]


def test_S40_retention_between_a_plan_and_its_read_heals_at_the_next_attempt(
    source_fixture: SourceFixture, unique: str
) -> None:
    name = f"short-{unique[-8:]}"
    source_fixture.create(**{name: 1})
    source_fixture.fill(name, 10)
    each = source_fixture.enumerator(subscriber=TopicListSubscriber((name,)), lost=OnDataLoss.SKIP_TO_AVAILABLE)
    each.start(None)
    splits = each.plan()
    source_fixture.cut(name, 6)
    reader = open_consumer({"bootstrap.servers": source_fixture.bootstrap, "group.id": source_fixture.group})
    with pytest.raises(OffsetsWentBackwards, match=name) as caught:
        list(reader.read(splits, stall_timeout=20))
    assert caught.value.fatal
    error = each.explain(caught.value)
    assert not error.fatal
    assert error.message == f"{name}-0: records from offset 0 on are gone, the log begins at 6"
    again = source_fixture.enumerator(subscriber=TopicListSubscriber((name,)), lost=OnDataLoss.SKIP_TO_AVAILABLE)
    again.start(dict(each.offsets))
    assert [reason for reason, _ in source_fixture.warnings] == ["OffsetsSkipped"]
    assert sum(batch.num_rows for batch in reader.read(again.plan(), stall_timeout=20)) == 4
    # Overtaken again while it runs: the same attempt continues.
    source_fixture.cut(name, 9)
    assert [(split.start, split.stop) for split in again.plan()] == [(9, 10)]
    reader.close()


def test_S33_what_is_found_while_a_topic_grows_is_shared_evenly_and_found_once(
    source_fixture: SourceFixture, unique: str
) -> None:
    """testGrowingPartitions: 7 partitions, then 11, over three subtasks."""
    name, clock = f"grows-{unique[-8:]}", FakeClock()
    source_fixture.create(**{name: 7})
    each = source_fixture.enumerator(subscriber=TopicListSubscriber((name,)), interval=10, clock=clock)
    each.start(None)
    before = {split.partition: split.owner(3) for split in each.unplanned()}
    assert sorted(list(before.values()).count(subtask) for subtask in range(3)) == [2, 2, 3]
    source_fixture.grow(name, 11)
    clock.now = 10.0
    found = each.discover_if_due()
    assert found is not None
    assert found.new == frozenset(source_fixture.partitions(name, range(7, 11)))
    after = {split.partition: split.owner(3) for split in each.unplanned()}
    assert sorted(list(after.values()).count(subtask) for subtask in range(3)) == [3, 4, 4]
    assert before.items() <= after.items(), "nothing moves to another subtask"
    clock.now = 20.0
    assert each.discover_if_due() == PartitionChange(frozenset(), frozenset())
