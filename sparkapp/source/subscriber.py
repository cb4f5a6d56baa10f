"""Which partitions a job reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sparkapp.model.errors import TopicNotFound
from sparkapp.model.job import Source
from sparkapp.model.partition import TopicPartition


class Subscriber(Protocol):
    """Chooses partitions from what the cluster has."""

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        """The subscribed partitions.

        :param topics: partition counts of the cluster's topics.
        :raises TopicNotFound: a topic that was asked for by name is missing (case S22).
        """
        ...

    def matches(self, topic: str) -> bool:
        """Whether a topic belongs to the subscription, whether it exists or not."""
        ...

    def describe(self) -> str:
        """For messages."""
        ...


@dataclass(frozen=True, slots=True)
class TopicListSubscriber:
    """All partitions of the named topics."""

    topics: tuple[str, ...]

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        missing = [name for name in self.topics if name not in topics]
        if missing:
            msg = f"source topic {', '.join(repr(name) for name in missing)} does not exist on the Kafka brokers"
            raise TopicNotFound(msg)
        return {TopicPartition(name, number) for name in self.topics for number in range(topics[name])}

    def matches(self, topic: str) -> bool:
        return topic in self.topics

    def describe(self) -> str:
        return f"topics {', '.join(self.topics)}"


@dataclass(frozen=True, slots=True)
class TopicPatternSubscriber:
    """All partitions of the topics whose whole name matches."""

    pattern: re.Pattern[str]

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        return {
            TopicPartition(name, number)
            for name, count in topics.items()
            if self.matches(name)
            for number in range(count)
        }

    def matches(self, topic: str) -> bool:
        return self.pattern.fullmatch(topic) is not None

    def describe(self) -> str:
        return f"topicPattern {self.pattern.pattern!r}"


def subscriber_of(source: Source) -> Subscriber:
    """The subscriber that the job's source asks for."""
    if source.topic_pattern:
        return TopicPatternSubscriber(re.compile(source.topic_pattern))
    return TopicListSubscriber(source.topics)
