"""Keeps partitions together in event time, so that a watermark never leaves a slow partition's records behind.

Spark has one watermark for a query: the latest event time seen in any partition, less the delay. A backlog read fast in
one partition and slowly in another makes the slow one's records late, and operators with state drop them. Flink
answers with watermarks by partition and alignment (FLIP-182, FLIP-217); here alignment is done where splits are
planned, by the brokers' index of record times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkapp.model.partition import TopicPartition
from sparkapp.source.cluster import ClusterView

_LATEST_MILLIS = 1 << 43
"""In the year 2248; records of a later time are taken to be of this one."""
_MAX_STEPS = 100


class WatermarkAlignment:
    """Cuts what may be read at a common time: that of the earliest unread record, and the allowed drift.

    Partitions without unread records are idle and hold nobody back. Used by the enumerator, from its thread.

    :param max_drift_millis: how far in record time one partition may be read ahead of another.
    """

    def __init__(self, cluster: ClusterView, max_drift_millis: int) -> None:
        self._cluster = cluster
        self._drift = max_drift_millis
        self._until: int | None = None

    def cut(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Ends that keep the drift; where there is something to read, there is still something to read.

        Records without a time, and those whose time lies before the common one though they come later in the log, are
        not held back.

        :param offsets: where each partition goes on.
        :param ends: how far it could be read.
        """
        behind = sorted(one for one, offset in offsets.items() if offset < ends[one])
        if not behind:
            return dict(ends)
        if self._until is None:
            self._until = min(self._times(behind, offsets).values(), default=_LATEST_MILLIS) + self._drift
        for _ in range(_MAX_STEPS):
            later = self._cluster.records_at(dict.fromkeys(behind, self._until + 1))
            if any(one not in later or later[one].offset > offsets[one] for one in behind):
                return {
                    one: end if one not in later else max(offsets[one], min(end, later[one].offset))
                    for one, end in ends.items()
                }
            # All that was allowed is read: on to the next record, wherever it is.
            self._until = min(later[one].millis for one in behind) + self._drift
        return dict(ends)

    def _times(
        self, partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The latest time up to and including each partition's next record.

        The brokers find offsets by times, not the other way round, so this halves the span between the log's first
        time and its last, of all partitions at once; some forty questions, once a life.
        """
        first = self._cluster.records_at(dict.fromkeys(partitions, 0))
        low = {one: found.millis for one, found in first.items()}
        high = {one: _LATEST_MILLIS for one, found in first.items() if found.offset < offsets[one]}
        while high:
            asked = {one: (low[one] + top + 1) // 2 for one, top in high.items()}
            answers = self._cluster.records_at(asked)
            for one, millis in asked.items():
                found = answers.get(one)
                if found is not None and found.offset <= offsets[one]:
                    low[one] = max(millis, found.millis)
                else:
                    high[one] = millis - 1
            high = {one: top for one, top in high.items() if low[one] < top}
        return low
