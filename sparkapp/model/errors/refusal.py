"""A record that its client or a broker refuses, and would refuse again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sparkapp.model.errors.transaction import PreCommitFailed

KEY_KEPT = 256
"""Bytes of a key that are kept."""


class Cause(StrEnum):
    """What a record is refused for."""

    SIZE = "Size"
    KEY = "Key"
    """It has none, and its topic is compacted."""
    TIME = "Time"
    OTHER = "Other"


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """As much of a record as tells it from others.

    :param partition: of the sink; negative before the client has chosen it.
    :param key: its first :data:`KEY_KEPT` bytes; None for null.
    :param key_size: bytes; negative for null, as ``value_size``.
    :param value_crc: CRC-32 of the value.
    :param is_certain: whether it is this record, or only one of its batch.
    """

    topic: str
    partition: int
    key: bytes | None
    key_size: int
    value_size: int
    value_crc: int
    is_certain: bool = True
    cause: Cause = Cause.OTHER

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return max(self.key_size, 0) + max(self.value_size, 0)


class RecordRefused(PreCommitFailed):
    """A record that no retry writes; the message says who refuses it, client or broker.

    :ivar record: None where it is not known.
    :ivar reading: source ranges of the failed checkpoint (``KafkaPartitionSplit``); the driver finds the record's
        source in them.
    """

    record: RefusedRecord | None = None
    reading: tuple[Any, ...] = ()
