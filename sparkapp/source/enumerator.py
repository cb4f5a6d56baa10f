"""The enumerator: knows the partitions and fixes, for each checkpoint, what is read (one per job, on the driver)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkapp.model.errors import OffsetsWentBackwards, TopicNotFound
from sparkapp.model.job import JobSpec, OnTopicDeleted
from sparkapp.model.partition import TopicPartition, named
from sparkapp.model.positions import MAX_OFFSET
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.source.cluster import ClusterView, known_topics
from sparkapp.source.enumerator_options import EnumeratorOptions
from sparkapp.source.group_membership import GroupMembership
from sparkapp.source.lost_records import LostRecords
from sparkapp.source.offsets_initializer import (
    OffsetsInitializer,
    Warn,
    starting_initializer,
    stopping_initializer,
)
from sparkapp.source.shares import FairShares
from sparkapp.source.subscriber import Subscriber, require, subscriber_of
from sparkapp.source.topic_identity import TopicIdentity
from sparkapp.source.watermark_alignment import WatermarkAlignment

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """What a discovery found (case S12)."""

    new: frozenset[TopicPartition]
    removed: frozenset[TopicPartition]


class KafkaSourceEnumerator:
    """Tracks where every subscribed partition goes on, and turns what is available into splits.

    Used from one thread: :meth:`start` once, then :meth:`plan` and :meth:`complete` in turns.

    :param starting: where partitions of a first start begin.
    :param stopping: where a bounded job ends; None never ends.
    :param warn: told of what a person should know, with an event's reason and message.
    :param membership: where the job shares its partitions with other members of a consumer group: which ones are ours,
        and where they go on.
    """

    def __init__(
        self,
        *,
        cluster: ClusterView,
        subscriber: Subscriber,
        starting: OffsetsInitializer,
        options: EnumeratorOptions,
        warn: Warn,
        stopping: OffsetsInitializer | None = None,
        clock: Callable[[], float] = time.monotonic,
        membership: GroupMembership | None = None,
    ) -> None:
        self._cluster = cluster
        self._subscriber = subscriber
        self._starting = starting
        self._stopping = stopping
        self._is_bounded = stopping is not None or options.ends_by_record
        self._options = options
        self._warn = warn
        self._clock = clock
        self._membership = membership
        self._next: dict[TopicPartition, int] = {}
        self._stops: dict[TopicPartition, int] = {}
        self._ends: Mapping[TopicPartition, int] | None = None
        self._discovered_at = self._looked_at = clock()
        self._planned_at: float | None = None
        self._shares = FairShares(options.max_offsets)
        self._identity = TopicIdentity(cluster, options.data_loss_policy)
        self._lost = LostRecords(
            cluster, options.data_loss_policy, warn, self._identity, is_member=membership is not None
        )
        self._alignment = WatermarkAlignment(cluster, options.max_drift * 1000) if options.max_drift else None

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """Where each partition goes on after the last completed checkpoint."""
        return self._next

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Of the topics that are read, as far as they are known; a group's member leaves them to its group."""
        return self._identity.ids

    @property
    def stops(self) -> Mapping[TopicPartition, int]:
        """Where each partition of a bounded job ends; fixed when it is found, kept in the checkpoint.

        Without stopping offsets a partition is absent until the record is found that ends it.
        """
        return self._stops

    @property
    def pending(self) -> dict[TopicPartition, int] | None:
        """Records between what is completed and the ends seen last; None before anybody has looked (case S26).

        May be asked from any thread.
        """
        # Whoever looks replaces the whole mapping and never changes it.
        ends = self._ends
        if ends is None:
            return None
        return {partition: max(0, end - self._next.get(partition, end)) for partition, end in ends.items()}

    @property
    def seconds_since_look(self) -> float:
        """Since somebody asked the brokers for the partitions' ends: a plan, or :meth:`look`. From any thread."""
        return self._clock() - self._looked_at

    def look(self) -> None:
        """Asks the brokers for the partitions' ends, for :attr:`pending` alone. From any thread.

        Called by the driver's lag clock, because no plan is made while a micro-batch runs.

        :raises KafkaAccessError: the brokers do not answer.
        """
        found = self._cluster.latest(sorted(dict(self._next)))
        self._see({one: min(end, self._stops.get(one, MAX_OFFSET)) for one, end in found.items()})

    def _see(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends, self._looked_at = ends, self._clock()

    @property
    def no_more_new_partition_splits(self) -> bool:
        """True where no discovery will follow the one of the start (cases S02 to S05)."""
        return self._is_bounded or self._options.discovery_interval <= 0

    @property
    def finished(self) -> bool:
        """A bounded job has completed all that it is to read."""
        return self._is_bounded and all(
            partition in self._stops and offset >= self._stops[partition] for partition, offset in self._next.items()
        )

    def start(
        self,
        restored: Mapping[TopicPartition, int] | None,
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Discovers partitions and places each one.

        :param restored: offsets of the restored checkpoint, or None on a first start. Restored partitions go on
            there; ones that no longer match the subscription are dropped with a warning; all others begin EARLIEST
            (seed 000), for records they got while nobody looked must not be lost.
        :param stops: stopping offsets of the restored checkpoint: a LATEST of then stays what it was. With them a
            bounded source reads what it read before, and no partition that the cluster has added since; None where it
            has another end now, or never had one.
        :param topic_ids: of the restored checkpoint.
        :raises TopicRecreated: a topic is another one of its name, and the policy is Fail.
        :raises TopicNotFound: nothing to read at all, or what is asked for by name is missing.
        :raises AuthorizationFailed: a topic that is asked for by name may not be described.
        :raises UndefinedOffset: a partition has no offset to start or stop at.
        """
        topics = known_topics(self._cluster, self._subscriber.named)
        if self._membership is not None:
            self._next = self._membership.start(restored, self._shared(topics, restored))
            return
        recreated: frozenset[str] = frozenset()
        if restored is None:
            found = require(self._subscriber, topics)
            self._identity.recreated({one.topic for one in found})
            self._next = dict(self._starting.offsets(sorted(found), self._cluster))
        else:
            self._identity.restore(topic_ids or {})
            recreated = self._restore(restored, topics, may_grow=not self._is_bounded or stops is None)
        known = {one: stop for one, stop in (stops or {}).items() if one in self._next and one.topic not in recreated}
        self._stops = known
        self._fix_stops(sorted(set(self._next) - set(known)))

    def discover_if_due(self) -> PartitionChange | None:
        """Looks for new partitions once the interval has passed; new ones begin EARLIEST, always."""
        if self.no_more_new_partition_splits or self._clock() - self._discovered_at < self._options.discovery_interval:
            return None
        return self._discover()

    def plan(self) -> tuple[KafkaPartitionSplit, ...]:
        """The splits of the next checkpoint, one a known partition, from where it goes on to a fixed end.

        :raises OffsetsWentBackwards: a partition ends before the offset it should go on at (case S40).
        :raises TopicNotFound: a partition is gone.
        """
        if self._membership is not None:
            self._next = self._membership.take()
        found = self._latest()
        self._next |= self._lost.skipped(self._next, found, self._stops)
        ends = {one: min(found[one], self._stops.get(one, MAX_OFFSET)) for one in self._next}
        self._see(ends)
        if self._alignment is not None:
            ends = self._alignment.cut(self._next, ends)
        backlog = {one: max(0, ends[one] - start) for one, start in self._next.items()}
        allowed = self._allowance()
        if allowed is not None:
            backlog = {one: min(size, allowed) for one, size in backlog.items()}
        if self._membership is not None and not any(backlog.values()):
            self._membership.release()
        share = self._shares.of(backlog)
        return tuple(
            KafkaPartitionSplit(partition, start, start + share[partition])
            for partition, start in sorted(self._next.items())
        )

    def unplanned(self) -> tuple[KafkaPartitionSplit, ...]:
        """Every partition with an empty range, for a checkpoint that reads nothing."""
        return tuple(KafkaPartitionSplit(partition, start, start) for partition, start in sorted(self._next.items()))

    def complete(
        self, splits: tuple[KafkaPartitionSplit, ...], stops: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """The checkpoint with these splits is final: go on after them.

        :param stops: where records were found that end their partition; in place of stops further on.
        """
        if self._membership is not None:
            self._next = self._membership.complete(splits)
            return
        self._next |= {split.partition: split.stop for split in splits}
        if stops:
            self._stops |= stops
            self._ends = {one: min(end, stops.get(one, end)) for one, end in (self._ends or {}).items()}

    def explain(self, error: OffsetsWentBackwards) -> OffsetsWentBackwards:
        """What it means that a reader did not find what was planned; asked by the engine when it has stopped.

        :returns: the error to end the attempt with: both offsets named where the log begins behind what was planned,
            and not fatal where the job skips what is gone.
        """
        return self._lost.explain(error, self._next)

    def _restore(
        self, restored: Mapping[TopicPartition, int], topics: Mapping[str, int], *, may_grow: bool
    ) -> frozenset[str]:
        """Places partitions.

        :returns: the topics that were recreated, which are read from their beginning.
        """
        kept = {partition: offset for partition, offset in restored.items() if self._subscriber.matches(partition)}
        dropped = sorted(set(restored) - set(kept))
        if dropped:
            self._warn(
                "PartitionRemoved",
                f"partition {named(dropped)} of the restored checkpoint is no longer part of"
                f" {self._subscriber.describe()}: not read",
            )
        found = self._subscriber.partitions(topics)
        self._identity.forget({one.topic for one in dropped} - {one.topic for one in kept})
        recreated = self._identity.recreated({one.topic for one in (*kept, *found)})
        gone = self._gone(partition for partition in kept if partition not in found)
        missing = self._subscriber.missing(topics)
        if self._options.on_topic_deleted is OnTopicDeleted.FAIL and (gone or missing):
            what = f"partition {named(gone)} of the restored checkpoint" if gone else missing
            msg = f"{what} no longer exists on the Kafka brokers"
            raise TopicNotFound(msg, remedy=_REMEDY_DELETED)
        self._next = kept
        if gone:
            self._forget(gone)
        self._begin_again(recreated)
        unknown = sorted(found - set(kept))
        if not may_grow:
            unknown = self._newly_asked_for(unknown, {one.topic for one in restored})
        self._next |= self._cluster.earliest(unknown)
        if unknown and restored:
            self._announce(unknown)
        self._next |= self._lost.skipped_at_start(self._next)
        return recreated

    def _begin_again(self, topics: Collection[str]) -> None:
        """Partitions of recreated topics are read from their beginning."""
        self._next |= self._lost.begun_again({one: at for one, at in self._next.items() if one.topic in topics})

    def _newly_asked_for(self, unknown: Sequence[TopicPartition], known: Collection[str]) -> list[TopicPartition]:
        """Of partitions that a bounded source does not know those that its spec names now; warns of the others."""
        asked_for = [one for one in unknown if self._subscriber.newly_asked_for(one, known)]
        ignored = sorted(set(unknown) - set(asked_for))
        if ignored:
            self._warn(
                "PartitionIgnored",
                f"partition {named(ignored)} was added after the first start of this bounded job: not read",
            )
        return asked_for

    def _shared(self, topics: Mapping[str, int], restored: Mapping[TopicPartition, int] | None) -> set[TopicPartition]:
        """What the group has to divide."""
        if restored is None or self._options.on_topic_deleted is OnTopicDeleted.FAIL:
            return require(self._subscriber, topics, or_nothing=restored is not None)
        found = self._subscriber.partitions(topics)
        unlisted = {one for one in restored if one not in found and self._subscriber.matches(one)}
        return found | (unlisted - set(self._gone(unlisted)))

    def _gone(self, unlisted: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those that do not exist any more, of what a listing of all topics lacks.

        What is forgotten begins EARLIEST when it comes back, so the brokers are asked for it by name.

        :raises KafkaAccessError: the brokers say something else than that it does not exist.
        """
        asked = sorted(unlisted)
        there = self._cluster.existing({one.topic for one in asked}) if asked else {}
        return [one for one in asked if one.partition >= there.get(one.topic, 0)]

    def _discover(self, *, only_removed: bool = False) -> PartitionChange:
        self._discovered_at = self._clock()
        found = self._subscriber.partitions(known_topics(self._cluster, self._subscriber.named))
        if self._membership is None:
            self._begin_again(self._identity.recreated({one.topic for one in found}))
        new = [] if only_removed else sorted(found - set(self._next))
        unlisted = set(self._next) - found
        removed = self._gone(unlisted)
        if removed:
            if self._options.on_topic_deleted is OnTopicDeleted.FAIL:
                msg = f"partition {named(removed)} no longer exists on the Kafka brokers"
                raise TopicNotFound(msg, remedy=_REMEDY_DELETED)
            self._forget(removed)
        if self._membership is not None:
            self._membership.discovered(found | (unlisted - set(removed)), removed)
            return PartitionChange(frozenset(), frozenset(removed))
        if new:
            self._next |= self._cluster.earliest(new)
            self._announce(new)
        return PartitionChange(frozenset(new), frozenset(removed))

    def _latest(self) -> dict[TopicPartition, int]:
        try:
            return self._cluster.latest(sorted(self._next))
        except TopicNotFound:
            # Deleted between two discoveries; what is left goes on where the job says so.
            if self._options.on_topic_deleted is OnTopicDeleted.FAIL:
                raise
            if not self._discover(only_removed=self.no_more_new_partition_splits).removed:
                raise
            return self._cluster.latest(sorted(self._next))

    def _allowance(self) -> int | None:
        """Records that one partition may give now: its rate times the time since the last plan, at least one."""
        now, before = self._clock(), self._planned_at
        self._planned_at = now
        if not self._options.max_rate:
            return None
        return max(1, int(self._options.max_rate * (self._options.interval if before is None else now - before)))

    def _fix_stops(self, partitions: Sequence[TopicPartition]) -> None:
        if self._stopping is not None and partitions:
            self._stops |= self._stopping.offsets(partitions, self._cluster)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        gone = sorted(partitions)
        for one in gone:
            self._next.pop(one, None)
            self._stops.pop(one, None)
        self._identity.forget({one.topic for one in gone} - {one.topic for one in self._next})
        if self._ends is not None:
            self._ends = {one: end for one, end in self._ends.items() if one in self._next}
        self._warn("PartitionRemoved", f"partition {named(gone)} no longer exists on the Kafka brokers: not read")

    def _announce(self, partitions: Sequence[TopicPartition]) -> None:
        self._warn(
            "PartitionAdded", f"{len(partitions)} new partition(s), read from the earliest offset: {named(partitions)}"
        )


def enumerator_of(
    spec: JobSpec, cluster: ClusterView, *, warn: Warn, membership: GroupMembership | None = None
) -> KafkaSourceEnumerator:
    """The enumerator that a job's source asks for; called by the driver once an attempt."""
    return KafkaSourceEnumerator(
        cluster=cluster,
        subscriber=subscriber_of(spec.source),
        starting=starting_initializer(spec.source.startup, warn=warn),
        stopping=stopping_initializer(spec.source.stopping),
        options=EnumeratorOptions.of(spec),
        warn=warn,
        membership=membership,
    )


_REMEDY_DELETED = "create it again, or set spec.source.onTopicDeleted to Ignore to go on without it"
