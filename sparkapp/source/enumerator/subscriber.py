"""Subscribers: the partitions that a job reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from sparkapp.clients.topics.topic_pattern import TopicPattern
from sparkapp.model.errors import TopicNotFound
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.sections.source import Source
from sparkapp.model.partition import TopicPartition


class Subscriber(Protocol):
    """Chooses partitions from what the cluster has: ``topics`` are the partition counts of its topics."""

    @property
    def named(self) -> frozenset[str]:
        """Topics that the spec names."""
        ...

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        """The subscribed partitions that exist."""
        ...

    def missing(self, topics: Mapping[str, int]) -> str:
        """Named topics or partitions that do not exist, as text for a message; empty where all exist (case S22)."""
        ...

    def newly_asked_for(self, partition: TopicPartition, known: Collection[str]) -> bool:
        """Whether the spec, and not the cluster, added a partition to a subscription that had these topics."""
        ...

    def matches(self, partition: TopicPartition) -> bool:
        """Whether a partition belongs to the subscription, whether it exists or not."""
        ...

    def describe(self) -> str:
        """For messages."""
        ...


@dataclass(frozen=True, slots=True)
class TopicListSubscriber:
    """All partitions of the named topics."""

    topics: tuple[str, ...]

    @property
    def named(self) -> frozenset[str]:
        return frozenset(self.topics)

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        return {TopicPartition(name, number) for name in self.topics for number in range(topics.get(name, 0))}

    def missing(self, topics: Mapping[str, int]) -> str:
        names = [repr(name) for name in self.topics if name not in topics]
        return f"source topic {', '.join(names)}" if names else ""

    def newly_asked_for(self, partition: TopicPartition, known: Collection[str]) -> bool:
        return partition.topic not in known

    def matches(self, partition: TopicPartition) -> bool:
        return partition.topic in self.topics

    def describe(self) -> str:
        return f"topics {', '.join(self.topics)}"


@dataclass(frozen=True, slots=True)
class TopicPatternSubscriber:
    """All partitions of the topics whose whole name matches."""

    pattern: TopicPattern

    @property
    def named(self) -> frozenset[str]:
        return frozenset()

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        return {
            TopicPartition(name, number) for name in self.pattern.matching(topics) for number in range(topics[name])
        }

    def missing(self, topics: Mapping[str, int]) -> str:
        return ""

    def newly_asked_for(self, partition: TopicPartition, known: Collection[str]) -> bool:
        return False

    def matches(self, partition: TopicPartition) -> bool:
        return self.pattern.matches(partition.topic)

    def describe(self) -> str:
        return f"topicPattern {self.pattern.expression!r}"


@dataclass(frozen=True, slots=True)
class PartitionSetSubscriber:
    """Exactly the named partitions; others of the same topics are never read."""

    chosen: frozenset[TopicPartition]

    @property
    def named(self) -> frozenset[str]:
        return frozenset(partition.topic for partition in self.chosen)

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        return {partition for partition in self.chosen if partition.partition < topics.get(partition.topic, 0)}

    def missing(self, topics: Mapping[str, int]) -> str:
        names = [f"'{partition}'" for partition in sorted(self.chosen - self.partitions(topics))]
        return f"source partition {listed(names)}" if names else ""

    def newly_asked_for(self, partition: TopicPartition, known: Collection[str]) -> bool:
        return True

    def matches(self, partition: TopicPartition) -> bool:
        return partition in self.chosen

    def describe(self) -> str:
        return f"{len(self.chosen)} named partitions"


def require(subscriber: Subscriber, topics: Mapping[str, int], *, or_nothing: bool = False) -> set[TopicPartition]:
    """The partitions to read, with every named topic or partition.

    :param or_nothing: a pattern may match nothing: idleness, once a job has begun.
    :raises TopicNotFound: a named topic or partition does not exist (case S22), or nothing matches.
    """
    missing = subscriber.missing(topics)
    if missing:
        raise not_found(missing)
    found = subscriber.partitions(topics)
    if not found and not or_nothing:
        msg = f"{subscriber.describe()} matches no topic with a partition"
        raise TopicNotFound(msg)
    return found


def not_found(*missing: str) -> TopicNotFound:
    """The error about topics or partitions that do not exist.

    :param missing: names, with their part in the job: source, sink or dead letters.
    """
    return TopicNotFound(f"{' and '.join(missing)} {'does' if len(missing) == 1 else 'do'} not exist on Kafka brokers")


def subscriber_of(source: Source) -> Subscriber:
    """The subscriber that the job's source asks for."""
    if source.partitions:
        return PartitionSetSubscriber(frozenset(source.partitions))
    if source.topic_pattern:
        return TopicPatternSubscriber(TopicPattern(source.topic_pattern))
    return TopicListSubscriber(source.topics)
