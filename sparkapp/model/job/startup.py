"""The offsets at which a job begins and ends: ``spec.source.startup`` and ``spec.source.stopping``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_items, read_part
from sparkapp.model.encoding.schema import Rule, at, held_by, items_of, metadata, part, text_of
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.forms import MAX_KAFKA_NAME, TOPIC
from sparkapp.model.partition import TopicPartition

MAX_OFFSET = (1 << 63) - 1
MAX_PARTITION = (1 << 31) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StartupMode(StrEnum):
    """The first offsets of a job without a checkpoint, as in Flink's ``OffsetsInitializer``."""

    GROUP_OFFSETS = "GroupOffsets"
    EARLIEST = "Earliest"
    LATEST = "Latest"
    TIMESTAMP = "Timestamp"
    SPECIFIC_OFFSETS = "SpecificOffsets"


class StoppingMode(StrEnum):
    """The last offsets of a bounded job, fixed on its first start and kept in the checkpoint."""

    UNBOUNDED = "Unbounded"
    LATEST = "Latest"
    GROUP_OFFSETS = "GroupOffsets"
    TIMESTAMP = "Timestamp"
    SPECIFIC_OFFSETS = "SpecificOffsets"


class ResetStrategy(StrEnum):
    """The offset of a partition for which the startup mode finds none, as in ``OffsetResetStrategy``."""

    FAIL = "Fail"
    EARLIEST = "Earliest"
    LATEST = "Latest"


class PartitionOffset(NamedTuple):
    """An entry of ``specificOffsets``: the next record to read; as a stop, the first record not to read."""

    topic: str
    partition: int
    offset: int


def offsets_map(entries: Sequence[PartitionOffset]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in entries}


@part
class SpecificOffset:
    """:class:`PartitionOffset` in the resource."""

    topic: str = at("Name of the topic.", form=text_of(1, MAX_KAFKA_NAME))
    partition: int = at("Number of the partition.", low=0, high=MAX_PARTITION)
    offset: int = at(
        "Offset of the next record to read. As a stop, the first record that is not read.", low=0, is_long=True
    )


def _specific_offsets_from(fields: Fields, name: str) -> tuple[PartitionOffset, ...]:
    entries = read_items(SpecificOffset, fields, name)
    found = [PartitionOffset(entry.topic, entry.partition, entry.offset) for entry in entries]
    if len(offsets_map(found)) != len(found):
        msg = f"{fields.path}.{name}: a partition has two offsets"
        raise ConfigurationError(msg, remedy="remove one of the two entries")
    return tuple(found)


_SINCE_1970 = Rule("self >= timestamp('1970-01-01T00:00:00Z')", "timestamp must not be before 1970")


@part
class Moment:
    """The time of the mode Timestamp, in one of two fields."""

    timestamp: str = at(
        "Time of the mode Timestamp in RFC 3339, for instance 2026-01-01T00:00:00Z. The broker's"
        " time index finds the first record of that time or later.",
        default="",
        form={"format": "date-time", **held_by(_SINCE_1970)},
    )
    timestamp_millis: int | None = at(
        "Time of the mode Timestamp, in milliseconds since 1970.", default=None, low=0, is_long=True
    )


def _timestamp_from(fields: Fields, _name: str) -> int | None:
    """In milliseconds since 1970, rounded up."""
    moment = read_part(Moment, fields)
    text, millis = moment.timestamp, moment.timestamp_millis
    if not text:
        return millis
    if millis is not None:
        msg = f"{fields.path}: timestamp and timestampMillis are both set"
        raise ConfigurationError(msg, remedy="remove one of the two")
    try:
        since = datetime.fromisoformat(text.upper()) - _EPOCH
    except (ValueError, TypeError) as error:
        msg = f"{fields.path}.timestamp must be a time in RFC 3339 with its zone, not {text!r}"
        raise ConfigurationError(msg, remedy="write for instance 2026-01-01T00:00:00Z") from error
    if since < timedelta():
        msg = f"{fields.path}.timestamp must not be before 1970, as {text!r} is"
        raise ConfigurationError(msg)
    return -(-since // timedelta(milliseconds=1))


_MOMENT = metadata(path=".", kind=Moment, reader=_timestamp_from)
_SPECIFIC_OFFSETS = metadata(
    "Offsets of the mode SpecificOffsets. As a startup, partitions without an entry begin at the"
    " group's offsets. As a stop, each partition needs an entry.",
    form=items_of(1, 1024, keys=("topic", "partition")),
    kind=tuple[SpecificOffset, ...],
    reader=_specific_offsets_from,
)


@part
class Startup:
    """``source.startup``.

    :param on_missing: for a partition without a committed offset, without a record at or after the timestamp, or with
        a specific offset outside the log.
    :param timestamp_millis: milliseconds since 1970, with Timestamp.
    """

    mode: StartupMode = at(
        "Offsets initializer. GroupOffsets starts at the group's committed offsets, Earliest and"
        " Latest at the beginning and the end of each partition. Timestamp starts at the first record"
        " of timestamp or later, SpecificOffsets at specificOffsets.",
        default=StartupMode.GROUP_OFFSETS,
    )
    on_missing: ResetStrategy = at(
        "Offset of a partition for which the mode finds none, or finds an offset outside the log."
        " Fail fails the job, Earliest and Latest start at the beginning or the end. By default"
        " Earliest, with mode Timestamp Latest.",
        default=ResetStrategy.EARLIEST,
        path="onMissingOffset",
        is_shown=False,
    )
    timestamp_millis: int | None = field(default=None, metadata=_MOMENT)
    specific_offsets: tuple[PartitionOffset, ...] = field(default=(), metadata=_SPECIFIC_OFFSETS)


@part
class Stopping:
    """``source.stopping``; see :class:`Startup` for the parameters."""

    mode: StoppingMode = at(
        "Offsets at which the job ends. Unbounded never ends. Latest and GroupOffsets end at the"
        " partitions' ends and the group's offsets of the first start. Timestamp ends before the"
        " first record of timestamp or later, SpecificOffsets at specificOffsets.",
        default=StoppingMode.UNBOUNDED,
    )
    timestamp_millis: int | None = field(default=None, metadata=_MOMENT)
    specific_offsets: tuple[PartitionOffset, ...] = field(default=(), metadata=_SPECIFIC_OFFSETS)
    predicate: str = at(
        "SQL expression that finds the last record of a partition, for instance value.kind = 'END'."
        " Its columns are key, value, topic, partition, offset, timestamp and headers. Each partition"
        " ends before the first record of which it is true, or at the mode's offset, whichever is"
        " first.",
        default="",
        form=text_of(1, 4096),
    )

    @property
    def bounded(self) -> bool:
        return self.mode is not StoppingMode.UNBOUNDED or bool(self.predicate)

    @property
    def fingerprint(self) -> str:
        """Equal for equal choices: stopping offsets in a checkpoint hold while the choice is the same."""
        if not self.bounded:
            return ""
        body = {name: value for name, value in asdict(self).items() if name != "predicate" or value}
        return json.dumps(body, sort_keys=True, separators=(",", ":"))


def startup_from(source: Fields, name: str) -> Startup:
    """Reads ``source.startup``; called by ``encoding.resource``.

    Without ``onMissingOffset`` a timestamp beyond the log's end means Latest, as in ``TimestampOffsetsInitializer``.

    :raises ConfigurationError: naming the field.
    """
    fields = source.child(name)
    startup = read_part(Startup, fields)
    if startup.mode is StartupMode.TIMESTAMP and not fields.has("onMissingOffset"):
        startup = replace(startup, on_missing=ResetStrategy.LATEST)
    return startup


@part
class SourcePartitions:
    """An entry of ``source.partitions``."""

    topic: str = at("Name of the topic.", form=TOPIC)
    partitions: tuple[int, ...] = at(
        "Numbers of the partitions.", form=items_of(1, 1024, is_set=True), each={"minimum": 0, "maximum": MAX_PARTITION}
    )


def partitions_from(fields: Fields, name: str) -> tuple[TopicPartition, ...]:
    """Reads a list of ``{topic, partitions: [0, 1]}``; called by ``encoding.resource``.

    :raises ConfigurationError: naming the entry; also where a partition is named twice.
    """
    entries = read_items(SourcePartitions, fields, name)
    found = [TopicPartition(entry.topic, number) for entry in entries for number in entry.partitions]
    twice = sorted(str(partition) for partition, times in Counter(found).items() if times > 1)
    if twice:
        msg = f"{fields.path}.{name}: partition {', '.join(twice)} is named twice"
        raise ConfigurationError(msg, remedy="remove one of the two entries")
    return tuple(found)


def check_subscribed(
    startup: Startup, stopping: Stopping, *, topics: Collection[str], partitions: Collection[TopicPartition]
) -> None:
    """Each specific offset is of a partition that the job reads, as far as its source names what it reads.

    The topics of a ``topicPattern`` are known when the brokers answer: the offsets initializer checks those.

    Called by the rules between a job's fields.

    :param topics: ``source.topics``; empty for other sources.
    :param partitions: ``source.partitions``, likewise.
    :raises ConfigurationError: naming the entry, with the remedy.
    """
    chosen = frozenset(partitions)
    for name, entries in (("startup", startup.specific_offsets), ("stopping", stopping.specific_offsets)):
        where = f"spec.source.{name}.specificOffsets"
        for partition in offsets_map(entries):
            if topics and partition.topic not in topics:
                msg = f"{where}: topic {partition.topic!r} is not in source.topics"
                raise ConfigurationError(msg, remedy="remove the topic's entries, or add it to source.topics")
            if chosen and partition not in chosen:
                msg = f"{where}: partition {partition} is not in source.partitions"
                raise ConfigurationError(msg, remedy="remove its entry, or add it to source.partitions")
