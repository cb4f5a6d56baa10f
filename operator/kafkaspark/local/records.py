"""Records of Kafka as values of Python, and as the Arrow batches of source and sink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sparkapp.model.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkapp.model.job.sections.source import Source

Headers = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """A record that the job reads or writes.

    Key and value are bytes, as in Kafka. Given as text they are encoded as UTF-8. None stays null, and any other value
    becomes JSON without spaces, as ``to_json`` of Spark writes it. Two records are equal if key, value and headers are.

    :param headers: pairs or a mapping.
    :param timestamp: None for the time of writing. A time without a zone is in UTC.
    :param topic: empty for the job's.
    :param partition: None where the partitioner decides; a record that is read is then of partition 0.
    :param where: file and line of the record, for messages.
    """

    value: Any
    key: Any = None
    headers: Any = ()
    timestamp: datetime | None = field(default=None, compare=False)
    topic: str = field(default="", compare=False)
    partition: int | None = field(default=None, compare=False)
    where: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", encoded(self.value))
        object.__setattr__(self, "key", encoded(self.key))
        pairs = self.headers.items() if isinstance(self.headers, Mapping) else self.headers or ()
        object.__setattr__(self, "headers", tuple((str(name), encoded(value)) for name, value in pairs))
        if self.timestamp is not None and self.timestamp.tzinfo is None:
            object.__setattr__(self, "timestamp", self.timestamp.replace(tzinfo=UTC))

    @property
    def text(self) -> str | None:
        """The value as text in UTF-8; None for a tombstone."""
        return None if self.value is None else str(self.value, "utf-8")

    @property
    def json(self) -> Any:
        """The value, parsed as JSON; None for a tombstone."""
        return None if self.value is None else json.loads(self.value)


def encoded(part: object) -> bytes | None:
    """Key or value as bytes; see :class:`Record`."""
    if part is None or isinstance(part, bytes):
        return part
    if isinstance(part, bytearray | memoryview):
        return bytes(part)
    text = part if isinstance(part, str) else json.dumps(part, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def as_record(item: object) -> Record:
    """The item itself, or a record with it as value."""
    return item if isinstance(item, Record) else Record(item)


def source_batches(checkpoints: Iterable[Sequence[Record]], source: Source) -> list[pa.RecordBatch]:
    """A batch of the source for each checkpoint; a partition's offsets count from 0 over all of them.

    :raises ConfigurationError: a record names no topic, and the job has only a pattern.
    """
    import pyarrow as pa

    from sparkapp.dataplane.interface import SOURCE_SCHEMA

    now, offsets = datetime.now(UTC), Counter[tuple[str, int]]()
    return [
        pa.RecordBatch.from_pylist([_row(record, source, offsets, now) for record in records], schema=SOURCE_SCHEMA)
        for records in checkpoints
    ]


def record_at(records: Iterable[Record], source: Source, *, topic: str, partition: int, offset: int) -> Record | None:
    """The record that :func:`source_batches` gives a position; None for another position."""
    offsets = Counter[tuple[str, int]]()
    for record in records:
        row = _row(record, source, offsets, None)
        if (row["topic"], row["partition"], row["offset"]) == (topic, partition, offset):
            return record
    return None


def _row(record: Record, source: Source, offsets: Counter[tuple[str, int]], now: datetime | None) -> dict[str, Any]:
    default = source.topics[0] if source.topics else source.partitions[0].topic if source.partitions else ""
    topic, partition = record.topic or default, record.partition or 0
    if not topic:
        msg = f"{record.where or 'a record'} names no topic, and spec.source.topicPattern names none"
        raise ConfigurationError(msg, remedy='give each record a topic: {"topic": "orders-eu", "value": {}}')
    offset = offsets[topic, partition]
    offsets[topic, partition] += 1
    return {
        "key": record.key, "value": record.value, "topic": topic, "partition": partition, "offset": offset,
        "timestamp": record.timestamp or now, "timestampType": 0,
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }  # fmt: skip


def sink_records(result: pa.RecordBatch | pa.Table, topic: str) -> list[Record]:
    """The records of a batch with the sink's columns.

    :param topic: of records whose column ``topic`` is null or absent.
    """
    return [
        Record(
            row["value"], row.get("key"), [(pair["key"], pair["value"]) for pair in row.get("headers") or () if pair],
            timestamp=row.get("timestamp"), topic=row.get("topic") or topic, partition=row.get("partition"),
        )
        for row in result.to_pylist()
    ]  # fmt: skip
