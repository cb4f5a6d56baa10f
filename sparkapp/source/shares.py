"""How a checkpoint's cap on offsets is shared among partitions (case S39)."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model.partition import TopicPartition


class FairShares:
    """Divides one checkpoint's cap after the other, so that no partition with a backlog starves.

    Used by the enumerator, once a plan.

    :param limit: offsets of one checkpoint, at least 1.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: TopicPartition | None = None

    def of(self, backlog: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The shares of the next checkpoint.

        :param backlog: offsets that wait, a partition.
        """
        result = shares(backlog, self._limit, after=self._last)
        if sum(map(bool, backlog.values())) > self._limit:
            self._last = _in_turn(backlog, self._last)[self._limit - 1]
        return result


def shares(
    backlog: Mapping[TopicPartition, int], limit: int, *, after: TopicPartition | None = None
) -> dict[TopicPartition, int]:
    """Divides at most ``limit`` offsets among partitions in proportion to their backlog, at least one to each.

    Rounded down, the remainder given one each to the largest fractions first. In proportion alone a small backlog
    beside large ones that are refilled would be rounded down to nothing for ever. A limit below the number of
    partitions with a backlog gives one each in turn.

    :param backlog: offsets that wait, a partition.
    :param after: the partition that had the last turn, where the limit is that small.
    """
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog)
    result = dict.fromkeys(backlog, 0)
    waiting = sorted((size, partition) for partition, size in backlog.items() if size)
    if len(waiting) >= limit:
        return result | dict.fromkeys(_in_turn(backlog, after)[:limit], 1)
    # Whose share is less than one gets one; the others share what is left. The smallest come first: once one of them
    # has a share of its own, so have all behind it.
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
    """The partitions with a backlog in their order, beginning behind the one that had the last turn."""
    order = sorted(partition for partition, size in backlog.items() if size)
    behind = [] if after is None else [one for one in order if one <= after]
    return [*order[len(behind) :], *behind]
