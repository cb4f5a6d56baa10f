"""Where reading begins and where it ends: the user's choice of startup and of stopping offsets (seeds 000, 003)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import NamedTuple

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.fields import Fields
from sparkapp.model.partition import TopicPartition

MAX_OFFSET = (1 << 63) - 1


class StartupMode(StrEnum):
    """Where a job without a checkpoint begins (seed 000)."""

    GROUP_OFFSETS = "GROUP_OFFSETS"
    EARLIEST = "EARLIEST"
    LATEST = "LATEST"
    TIMESTAMP = "TIMESTAMP"
    SPECIFIC_OFFSETS = "SPECIFIC_OFFSETS"


class StoppingMode(StrEnum):
    """Where a bounded job ends; fixed on its first start and kept in the checkpoint."""

    UNBOUNDED = "UNBOUNDED"
    LATEST = "LATEST"
    GROUP_OFFSETS = "GROUP_OFFSETS"
    TIMESTAMP = "TIMESTAMP"
    SPECIFIC_OFFSETS = "SPECIFIC_OFFSETS"


class ResetStrategy(StrEnum):
    """What a startup mode does with a partition for which it finds no offset."""

    NONE = "NONE"
    EARLIEST = "EARLIEST"
    LATEST = "LATEST"


class PartitionOffset(NamedTuple):
    """One entry of a user's map of offsets: the next record to read, or the first not to read."""

    topic: str
    partition: int
    offset: int


def offsets_map(entries: Sequence[PartitionOffset]) -> dict[TopicPartition, int]:
    return {TopicPartition(topic, partition): offset for topic, partition, offset in entries}


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """``source.startup``.

    :param on_missing: for a partition without a committed offset, without a record at or after the timestamp, or whose
        specific offset is not in the log.
    :param timestamp_millis: milliseconds since 1970, with TIMESTAMP.
    :param specific_offsets: with SPECIFIC_OFFSETS; partitions without an entry start at the group's offsets.
    """

    mode: StartupMode = StartupMode.GROUP_OFFSETS
    on_missing: ResetStrategy = ResetStrategy.EARLIEST
    timestamp_millis: int | None = None
    specific_offsets: tuple[PartitionOffset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """``source.stopping``; see :class:`Startup` for the other parameters.

    :param predicate: SQL expression; each partition ends at its first record of which it is true, or at the mode's
        offset, whichever comes first. Empty for none.
    """

    mode: StoppingMode = StoppingMode.UNBOUNDED
    timestamp_millis: int | None = None
    specific_offsets: tuple[PartitionOffset, ...] = ()
    predicate: str = ""

    @property
    def bounded(self) -> bool:
        return self.mode is not StoppingMode.UNBOUNDED or bool(self.predicate)

    @property
    def fingerprint(self) -> str:
        """Equal for equal choices: the offsets in a checkpoint hold as long as the choice they came from."""
        if not self.bounded:
            return ""
        body = {name: value for name, value in asdict(self).items() if name != "predicate" or value}
        return json.dumps(body, sort_keys=True, separators=(",", ":"))


def startup_from(fields: Fields) -> Startup:
    """Reads ``source.startup``; without ``onMissingOffset`` a timestamp beyond the log's end means LATEST (seed 000).

    :raises ConfigurationError: naming the field.
    """
    mode = fields.choice("mode", StartupMode, StartupMode.GROUP_OFFSETS)
    default = ResetStrategy.LATEST if mode is StartupMode.TIMESTAMP else ResetStrategy.EARLIEST
    startup = Startup(
        mode=mode,
        on_missing=fields.choice("onMissingOffset", ResetStrategy, default),
        timestamp_millis=_timestamp(fields),
        specific_offsets=_specific(fields),
    )
    _check("startup", mode, startup.timestamp_millis, startup.specific_offsets)
    return startup


def stopping_from(fields: Fields) -> Stopping:
    """Reads ``source.stopping``.

    :raises ConfigurationError: naming the field.
    """
    mode = fields.choice("mode", StoppingMode, StoppingMode.UNBOUNDED)
    stopping = Stopping(
        mode=mode, timestamp_millis=_timestamp(fields), specific_offsets=_specific(fields),
        predicate=fields.string("predicate", ""),
    )  # fmt: skip
    _check("stopping", mode, stopping.timestamp_millis, stopping.specific_offsets)
    return stopping


def partitions_from(fields: Fields, name: str) -> tuple[TopicPartition, ...]:
    """Reads a list of ``{topic, partitions: [0, 1]}``.

    :raises ConfigurationError: naming the entry; also where a partition is named twice.
    """
    found: list[TopicPartition] = []
    for index, item in enumerate(fields.objects(name)):
        entry = Fields(item, f"{fields.path}.{name}[{index}]")
        topic = entry.string("topic")
        numbers = item.get("partitions")
        if not isinstance(numbers, list) or not numbers or not all(type(one) is int and one >= 0 for one in numbers):
            msg = f"{entry.path}.partitions must be a list of partition numbers, for instance [0, 1], not {numbers!r}"
            raise ConfigurationError(msg)
        found.extend(TopicPartition(topic, number) for number in numbers)
    twice = sorted({str(one) for one in found if found.count(one) > 1}) if len(set(found)) != len(found) else []
    if twice:
        msg = f"{fields.path}.{name} names partition {', '.join(twice)} twice: leave one out"
        raise ConfigurationError(msg)
    return tuple(found)


def check_subscribed(
    startup: Startup, stopping: Stopping, *, topics: Collection[str], partitions: Collection[TopicPartition]
) -> None:
    """Each specific offset is of a partition that the job reads, as far as its source names what it reads.

    What matches a ``topicPattern`` is known when the brokers are asked: the initializer tells then.

    Called by the rules between a job's fields.

    :param topics: ``source.topics``; empty where the source is another one.
    :param partitions: ``source.partitions``, likewise.
    :raises ConfigurationError: naming the entry and what to type instead.
    """
    chosen = frozenset(partitions)
    for name, entries in (("startup", startup.specific_offsets), ("stopping", stopping.specific_offsets)):
        where = f"spec.source.{name}.specificOffsets"
        for one in offsets_map(entries):
            if topics and one.topic not in topics:
                msg = f"{where}: topic {one.topic!r} is not in source.topics: remove its entries, or add it"
                raise ConfigurationError(msg)
            if chosen and one not in chosen:
                msg = f"{where}: partition {one} is not in source.partitions: remove its entry, or add it"
                raise ConfigurationError(msg)


def _timestamp(fields: Fields) -> int | None:
    number = fields.integer("timestampMillis", -1, low=0)
    return None if number < 0 else number


def _specific(fields: Fields) -> tuple[PartitionOffset, ...]:
    found = []
    for index, item in enumerate(fields.objects("specificOffsets")):
        entry = Fields(item, f"{fields.path}.specificOffsets[{index}]")
        for name in ("partition", "offset"):
            if name not in item:
                msg = f"{entry.path}.{name} is missing: write {{topic: orders, partition: 0, offset: 42}}"
                raise ConfigurationError(msg)
        found.append(
            PartitionOffset(
                entry.string("topic"), entry.integer("partition", 0, low=0), entry.integer("offset", 0, low=0)
            )
        )
    if len(offsets_map(found)) != len(found):
        msg = f"{fields.path}.specificOffsets names a partition twice: leave one of its offsets out"
        raise ConfigurationError(msg)
    return tuple(found)


def _check(
    name: str, mode: StartupMode | StoppingMode, timestamp: int | None, offsets: Sequence[PartitionOffset]
) -> None:
    where = f"spec.source.{name}"
    if (mode.value == "TIMESTAMP") != (timestamp is not None):
        msg = f"{where}.timestampMillis: needed with {name}.mode TIMESTAMP, and only there: milliseconds since 1970"
        raise ConfigurationError(msg)
    if (mode.value == "SPECIFIC_OFFSETS") != bool(offsets):
        msg = (
            f"{where}.specificOffsets: needed with {name}.mode SPECIFIC_OFFSETS, and only there,"
            " for instance [{topic: orders, partition: 0, offset: 42}]"
        )
        raise ConfigurationError(msg)
