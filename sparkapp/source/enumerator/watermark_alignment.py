"""Keeps partitions together in event time, so that a watermark never leaves a slow partition's records behind.

Spark has one watermark for a query: the latest event time seen in any partition, less the delay. A backlog read fast in
one partition and slowly in another makes the slow one's records late, and operators with state drop them. Flink
answers with watermarks by partition and alignment (FLIP-182, FLIP-217); here alignment is done where splits are
planned, by the brokers' index of record times.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from sparkapp.clients.cluster_view import ClusterView
from sparkapp.model.partition import TopicPartition

_LATEST_MILLIS = 1 << 43
"""In the year 2248; later record times count as this time."""
_MAX_STEPS = 100


class WatermarkAlignment:
    """Cuts the readable ends at a common time: that of the earliest unread record, plus the allowed drift.

    Partitions without unread records are idle and hold no other partition back. A common time in the future comes from
    records with wrong times, so it holds for a single plan. Used by the enumerator, from its thread.

    :param max_drift_millis: how far in record time one partition may be read ahead of another.
    :param now: the present time, in seconds since 1970.
    """

    def __init__(self, cluster: ClusterView, max_drift_millis: int, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._cluster = cluster
        self._drift = max_drift_millis
        self._until: int | None = None

    def cut(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Ends that keep the drift; a partition with unread records may always read some of them.

        Records without a time are not held back, nor records out of order whose time is before the common time.

        :param offsets: the next offset of each partition.
        :param ends: the readable end of each partition.
        """
        behind = sorted(partition for partition, offset in offsets.items() if offset < ends[partition])
        if not behind:
            return dict(ends)
        now = int(self._now() * 1000)
        if self._until is None:
            self._until = min([now, *self._times(behind, offsets).values()]) + self._drift
        until, held = self._until, {}
        for _ in range(_MAX_STEPS):
            if until >= _LATEST_MILLIS:
                break
            later = self._cluster.records_at(dict.fromkeys(behind, until + 1))
            # A record of the future that is read already says nothing about the unread records behind it.
            known = {each: at for each, at in later.items() if at.offset >= offsets[each] or at.millis <= now}
            waiting = [at.millis for each, at in known.items() if at.offset <= offsets[each]]
            if not waiting or len(waiting) + len(later) - len(known) < len(behind):
                held = known
                break
            # Everything allowed is read: resume at the next record, wherever it is.
            until = min(waiting) + self._drift
        if until <= now + self._drift:
            self._until = until
        return {
            partition: max(offsets[partition], min(end, held[partition].offset)) if partition in held else end
            for partition, end in ends.items()
        }

    def _times(
        self, partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The latest time up to and including each partition's next record.

        The brokers find offsets by times, not the other way round. So a binary search halves the span between the first
        and the last time of the log, for all partitions at once. It takes some forty requests, once an attempt.
        """
        first = self._cluster.records_at(dict.fromkeys(partitions, 0))
        low = {partition: found.millis for partition, found in first.items()}
        high = {partition: _LATEST_MILLIS for partition, found in first.items() if found.offset < offsets[partition]}
        while high:
            asked = {partition: (low[partition] + top + 1) // 2 for partition, top in high.items()}
            answers = self._cluster.records_at(asked)
            for partition, millis in asked.items():
                found = answers.get(partition)
                if found is not None and found.offset <= offsets[partition]:
                    low[partition] = max(millis, found.millis)
                else:
                    high[partition] = millis - 1
            high = {partition: top for partition, top in high.items() if low[partition] < top}
        return low
