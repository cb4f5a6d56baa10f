"""Where partitions begin on a job's first start, and where a bounded job ends: Flink's ``OffsetsInitializer``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from sparkapp.clients.cluster_view import ClusterView, ends_before
from sparkapp.model.errors import UndefinedOffset
from sparkapp.model.errors.listed import listed
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.startup import ResetStrategy, Startup, StartupMode, Stopping, StoppingMode, offsets_map
from sparkapp.model.partition import TopicPartition, named

Warn = Callable[[DriverEvent, str], None]
"""Receives an event's reason and message."""


def no_warning(_reason: DriverEvent, _message: str) -> None:
    """For initializers that nobody listens to."""


class OffsetsInitializer(Protocol):
    """Gives each partition its starting or stopping offset."""

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        """Real offsets, never markers, so that they can be written down before anything is read (cases S14 to S16).

        :raises UndefinedOffset: a partition has none and no strategy replaces it.
        """
        ...


class EarliestOffsetsInitializer:
    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        return cluster.earliest(partitions)


class LatestOffsetsInitializer:
    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        return cluster.latest(partitions)


class CommittedOffsetsInitializer:
    """The group's committed offsets; the reset strategy decides for partitions without one (cases S23, S24).

    It decides, too, where the log does not hold the offset (retention, a recreated topic), as Kafka's
    ``auto.offset.reset`` does. Without a strategy the offset stays as it is (case S16), and
    ``source.onDataLoss`` decides about the lost records.

    :param warn: receives an event about offsets outside the log.
    """

    def __init__(self, on_missing: ResetStrategy, *, warn: Warn = no_warning) -> None:
        self._on_missing = on_missing
        self._warn = warn

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        found = cluster.committed(wanted)
        if self._on_missing is not ResetStrategy.FAIL:
            outside = outside_the_log(found, cluster)
            if outside:
                shown = listed(outside.values())
                self._warn(
                    DriverEvent.OFFSET_OUT_OF_RANGE,
                    f"the group's committed offset: {shown}; {self._on_missing} instead",
                )
                found = {partition: offset for partition, offset in found.items() if partition not in outside}
        missing = [partition for partition in wanted if partition not in found]
        return found | reset(missing, self._on_missing, cluster)


class TimestampOffsetsInitializer:
    """The first record at or after a time; the reset strategy decides where there is none (in Flink LATEST)."""

    def __init__(self, timestamp_millis: int, on_missing: ResetStrategy = ResetStrategy.LATEST) -> None:
        self._timestamp_millis = timestamp_millis
        self._on_missing = on_missing

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        # Asked before the records, as in Flink: what is appended between the two questions is behind these offsets.
        others = {} if self._on_missing is ResetStrategy.FAIL else reset(wanted, self._on_missing, cluster)
        found = others | first_at(self._timestamp_millis, wanted, cluster)
        missing = [partition for partition in wanted if partition not in found]
        if missing:
            raise undefined(missing, f"no record at or after timestamp {self._timestamp_millis} and no reset policy")
        return found


class SpecificOffsetsInitializer:
    """Offsets that the user names; partitions without an entry start at the group's offsets, as in Flink.

    :param specific: next record to read, a partition.
    :param on_missing: for a partition without entry and without committed offset, and for an offset outside the log.
    """

    def __init__(
        self, specific: Mapping[TopicPartition, int], on_missing: ResetStrategy, *, warn: Warn = no_warning
    ) -> None:
        if not specific:
            msg = "startup.mode SpecificOffsets was chosen, but no specific offsets were specified"
            raise UndefinedOffset(msg, remedy="name them in spec.source.startup.specificOffsets")
        self._specific = dict(specific)
        self._on_missing = on_missing
        self._warn = warn

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        chosen = {partition: self._specific[partition] for partition in wanted if partition in self._specific}
        unused = sorted(self._specific.keys() - set(wanted))
        if unused:
            self._warn(
                DriverEvent.SPECIFIC_OFFSETS_UNUSED,
                f"startup.specificOffsets has entries of partition {named(unused)}: not read by this job",
            )
        outside = outside_the_log(chosen, cluster)
        if outside:
            shown = listed(outside.values())
            why = f"startup.specificOffsets names what is not in the log and there is no reset policy: {shown}"
            replaced = reset(outside, self._on_missing, cluster, why=why)
            self._warn(DriverEvent.OFFSET_OUT_OF_RANGE, f"startup.specificOffsets: {shown}; {self._on_missing} instead")
            chosen |= replaced
        rest = [partition for partition in wanted if partition not in chosen]
        return chosen | CommittedOffsetsInitializer(self._on_missing, warn=self._warn).offsets(rest, cluster)


class TimestampStopsInitializer:
    """The first record at or after a time. Where there is none, all records of the log are earlier: its end.

    Either may be behind an open transaction, whose records are earlier, too. The job reads up to there when it has
    ended.
    """

    def __init__(self, timestamp_millis: int) -> None:
        self._timestamp_millis = timestamp_millis

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        # Asked before the records: what is appended between the two questions may have reached the time.
        ends = cluster.log_ends(wanted)
        return ends | first_at(self._timestamp_millis, wanted, cluster)


class NamedStopsInitializer:
    """Stopping offsets that the user names, every partition of them: one without an entry would never end."""

    def __init__(self, specific: Mapping[TopicPartition, int]) -> None:
        self._specific = dict(specific)

    def offsets(self, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
        wanted = list(partitions)
        missing = sorted(partition for partition in wanted if partition not in self._specific)
        if missing:
            msg = f"spec.source.stopping.specificOffsets has no entry for partition {named(missing)}"
            raise UndefinedOffset(msg, remedy="name the offset that each partition stops before, 0 to read none of it")
        return {partition: self._specific[partition] for partition in wanted}


def first_at(millis: int, partitions: Iterable[TopicPartition], cluster: ClusterView) -> dict[TopicPartition, int]:
    """The offset of each partition's first record at or after a time; partitions without such a record are absent."""
    found = cluster.records_at(dict.fromkeys(partitions, millis))
    return {partition: record.offset for partition, record in found.items()}


def outside_the_log(offsets: Mapping[TopicPartition, int], cluster: ClusterView) -> dict[TopicPartition, str]:
    """Offsets outside the log, each as text for a message. The log's end is a valid offset without a record.

    :raises KafkaAccessError: the brokers do not agree on an end: see :func:`ends_before`.
    """
    first, end = cluster.earliest(offsets), ends_before(offsets, cluster)
    return {
        partition: f"{partition} at {offset} (the log holds {first[partition]} to {end[partition]})"
        for partition, offset in sorted(offsets.items())
        if not first[partition] <= offset <= end[partition]
    }


def reset(
    missing: Iterable[TopicPartition],
    strategy: ResetStrategy,
    cluster: ClusterView,
    *,
    why: str = "Undefined offset with no reset policy",
) -> dict[TopicPartition, int]:
    """Offsets for partitions that have none.

    :raises UndefinedOffset: under strategy FAIL, naming them.
    """
    wanted = sorted(missing)
    if not wanted:
        return {}
    if strategy is ResetStrategy.FAIL:
        raise undefined(wanted, why)
    return cluster.earliest(wanted) if strategy is ResetStrategy.EARLIEST else cluster.latest(wanted)


def undefined(partitions: Iterable[TopicPartition], why: str) -> UndefinedOffset:
    """The error about partitions that have no offset, and no strategy that gives them one."""
    return UndefinedOffset(f"{why} for partition {named(sorted(partitions))}")


def starting_initializer(startup: Startup, *, warn: Warn = no_warning) -> OffsetsInitializer:
    """The initializer of the job's startup mode.

    :param warn: receives an event's reason and message.
    """
    match startup.mode:
        case StartupMode.EARLIEST:
            return EarliestOffsetsInitializer()
        case StartupMode.LATEST:
            return LatestOffsetsInitializer()
        case StartupMode.GROUP_OFFSETS:
            return CommittedOffsetsInitializer(startup.on_missing, warn=warn)
        case StartupMode.TIMESTAMP:
            return TimestampOffsetsInitializer(startup.timestamp_millis or 0, startup.on_missing)
        case StartupMode.SPECIFIC_OFFSETS:
            return SpecificOffsetsInitializer(offsets_map(startup.specific_offsets), startup.on_missing, warn=warn)


def stopping_initializer(stopping: Stopping) -> OffsetsInitializer | None:
    """The initializer of a bounded job's last offsets, None for a job without an end."""
    match stopping.mode:
        case StoppingMode.UNBOUNDED:
            return None
        case StoppingMode.LATEST:
            return LatestOffsetsInitializer()
        case StoppingMode.GROUP_OFFSETS:
            return CommittedOffsetsInitializer(ResetStrategy.FAIL)
        case StoppingMode.TIMESTAMP:
            return TimestampStopsInitializer(stopping.timestamp_millis or 0)
        case StoppingMode.SPECIFIC_OFFSETS:
            return NamedStopsInitializer(offsets_map(stopping.specific_offsets))
