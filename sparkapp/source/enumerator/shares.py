"""Limits of a checkpoint's offsets: a cap that partitions share (case S39), and a rate of each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sparkapp.model.partition import TopicPartition


class FairShares:
    """Divides the cap of each checkpoint, so that no partition with a backlog starves.

    Used by the enumerator, once a plan.

    :param limit: offsets of one checkpoint, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: TopicPartition | None = None

    def of(self, backlog: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The shares of the next checkpoint.

        :param backlog: unread offsets of each partition.
        """
        result = shares(backlog, self._limit, after=self._last)
        if sum(map(bool, backlog.values())) > self._limit:
            self._last = _in_turn(backlog, self._last)[self._limit - 1]
        return result


class RateLimit:
    """Limits the records of each partition by a credit, which grows with time and pays for plans (ADR 122).

    A plan may get nothing, and the next plan gets the fraction of a record, too. What a plan leaves is kept up to the
    records of a second or an interval: an idle time is not followed by a burst. Used by the enumerator, once a plan.

    :param rate: records a second of one partition; 0 is no limit.
    :param interval: seconds between checkpoints, for which a partition has credit at its first plan.
    :param clock: monotonic, in seconds.
    """

    def __init__(self, rate: int, *, interval: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._first = rate * interval
        self._kept = rate * max(1.0, interval)
        self._clock = clock
        self._grown_at = clock()
        self._credit: dict[TopicPartition, float] = {}

    def limited(self, backlog: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The backlog, cut at the whole records that each partition has credit for."""
        if not self._rate:
            return dict(backlog)
        now, before = self._clock(), self._grown_at
        self._grown_at = now
        more = self._rate * (now - before)
        grown = {partition: min(credit, self._kept) + more for partition, credit in self._credit.items()}
        # A partition that the group takes away and gives back has no other first plan.
        known = {each: credit for each, credit in grown.items() if each in backlog or credit < self._first}
        self._credit = dict.fromkeys(backlog, self._first) | known
        return {partition: min(size, int(self._credit[partition])) for partition, size in backlog.items()}

    def take(self, planned: Mapping[TopicPartition, int]) -> None:
        """The records of each partition that the plan reads, which may be less than :meth:`limited`."""
        for partition in self._credit.keys() & planned.keys():
            self._credit[partition] -= planned[partition]


def shares(
    backlog: Mapping[TopicPartition, int], limit: int, *, after: TopicPartition | None = None
) -> dict[TopicPartition, int]:
    """Divides at most ``limit`` offsets among partitions in proportion to their backlog, at least one to each.

    Shares are rounded down, and the remainder goes to the largest fractions first, an offset each. Without the minimum,
    a small backlog next to large refilled backlogs would be rounded down to nothing for ever. A limit below the number
    of partitions with a backlog serves the partitions in a round robin.

    :param backlog: unread offsets of each partition.
    :param after: the partition that the round robin served last.
    """
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog)
    result = dict.fromkeys(backlog, 0)
    waiting = sorted((size, partition) for partition, size in backlog.items() if size)
    if len(waiting) >= limit:
        return result | dict.fromkeys(_in_turn(backlog, after)[:limit], 1)
    # A share below 1 becomes 1, and the others divide the rest. The smallest come first: once a partition has a share
    # of at least 1, so has every partition behind it.
    small = 0
    while waiting[small][0] * limit < total:
        size, partition = waiting[small]
        result[partition] = 1
        small, limit, total = small + 1, limit - 1, total - size
    fractions = []
    for size, partition in waiting[small:]:
        result[partition], fraction = divmod(size * limit, total)
        fractions.append((-fraction, partition))
    for _, partition in sorted(fractions)[: limit - sum(result[partition] for _, partition in fractions)]:
        result[partition] += 1
    return result


def _in_turn(backlog: Mapping[TopicPartition, int], after: TopicPartition | None) -> list[TopicPartition]:
    """The partitions with a backlog in their order, beginning behind the partition that was served last."""
    order = sorted(partition for partition, size in backlog.items() if size)
    behind = [] if after is None else [partition for partition in order if partition <= after]
    return [*order[len(behind) :], *behind]
