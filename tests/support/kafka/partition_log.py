"""What a partition's log says of transactions: their records, their markers, and what has no marker.

The log is the lowest witness. A coordinator may call a transaction complete whose marker is missing here
(``docs/internals/kafka-20734.md``), so tests of that count here, and ask no coordinator.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kafka.record.memory_records import MemoryRecords

_OFFSET_KEY = (0, 1)
"""Versions of a key of the topic of groups that stand for a partition's offset."""


class LogRecord(NamedTuple):
    """A record of a partition."""

    offset: int
    key: bytes | None
    value: bytes | None


class Ended(NamedTuple):
    """A transaction of a partition with its marker: the producer's id, the first record's offset, and how it ended."""

    producer_id: int
    start: int
    committed: bool


@dataclass
class PartitionLog:
    """The state after every batch of :meth:`replay`.

    :ivar committed: records that a reader of committed records gets, now or once nothing before them is open.
    :ivar open: first offset of each transaction without a marker, by the producer's id.
    :ivar pending: their records. :ivar ended: the transactions with a marker, in the order of their markers.
    """

    committed: list[LogRecord] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    pending: dict[int, list[LogRecord]] = field(default_factory=dict)

    @property
    def stable(self) -> int | None:
        """The offset before which readers of committed records stop; None: they read to the end."""
        return min(self.open.values(), default=None)

    @property
    def visible(self) -> list[LogRecord]:
        """What a reader of committed records gets now."""
        stable = self.stable
        return sorted(each for each in self.committed if stable is None or each.offset < stable)

    def replay(self, text: bytes) -> None:
        """The batches of a segment; a batch at its end that is not complete yet is left out."""
        batches = MemoryRecords(text)
        while batches.has_next():
            self._apply(batches.next_batch())

    def _apply(self, batch: Any) -> None:
        if batch.is_control_batch:
            (marker,) = batch
            self._end(batch.producer_id, committed=marker.commit)
            return
        records = [LogRecord(each.offset, each.key, each.value) for each in batch]
        if not batch.is_transactional:
            self.committed += records
            return
        self.open.setdefault(batch.producer_id, batch.base_offset)
        self.pending.setdefault(batch.producer_id, []).extend(records)

    def _end(self, producer_id: int, *, committed: bool) -> None:
        """A marker decides everything of its producer id that has none yet, whatever transaction it was of."""
        start = self.open.pop(producer_id, None)
        records = self.pending.pop(producer_id, [])
        if start is not None:
            self.ended.append(Ended(producer_id, start, committed))
        if committed:
            self.committed += records


def read_log(folder: Path) -> PartitionLog:
    """The log of a broker's copy of a partition, from its segments.

    :param folder: ``<topic>-<partition>`` in the broker's data.
    """
    log = PartitionLog()
    for segment in sorted(folder.glob("*.log")):
        log.replay(segment.read_bytes())
    return log


def group_offsets(logs: Iterable[PartitionLog]) -> dict[tuple[str, str, int], int]:
    """Committed offsets by group, topic and partition, from the logs of the topic of groups."""
    found: dict[tuple[str, str, int], int] = {}
    for log in logs:
        # Offsets of a transaction count from its marker on, and these are in the order of markers.
        for _, key, value in log.committed:
            parsed = offset_key(key or b"")
            if parsed is not None and value is None:
                found.pop(parsed, None)
            elif parsed is not None and value is not None:
                found[parsed] = struct.unpack_from(">q", value, 2)[0]
    return found


def offset_key(key: bytes) -> tuple[str, str, int] | None:
    """Group, topic and partition of a key in the topic of groups; None where it stands for something else."""
    (version,) = struct.unpack_from(">h", key)
    if version not in _OFFSET_KEY:
        return None
    group, at = _string(key, 2)
    topic, at = _string(key, at)
    return group, topic, struct.unpack_from(">i", key, at)[0]


def _string(text: bytes, at: int) -> tuple[str, int]:
    """The string, and where it ends."""
    (length,) = struct.unpack_from(">h", text, at)
    end = at + 2 + length
    return text[at + 2 : end].decode(), end


def values(logs: Iterable[PartitionLog]) -> Counter[bytes | None]:
    """What a reader of committed records gets now of a topic, each value with its count."""
    return Counter(each.value for log in logs for each in log.visible)
