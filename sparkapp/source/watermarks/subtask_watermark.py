"""A subtask's watermark while it reads one checkpoint, by the latest record times of its batches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from sparkapp.model.encoding.json_parts import stored
from sparkapp.model.partition import PARTITION_ROWS, TopicPartition

TIME_COLUMNS = frozenset({"topic", "partition", "timestamp"})
"""Columns of the source that :func:`latest_times` needs."""
NO_WATERMARK = -(1 << 63)
"""Before every record time, as Flink's ``Long.MIN_VALUE``."""
NO_LIMIT = (1 << 63) - 1
"""After every record time."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MILLIS, _LAST_MILLIS = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last millisecond of a ``datetime``, in the years 1 and 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenWatermarks:
    """Watermarks at a checkpoint's begin, in milliseconds since 1970; given to a subtask with its splits.

    :param own: the subtask's.
    :param others: the minimum of the active partitions that hold it back and that it does not read in this checkpoint;
        NO_LIMIT without any.
    :param partitions: of the partitions that it reads.
    """

    own: int
    others: int
    partitions: Mapping[TopicPartition, int] = stored(**PARTITION_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedWatermarks:
    """A subtask's answer with a checkpoint, in milliseconds since 1970.

    :param own: the subtask's.
    :param partitions: of the partitions with records in the checkpoint.
    """

    own: int
    partitions: Mapping[TopicPartition, int] = stored(**PARTITION_ROWS)


class SubtaskWatermark:
    """Made by a subtask for each try of a checkpoint, and used by its thread.

    A partition's watermark is its latest record time, less the bound and a millisecond: a record of exactly the bound
    may still come (Flink's ``BoundedOutOfOrdernessWatermarks``). The subtask's is the minimum of its active partitions,
    and never goes back.

    :param bound_millis: how much earlier than the latest record of its partition a record may be.
    """

    def __init__(self, given: GivenWatermarks, *, bound_millis: int) -> None:
        self._given = given
        self._delay = bound_millis + 1
        self._partitions = dict(given.partitions)
        self._read: set[TopicPartition] = set()
        self.value = given.own
        """The subtask's watermark, in milliseconds since 1970; NO_WATERMARK before the first."""

    def observe(self, times: Mapping[TopicPartition, int]) -> None:
        """Records were read.

        :param times: latest record time of each partition that they are of, in milliseconds since 1970.
        """
        self._read |= times.keys()
        for partition, millis in times.items():
            self._partitions[partition] = max(self._partitions[partition], millis - self._delay)
        self.value = max(self.value, min((self._given.others, *self._partitions.values())))

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches. :attr:`value` excludes the batch being yielded."""
        for batch in batches:
            yield batch
            self.observe(latest_times(batch))

    def time(self) -> datetime | None:
        """The subtask's watermark in UTC; None before the first, and before the year 1."""
        if self.value < _FIRST_MILLIS:
            return None
        return _EPOCH + timedelta(milliseconds=min(self.value, _LAST_MILLIS))

    @property
    def reached(self) -> ReachedWatermarks:
        """The answer, when everything is read."""
        return ReachedWatermarks(own=self.value, partitions={each: self._partitions[each] for each in self._read})


def latest_times(batch: pa.RecordBatch) -> dict[TopicPartition, int]:
    """The latest record time of each partition, in milliseconds since 1970; called for each batch that is read.

    A partition whose records have no time is absent.

    :param batch: with the columns of :data:`TIME_COLUMNS`, in the types of the source.
    """
    columns = {name: batch.column(name) for name in ("topic", "partition")}
    times = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
    table = pa.table({**columns, "time": times})
    latest = table.group_by(["topic", "partition"], use_threads=False).aggregate([("time", "max")])
    return {
        TopicPartition(row["topic"], row["partition"]): row["time_max"]
        for row in latest.to_pylist()
        if row["time_max"] is not None
    }
