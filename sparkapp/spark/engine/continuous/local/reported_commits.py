"""What the subtasks of the local pace have reported as committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from sparkapp.checkpoint.recovery.local_coordinator import LocalTotals
from sparkapp.model.partition import TopicPartition


class ReportedCommits:
    """Used by the driver of the local pace, in its thread. Each value only grows: reports may overtake each other.

    :ivar offsets: next offset of each partition, by commits that succeeded.
    """

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self._ended: Counter[str] = Counter()

    def reach(self, offsets: Mapping[TopicPartition, int], gone: Container[TopicPartition]) -> bool:
        """Notes offsets of partitions that are not gone; whether a known offset has grown."""
        before = self.offsets
        there = {each: at for each, at in offsets.items() if each not in gone}
        self.offsets = before | {each: max(at, before.get(each, 0)) for each, at in there.items()}
        return any(at > before.get(each, at) for each, at in offsets.items())

    def leave_out(self, gone: Container[TopicPartition]) -> None:
        """Drops the offsets of partitions that are gone."""
        self.offsets = {each: at for each, at in self.offsets.items() if each not in gone}

    def end(self, totals: Mapping[str, int]) -> None:
        """Keeps the last totals of an instance that has ended."""
        self._ended.update(totals)

    def totals(self, present: Iterable[Mapping[str, int]]) -> LocalTotals:
        """The totals since the grant.

        :param present: totals of the present instances.
        """
        totals = Counter(self._ended)
        for each in present:
            totals.update(each)
        return LocalTotals(**totals)
