"""A cluster view in memory, for the enumerator's unit tests; never used where visibility is judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sparkapp.model.partition import TopicPartition
from sparkapp.source.cluster import FoundRecord


@dataclass
class FakeCluster:
    """Topics with a number of partitions; each partition has a log start, an end and perhaps a committed offset."""

    partitions: dict[str, int] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    commits: dict[TopicPartition, int] = field(default_factory=dict)
    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Each record's time, from the log start on."""

    def topics(self) -> dict[str, int]:
        return dict(self.partitions)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.starts.get(one, 0) for one in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.ends.get(one, 0) for one in partitions}

    def records_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundRecord]:
        found = {}
        for one, millis in times.items():
            later = [(number, time) for number, time in enumerate(self.times.get(one, [])) if time >= millis]
            if later:
                found[one] = FoundRecord(self.starts.get(one, 0) + later[0][0], later[0][1])
        return found

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {one: self.commits[one] for one in partitions if one in self.commits}
