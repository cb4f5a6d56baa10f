"""Finds the source position of a record that the sink refused, by another read of the same ranges.

Records do not carry their positions, because a transform may lose them and most jobs never need them. The driver looks
for the position when an attempt has failed. Where the transform has left key and value alone, it finds the record
itself. Otherwise it finds the record that stands out by what the sink refused, for instance the largest.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaSparkJobError, RecordRefused
from sparkapp.model.errors.listed import listed
from sparkapp.model.errors.refusal import Cause, RefusedRecord
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

SECONDS = 20.0
"""For the whole look; then the message has the ranges only."""
_STALL_SECONDS = 5.0
_COLUMNS = frozenset({"key", "value", "topic", "partition", "offset", "timestamp"})
_compute: Any = pc


@dataclass(frozen=True, slots=True)
class _Found:
    position: str
    rank: int
    """Of records that stand out, that of the highest rank is told."""
    what: str


class RangeReader(Protocol):
    """Part of :class:`sparkapp.dataplane.interface.BatchConsumer`."""

    def read(
        self, splits: Sequence[KafkaPartitionSplit], *, columns: frozenset[str], stall_timeout: float
    ) -> Iterator[pa.RecordBatch]: ...

    def close(self) -> None: ...


def with_source(error: RecordRefused, open_consumer: Callable[[], RangeReader]) -> RecordRefused:
    """The error with the source of its record, or else with the ranges that were read. Called by the driver.

    :param open_consumer: opens a consumer of the job's source, which is closed here.
    """
    read = [split for split in error.reading if split.size]
    if not read:
        return error
    found = None
    if error.record is not None:
        try:
            consumer = open_consumer()
            try:
                found = _find(error.record, read, consumer)
            finally:
                consumer.close()
        except KafkaSparkJobError as failure:
            LOG.warning("the source of the refused record was not found: %s", failure.message)
    return RecordRefused(f"{error.message}{found or f', while it read {ranges_of(read)}'}", remedy=error.remedy)


def ranges_of(splits: Sequence[KafkaPartitionSplit]) -> str:
    """Partitions with their offsets, as messages name them."""
    return listed(
        f"{split.partition} offset {split.start}"
        if split.size == 1
        else f"{split.partition} offsets {split.start} to {split.stop - 1}"
        for split in splits
    )


def _find(record: RefusedRecord, read: Sequence[KafkaPartitionSplit], consumer: RangeReader) -> str | None:
    deadline = Deadline.after(SECONDS)
    same: _Found | None = None
    striking: _Found | None = None
    is_told = record.is_certain or record.cause in (Cause.SIZE, Cause.KEY)
    for batch in consumer.read(read, columns=_COLUMNS, stall_timeout=_STALL_SECONDS):
        if is_told:
            same = _higher(same, _same(record, batch))
            if same is not None and record.cause is not Cause.TIME:
                break
        striking = _higher(striking, _striking(record.cause, batch))
        if deadline.expired:
            return None
    if same is not None:
        return f"; it is the source's {same.position}{same.what if record.cause is Cause.TIME else ''}"
    if striking is None:
        return None
    return f"; of the records read, {striking.position} {_WHY[record.cause]}{striking.what}"


_WHY = {Cause.SIZE: "is the largest", Cause.KEY: "has no key", Cause.TIME: "has the time that is farthest from now"}


def _higher(known: _Found | None, found: _Found | None) -> _Found | None:
    if known is None or found is None:
        return known or found
    return found if found.rank > known.rank else known


def _same(record: RefusedRecord, batch: pa.RecordBatch) -> _Found | None:
    """The record with the same key and value; of several of them the farthest from now by its time."""
    keys, values = batch.column("key"), batch.column("value")
    if record.key is None:
        likely = _compute.is_null(keys)
    else:
        of_size = _compute.equal(_compute.binary_length(keys), record.key_size)
        likely = _compute.and_(of_size, _compute.starts_with(keys, pattern=record.key))
    if record.value_size < 0:
        likely = _compute.and_(likely, _compute.is_null(values))
    else:
        likely = _compute.and_(likely, _compute.equal(_compute.binary_length(values), record.value_size))
    found = None
    for row in _rows(likely):
        if record.value_size < 0 or zlib.crc32(values[row].as_buffer()) == record.value_crc:
            found = _higher(found, _found(batch, row, *_time(batch, row)))
    return found


def _striking(cause: Cause, batch: pa.RecordBatch) -> _Found | None:
    if not batch.num_rows:
        return None
    if cause is Cause.KEY:
        row = next(_rows(_compute.is_null(batch.column("key"))), None)
        return None if row is None else _found(batch, row, 0, "")
    if cause is Cause.SIZE:
        lengths = (_compute.fill_null(_compute.binary_length(batch.column(side)), 0) for side in ("key", "value"))
        sizes = _compute.add(*(_compute.cast(length, pa.int64()) for length in lengths))
        largest = _compute.max(sizes).as_py()
        row = _compute.index(sizes, largest).as_py()
        return _found(batch, row, largest, f", with {largest} bytes")
    if cause is Cause.TIME:
        millis = _millis(batch)
        ends = [end for end in _compute.min_max(millis).as_py().values() if end is not None]
        rows = [_compute.index(millis, end).as_py() for end in ends]
        found = None
        for row in rows:
            found = _higher(found, _found(batch, row, *_time(batch, row)))
        return found
    return None


def _rows(mask: Any) -> Iterator[int]:
    yield from _compute.indices_nonzero(_compute.fill_null(mask, False)).to_pylist()


def _millis(batch: pa.RecordBatch) -> Any:
    return _compute.cast(batch.column("timestamp"), pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())


def _time(batch: pa.RecordBatch, row: int) -> tuple[int, str]:
    """Distance of a record's time from now in milliseconds, and its text."""
    millis = _millis(batch)[row].as_py()
    if millis is None:
        return -1, ""
    try:
        text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)).isoformat(timespec="seconds")
    except OverflowError:
        text = f"{millis} ms since 1970"
    return abs(millis - round(time.time() * 1000)), f", of {text}"


def _found(batch: pa.RecordBatch, row: int, rank: int, what: str) -> _Found:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return _Found(f"{TopicPartition(topic, partition)} offset {offset}", rank, what)
