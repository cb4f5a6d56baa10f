"""How a checkpoint's cap on offsets is shared among partitions (case S39)."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.model.partition import TopicPartition


def shares(backlog: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    """Divides at most ``limit`` offsets among partitions in proportion to their backlog.

    Rounded down, the remainder given one each to the largest fractions first: the sum never exceeds the limit and no
    partition with a backlog starves for ever, for its fraction grows with it.
    """
    total = sum(backlog.values())
    if total <= limit:
        return dict(backlog)
    exact = {partition: size * limit / total for partition, size in backlog.items()}
    result = {partition: int(share) for partition, share in exact.items()}
    rest = limit - sum(result.values())
    for partition in sorted(exact, key=lambda one: (result[one] - exact[one], one)):
        if rest <= 0:
            break
        if result[partition] < backlog[partition]:
            result[partition] += 1
            rest -= 1
    return result
