"""Topic partitions and the rule that gives each partition its subtask.

The owner formula is Flink's ``KafkaSourceEnumerator.getSplitOwner`` (cases S01, S34). Every process that applies it, on
any machine and in any order, has the same assignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sparkapp.model.errors.arguments import check_text, check_whole
from sparkapp.model.errors.listed import listed


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def _offset_rows(numbers: Mapping[TopicPartition, int] | None) -> list[tuple[str, int, int]] | None:
    return None if numbers is None else [(*partition, number) for partition, number in numbers.items()]


def _offsets_of(rows: Sequence[tuple[str, int, int]] | None, _: str) -> dict[TopicPartition, int] | None:
    return None if rows is None else {TopicPartition(topic, number): value for topic, number, value in rows}


PARTITION_ROWS: Mapping[str, Any] = {"read": _offsets_of, "write": _offset_rows}
"""How fields of frames hold a number for each partition, an offset or a watermark, for
:func:`sparkapp.model.encoding.json_parts.stored`; None where there are none."""


def named(partitions: Sequence[TopicPartition]) -> str:
    """Partitions in a message: the first few by name, the rest by number."""
    return listed(map(str, partitions))


def java_hash(text: str) -> int:
    """``String.hashCode`` of Java: over UTF-16 code units, in signed 32-bit arithmetic.

    :raises InvalidArgument: no text.
    """
    check_text("text", text)
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def split_owner(topic: str, partition: int, parallelism: int) -> int:
    """The subtask, in ``[0, parallelism)``, that reads a partition.

    :raises InvalidArgument: ``topic`` is no text, or a number is no whole number. Or ``parallelism`` is below 1, or
        ``partition`` is negative.
    """
    check_text("topic", topic)
    check_whole("parallelism", parallelism, 1)
    check_whole("partition", partition, 0)
    start_index = ((_hash_of_topic(topic) * 31) & 0x7FFFFFFF) % parallelism
    return (start_index + partition) % parallelism


@lru_cache(maxsize=1024)
def _hash_of_topic(topic: str) -> int:
    """The autoscaler asks for the same topics again and again."""
    return java_hash(topic)
