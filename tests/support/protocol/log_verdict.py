"""The count at the end: from the logs of partitions and from their leaders. No coordinator is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as WirePartition
from kafka.admin import KafkaAdminClient

from tests.support.kafka.partition_log import PartitionLog, group_offsets, offset_key, read_log
from tests.support.kafka.three_brokers import GROUPS, Ensemble
from tests.support.protocol.story import Story

_SECONDS = 20


def logs_of(ensemble: Ensemble, topic: str) -> dict[int, PartitionLog]:
    """Of each partition, its leader's."""
    admin = AdminClient({"bootstrap.servers": ensemble.bootstrap})
    partitions = admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
    return {number: read_log(ensemble.data_of(one.leader) / f"{topic}-{number}") for number, one in partitions.items()}


def open_producers(ensemble: Ensemble, topics: Iterable[str]) -> dict[tuple[str, int], list[int]]:
    """Producers that leaders hold for open, by partition (DescribeProducers); partitions without any are absent."""
    admin = AdminClient({"bootstrap.servers": ensemble.bootstrap})
    metadata = admin.list_topics(timeout=_SECONDS).topics
    wanted = [WirePartition(topic, number) for topic in topics for number in metadata[topic].partitions]
    with closing(KafkaAdminClient(bootstrap_servers=ensemble.bootstrap.split(","))) as asked:
        found = asked.describe_producers(wanted)
    still_open = {
        (partition.topic, partition.partition): [
            each.producer_id for each in state.active_producers if each.current_transaction_start_offset >= 0
        ]
        for partition, state in found.items()
    }
    return {partition: producers for partition, producers in still_open.items() if producers}


def verdict_of(ensemble: Ensemble, story: Story) -> str:
    """What the logs say of a story that has ended; empty if each record is there once and nothing is open."""
    found: Counter[int] = Counter()
    problems = []
    for number, log in logs_of(ensemble, story.sink).items():
        found.update(int(one.value or b"") for one in log.visible)
        if log.open:
            problems.append(f"{story.sink}-{number} has no marker of producers {log.open}")
    wanted = Counter({number: count for (_, number), count in story.expected().items()})
    if lost := wanted - found:
        problems.append(f"{lost.total()} records are lost: {sorted(lost)[:20]}")
    if more := found - wanted:
        problems.append(f"{more.total()} records are there again: {sorted(more)[:20]}")
    if left := open_producers(ensemble, [story.sink]):
        problems.append(f"leaders have open producers: {left}")
    problems += _of_group(logs_of(ensemble, GROUPS), story)
    return "; ".join(problems)


def _of_group(logs: Mapping[int, PartitionLog], story: Story) -> Iterator[str]:
    group = story.prefix
    for number, log in logs.items():
        for producer, records in log.pending.items():
            if any((offset_key(one.key or b"") or ("",))[0] == group for one in records):
                yield f"{GROUPS}-{number} has no marker of producer {producer}"
    offsets = group_offsets(logs.values())
    found = {partition: offset for (name, _, partition), offset in offsets.items() if name == group}
    if found != story.ends:
        yield f"the group is at {found}, not at {story.ends}"


def open_in_groups(ensemble: Ensemble) -> str:
    """What leaders of the partitions of group offsets hold open; empty if nothing."""
    found = open_producers(ensemble, [GROUPS])
    return f"leaders have open producers: {found}" if found else ""
