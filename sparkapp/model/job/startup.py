"""The offsets at which a job begins and ends: ``spec.source.startup`` and ``spec.source.stopping``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import at, read_part
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.partition import TopicPartition

MAX_OFFSET = (1 << 63) - 1
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


def _specific_offsets_from(fields: Fields, name: str) -> tuple[PartitionOffset, ...]:
    found = []
    for index, item in enumerate(fields.objects(name)):
        entry = Fields(item, f"{fields.path}.{name}[{index}]")
        found.append(
            PartitionOffset(entry.string("topic"), entry.integer("partition", low=0), entry.integer("offset", low=0))
        )
    if len(offsets_map(found)) != len(found):
        msg = f"{fields.path}.{name}: a partition has two offsets"
        raise ConfigurationError(msg, remedy="remove one of the two entries")
    return tuple(found)


def _timestamp_from(fields: Fields, name: str) -> int | None:
    """``timestamp``, a time in RFC 3339, or ``timestampMillis``; in milliseconds since 1970, rounded up."""
    text = fields.string("timestamp", "")
    millis = fields.integer(name, low=0) if fields.has(name) else None
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """``source.startup``.

    :param on_missing: for a partition without a committed offset, without a record at or after the timestamp, or with
        a specific offset outside the log.
    :param timestamp_millis: milliseconds since 1970, with Timestamp.
    :param specific_offsets: with SpecificOffsets; partitions without an entry start at the group's offsets.
    """

    mode: StartupMode = StartupMode.GROUP_OFFSETS
    on_missing: ResetStrategy = field(default=ResetStrategy.EARLIEST, metadata=at("onMissingOffset"))
    timestamp_millis: int | None = field(default=None, metadata=at("timestampMillis", reader=_timestamp_from))
    specific_offsets: tuple[PartitionOffset, ...] = field(default=(), metadata=at(reader=_specific_offsets_from))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """``source.stopping``; see :class:`Startup` for the other parameters.

    :param predicate: SQL expression; each partition ends at the first record of which it is true, or at the mode's
        offset, whichever comes first. Empty for none.
    """

    mode: StoppingMode = StoppingMode.UNBOUNDED
    timestamp_millis: int | None = field(default=None, metadata=at("timestampMillis", reader=_timestamp_from))
    specific_offsets: tuple[PartitionOffset, ...] = field(default=(), metadata=at(reader=_specific_offsets_from))
    predicate: str = ""

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
    _check("startup", startup.mode, startup.timestamp_millis, startup.specific_offsets)
    return startup


def stopping_from(source: Fields, name: str) -> Stopping:
    """Reads ``source.stopping``; called by ``encoding.resource``.

    :raises ConfigurationError: naming the field.
    """
    stopping = read_part(Stopping, source.child(name))
    _check("stopping", stopping.mode, stopping.timestamp_millis, stopping.specific_offsets)
    return stopping


def partitions_from(fields: Fields, name: str) -> tuple[TopicPartition, ...]:
    """Reads a list of ``{topic, partitions: [0, 1]}``; called by ``encoding.resource``.

    :raises ConfigurationError: naming the entry; also where a partition is named twice.
    """
    found: list[TopicPartition] = []
    for index, item in enumerate(fields.objects(name)):
        entry = Fields(item, f"{fields.path}.{name}[{index}]")
        topic = entry.string("topic")
        numbers = item.get("partitions")
        if not isinstance(numbers, list) or not numbers or not all(type(n) is int and n >= 0 for n in numbers):
            msg = f"{entry.path}.partitions must be a list of partition numbers, for instance [0, 1], not {numbers!r}"
            raise ConfigurationError(msg)
        found.extend(TopicPartition(topic, number) for number in numbers)
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


def _check(
    name: str, mode: StartupMode | StoppingMode, timestamp: int | None, offsets: Sequence[PartitionOffset]
) -> None:
    where = f"spec.source.{name}"
    if (mode.value == "Timestamp") != (timestamp is not None):
        msg = f"{where}: timestamp or timestampMillis is needed with {name}.mode Timestamp, and only there"
        remedy = f"set {name}.timestamp, for instance to 2026-01-01T00:00:00Z, or another mode and no timestamp"
        raise ConfigurationError(msg, remedy=remedy)
    if (mode.value == "SpecificOffsets") != bool(offsets):
        msg = f"{where}.specificOffsets: needed with {name}.mode SpecificOffsets, and only there"
        remedy = (
            f"set {name}.specificOffsets, for instance [{{topic: orders, partition: 0, offset: 42}}],"
            " or another mode and no specificOffsets"
        )
        raise ConfigurationError(msg, remedy=remedy)
