"""The count at the end: from the logs of partitions and from their leaders. No coordinator is asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as WirePartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from sparkapp.clients.deadline import Deadline
from tests.support.kafka.partition_log import PartitionLog, group_offsets, offset_key, read_log
from tests.support.kafka.three_brokers import GROUPS, Ensemble
from tests.support.protocol.story import Story

_SECONDS = 60


def logs_of(ensemble: Ensemble, topic: str) -> dict[int, PartitionLog]:
    """Of each partition, its leader's."""
    leaders = _leaders_of(ensemble, topic)
    return {number: read_log(ensemble.data_of(node) / f"{topic}-{number}") for number, node in leaders.items()}


def _leaders_of(ensemble: Ensemble, topic: str) -> dict[int, int]:
    deadline = Deadline.after(_SECONDS)
    while True:
        asked = AdminClient({"bootstrap.servers": ensemble.bootstrap})
        partitions = asked.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        if partitions and all(each.leader >= 0 for each in partitions.values()):
            return {number: each.leader for number, each in partitions.items()}
        assert not deadline.expired, f"{topic} has partitions without a leader"
        time.sleep(deadline.bound(0.2))


def open_producers(ensemble: Ensemble, topics: Iterable[str]) -> dict[tuple[str, int], list[int]]:
    """Producers that leaders hold for open, by partition (DescribeProducers); partitions without any are absent."""
    admin = AdminClient({"bootstrap.servers": ensemble.bootstrap})
    metadata = admin.list_topics(timeout=_SECONDS).topics
    wanted = [WirePartition(topic, number) for topic in topics for number in metadata[topic].partitions]
    found = _described(ensemble, wanted)
    still_open = {
        (partition.topic, partition.partition): [
            each.producer_id for each in state.active_producers if each.current_transaction_start_offset >= 0
        ]
        for partition, state in found.items()
    }
    return {partition: producers for partition, producers in still_open.items() if producers}


def _described(ensemble: Ensemble, partitions: list[WirePartition]) -> Any:
    """The answers of the leaders. A broker that has just started does not know them yet."""
    deadline = Deadline.after(_SECONDS)
    while True:
        try:
            with closing(KafkaAdminClient(bootstrap_servers=ensemble.bootstrap.split(","))) as asked:
                return asked.describe_producers(partitions)
        except KafkaError:
            if deadline.expired:
                raise
            time.sleep(deadline.bound(0.2))


def verdict_of(ensemble: Ensemble, story: Story) -> str:
    """What the logs say of a story that has ended; empty if each record is there once and nothing is open."""
    found: Counter[tuple[str, int]] = Counter()
    problems = []
    for topic in story.topics:
        for number, log in logs_of(ensemble, topic).items():
            found.update((topic, int(each.value or b"")) for each in log.visible)
            if log.open:
                problems.append(f"{topic}-{number} has no marker of producers {log.open}")
    wanted = story.expected()
    if lost := wanted - found:
        problems.append(f"{lost.total()} records are lost: {sorted(lost)[:20]}")
    if more := found - wanted:
        problems.append(f"{more.total()} records are there again: {sorted(more)[:20]}")
    if left := open_producers(ensemble, story.topics):
        problems.append(f"leaders have open producers: {left}")
    problems += _of_group(logs_of(ensemble, GROUPS), story)
    return "; ".join(problems)


def _of_group(logs: Mapping[int, PartitionLog], story: Story) -> Iterator[str]:
    group = story.prefix
    for number, log in logs.items():
        for producer, records in log.pending.items():
            if any((offset_key(each.key or b"") or ("",))[0] == group for each in records):
                yield f"{GROUPS}-{number} has no marker of producer {producer}"
    offsets = group_offsets(logs.values())
    found = {partition: offset for (name, _, partition), offset in offsets.items() if name == group}
    if found != story.ends:
        yield f"the group is at {found}, not at {story.ends}"


def open_in_groups(ensemble: Ensemble) -> str:
    """What leaders of the partitions of group offsets hold open; empty if nothing."""
    found = open_producers(ensemble, [GROUPS])
    return f"leaders have open producers: {found}" if found else ""
