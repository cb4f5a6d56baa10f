"""A cluster view in memory, for the enumerator's unit tests; never used where visibility is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sparkapp.clients.cluster_view import ClusterView, FoundRecord
from sparkapp.model.errors import AuthorizationFailed, LeaderUnavailable, TopicNotFound
from sparkapp.model.partition import TopicPartition


@dataclass
class FakeCluster:
    """Topics with a number of partitions; each partition has a log start, an end and perhaps a committed offset."""

    partitions: dict[str, int] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    commits: dict[TopicPartition, int] = field(default_factory=dict)
    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Each record's time, from the log start on."""
    unstable: dict[TopicPartition, int] = field(default_factory=dict)
    """Records of open transactions, behind the end that can be read."""
    replaced: dict[TopicPartition, int] = field(default_factory=dict)
    """Ends that a replaced leader answers with, as long as this client still asks it."""
    undecided: bool = False
    """Whether the brokers do not agree on the leaders."""
    asked_each: list[list[TopicPartition]] = field(default_factory=list)
    """The partitions of each question that costs requests to all brokers."""
    denied: set[str] = field(default_factory=set)
    """Topics that may not be described any more: no listing has them."""
    unlisted: set[str] = field(default_factory=set)
    """Topics that one listing lacks, and that are there all the same."""
    behind: int = 0
    """Answers to names by a broker that has not heard of any topic yet."""
    deleted: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    """Of topics; brokers of before 3.0 have none."""
    settings: dict[int, str] = field(default_factory=dict)
    """What each broker says of the setting that is asked for."""
    asked_earliest: list[list[TopicPartition]] = field(default_factory=list)
    """The partitions of each question for log starts."""

    def broker_config(self, _: str) -> dict[int, str]:
        return self.settings

    def topics(self) -> dict[str, int]:
        return {name: count for name, count in self.partitions.items() if name not in self.denied | self.unlisted}

    def existing(self, topics: Iterable[str]) -> dict[str, int]:
        """:raises AuthorizationFailed: one of them may not be described, as the brokers' answer to its name is."""
        wanted = set(topics)
        if self.behind:
            self.behind -= 1
            return {}
        if wanted & self.denied:
            msg = f"topic {', '.join(sorted(wanted & self.denied))}: TOPIC_AUTHORIZATION_FAILED"
            raise AuthorizationFailed(msg)
        return {name: self.partitions[name] for name in sorted(wanted) if name in self.partitions}

    def gone(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        asked = set(partitions)
        there = self.existing({each.topic for each in asked})
        return {each for each in asked if each.partition >= there.get(each.topic, 0)}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {name: self.ids[name] for name in self.existing(topics) if name in self.ids}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        if wanted:
            self.asked_earliest.append(wanted)
        return {each: self.starts.get(each, 0) for each in wanted}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """:raises TopicNotFound: one of them was deleted (:meth:`delete`), as the brokers' answer is."""
        wanted = list(partitions)
        gone = sorted(self.deleted & {each.topic for each in wanted})
        if gone:
            msg = f"listing offsets: topic {', '.join(gone)} does not exist"
            raise TopicNotFound(msg)
        return {each: self.replaced.get(each, self.ends.get(each, 0)) for each in wanted}

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: end + self.unstable.get(each, 0) for each, end in self.latest(partitions).items()}

    def confirmed_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """:raises LeaderUnavailable: the brokers do not agree."""
        wanted = list(partitions)
        self.asked_each.append(wanted)
        if self.undecided:
            msg = "listing offsets: the brokers do not agree"
            raise LeaderUnavailable(msg)
        return {each: self.ends.get(each, 0) + self.unstable.get(each, 0) for each in wanted}

    def delete(self, topic: str) -> None:
        """The topic and its records are gone; a topic of that name may be made again, from offset 0."""
        del self.partitions[topic]
        self.deleted.add(topic)
        for offsets in (self.starts, self.ends, self.commits):
            for each in [each for each in offsets if each.topic == topic]:
                del offsets[each]

    def grow(self, topic: str, partitions: int) -> None:
        """More partitions for a topic, or a new one."""
        self.partitions[topic] = self.partitions.get(topic, 0) + partitions
        self.deleted.discard(topic)

    def records_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundRecord]:
        """The first record of the log, or nothing where that is behind the log's end, as brokers answer.

        :raises OverflowError: a time is outside 64 bits, as in Kafka's client.
        """
        ends, found = self.log_ends(times), {}
        for each, millis in times.items():
            millis.to_bytes(8, signed=True)
            later = [(number, time) for number, time in enumerate(self.times.get(each, [])) if time >= millis]
            if later and self.starts.get(each, 0) + later[0][0] < ends[each]:
                found[each] = FoundRecord(self.starts.get(each, 0) + later[0][0], later[0][1])
        return found

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.commits[each] for each in partitions if each in self.commits}


class CountingView:
    """A view of the brokers that counts how often topics were looked for."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.listings = 0

    def topics(self) -> dict[str, int]:
        self.listings += 1
        return self._view.topics()

    def existing(self, topics: Iterable[str]) -> dict[str, int]:
        return self._view.existing(topics)

    def gone(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        return self._view.gone(partitions)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return self._view.topic_ids(topics)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._view.earliest(partitions)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._view.latest(partitions)

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._view.log_ends(partitions)

    def confirmed_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._view.confirmed_ends(partitions)

    def records_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundRecord]:
        return self._view.records_at(times)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._view.committed(partitions)
