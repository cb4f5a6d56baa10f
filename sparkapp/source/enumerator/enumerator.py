"""The enumerator: knows the partitions and fixes the splits of each checkpoint (one per job, on the driver)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence

from sparkapp.clients.cluster_view import ClusterView
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import OffsetsWentBackwards, TopicNotFound
from sparkapp.model.partition import TopicPartition
from sparkapp.model.report import MAX_BEGINNINGS
from sparkapp.source.enumerator.discovery import PartitionChange, PartitionDiscovery
from sparkapp.source.enumerator.lost_records import LostRecords
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.positions import Positions
from sparkapp.source.enumerator.shares import FairShares, RateLimit
from sparkapp.source.enumerator.subscriber import Subscriber
from sparkapp.source.enumerator.topic_identity import TopicIdentity
from sparkapp.source.enumerator.watermark_alignment import WatermarkAlignment
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offsets_initializer import OffsetsInitializer, Warn


class KafkaSourceEnumerator:
    """Tracks where every subscribed partition resumes, and turns available records into splits.

    Used from one thread: :meth:`start` once, then :meth:`plan` and :meth:`complete` alternately. An engine that plans
    before the previous checkpoint is complete calls :meth:`begin` between them.

    :param starting: starting offsets of a first start.
    :param warn: receives an event's reason and message.
    :param membership: where the job shares its partitions with other members of a consumer group: the assigned
        partitions and their offsets.
    """

    def __init__(
        self,
        *,
        cluster: ClusterView,
        subscriber: Subscriber,
        starting: OffsetsInitializer,
        options: EnumeratorOptions,
        warn: Warn,
        clock: Callable[[], float] = time.monotonic,
        membership: GroupMembership | None = None,
    ) -> None:
        self._cluster = cluster
        self._starting = starting
        self._options = options
        self._clock = clock
        self._membership = membership
        self._positions = Positions(clock)
        self._discovery = PartitionDiscovery(cluster, subscriber, options.on_topic_deleted, warn)
        self._discovered_at = clock()
        self._shares = FairShares(options.max_offsets)
        self._rate = RateLimit(options.max_rate, interval=options.interval, clock=clock)
        self._identity = TopicIdentity(cluster, options.on_data_loss)
        self._lost = LostRecords(cluster, options.on_data_loss, warn, self._identity, is_member=membership is not None)
        self._alignment = WatermarkAlignment(cluster, options.max_drift * 1000) if options.max_drift else None

    @property
    def offsets(self) -> Mapping[TopicPartition, int]:
        """Where each partition resumes after the last completed checkpoint."""
        return self._positions.completed

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Ids of the topics that are read, as far as they are known; a member leaves them to its group."""
        return self._identity.ids

    @property
    def stops(self) -> Mapping[TopicPartition, int]:
        """Stopping offset of each partition of a bounded job; fixed when it is found, kept in the checkpoint.

        Without stopping offsets a partition is absent until its last record is found.
        """
        return self._positions.stops

    @property
    def pending(self) -> dict[TopicPartition, int] | None:
        """See :attr:`Positions.pending`; from any thread."""
        return self._positions.pending

    @property
    def ends(self) -> Mapping[TopicPartition, int] | None:
        """The partitions' ends at the last look, None before it; from any thread."""
        return self._positions.ends

    @property
    def seconds_since_look(self) -> float:
        """Seconds since the brokers were asked for the partitions' ends: a plan, or :meth:`look`. From any thread."""
        return self._positions.seconds_since_look

    def look(self) -> None:
        """Asks the brokers for the partitions' ends, for :attr:`pending` alone; called by the lag clock, in its thread.

        :raises KafkaAccessError: the brokers do not answer.
        """
        found = self._cluster.latest(sorted(dict(self._positions.next)))
        self._positions.see(self._positions.before_stops(found))

    def beginnings(self) -> Mapping[TopicPartition, int]:
        """Asks the brokers where the logs of the partitions begin; called by the lag clock, in its thread.

        Empty for a member of a group, and where there are too many for a report.

        :raises KafkaAccessError: the brokers do not answer.
        """
        partitions = sorted(dict(self._positions.next))
        if self._membership is not None or len(partitions) > MAX_BEGINNINGS:
            return {}
        return self._cluster.earliest(partitions)

    @property
    def no_more_new_partition_splits(self) -> bool:
        """True where no discovery follows the discovery of the start (cases S02 to S05)."""
        return self._options.is_bounded or self._options.discovery_interval <= 0

    @property
    def finished(self) -> bool:
        """Whether a bounded job has completed all its records."""
        return self._options.is_bounded and self._positions.at_stops

    def start(
        self,
        restored: Mapping[TopicPartition, int] | None,
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Discovers partitions and places each of them.

        :param restored: offsets of the restored checkpoint, or None on a first start. Restored partitions resume there.
            Partitions that no longer match the subscription are dropped with a warning. All others begin Earliest
            (Flink's KafkaSourceEnumerator): records that arrived while the job was down must not be lost.
        :param stops: stopping offsets of the restored checkpoint, so that Latest keeps its first meaning. With them a
            bounded source reads no partition that the cluster has added since. None where the job has another end now,
            or never had an end. A stop of a partition that was not restored belonged to a deleted topic.
        :param topic_ids: of the restored checkpoint.
        :raises TopicRecreated: a topic was recreated, and the policy is Fail.
        :raises TopicNotFound: nothing to read at all, or a named topic does not exist.
        :raises AuthorizationFailed: a named topic may not be described.
        :raises UndefinedOffset: a partition has no offset to start or stop at.
        """
        topics = self._discovery.topics()
        positions = self._positions
        if self._membership is not None:
            positions.next = self._membership.start(restored, self._discovery.shared(topics, restored))
            return
        if restored is None:
            found = self._discovery.required(topics)
            self._identity.recreated({partition.topic for partition in found})
            positions.next = dict(self._starting.offsets(sorted(found), self._cluster))
        else:
            self._identity.restore(topic_ids or {})
            self._restore(restored, stops, topics)
        unknown = sorted(set(positions.next) - set(positions.stops))
        if self._options.stopping is not None and unknown:
            positions.stops |= self._options.stopping.offsets(unknown, self._cluster)
        if restored is not None:
            positions.next |= self._lost.skipped_at_start(positions.next, positions.stops)

    def existing(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those that exist in the topics that are read, by the brokers' answers to their names; from any thread.

        :raises KafkaAccessError: another answer.
        """
        known = self._identity.ids
        found = self._cluster.topic_ids({partition.topic for partition in partitions})
        same = {each for each in partitions if known.get(each.topic) in {None, found.get(each.topic)}}
        return same - set(self._discovery.deleted(same))

    def discover(self) -> PartitionChange:
        """Discovers now, because a partition may be gone; new partitions as :meth:`discover_if_due` does."""
        return self._discover(only_removed=self.no_more_new_partition_splits)

    def discover_if_due(self) -> PartitionChange | None:
        """Discovers new partitions once the interval has passed; new partitions always begin Earliest."""
        if self.no_more_new_partition_splits or self._clock() - self._discovered_at < self._options.discovery_interval:
            return None
        return self._discover()

    def plan(self) -> tuple[KafkaPartitionSplit, ...]:
        """The splits of the next checkpoint, one a known partition, from its next offset to a fixed end.

        :raises OffsetsWentBackwards: a partition ends before its next offset (case S40).
        :raises TopicNotFound: a partition was deleted.
        """
        positions = self._positions
        if self._membership is not None:
            positions.next = self._membership.take()
        found = self._latest()
        positions.next |= self._lost.skipped(positions.next, found, positions.stops)
        ends = positions.before_stops({partition: found[partition] for partition in positions.next})
        positions.see(ends)
        if self._alignment is not None:
            ends = self._alignment.cut(positions.next, ends)
        backlog = {partition: max(0, ends[partition] - start) for partition, start in positions.next.items()}
        backlog = self._rate.limited(backlog)
        if self._membership is not None and not any(backlog.values()):
            self._membership.release()
        share = self._shares.of(backlog)
        self._rate.take(share)
        return tuple(
            KafkaPartitionSplit(partition, start, start + share[partition])
            for partition, start in sorted(positions.next.items())
        )

    def unplanned(self) -> tuple[KafkaPartitionSplit, ...]:
        """Every partition with an empty range, for a checkpoint that reads nothing."""
        return tuple(KafkaPartitionSplit(each, at, at) for each, at in sorted(self._positions.next.items()))

    def begin(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        """The next plan begins behind these splits. Never undone: an attempt whose checkpoint fails ends."""
        self._positions.begin(splits)

    def complete(
        self, splits: tuple[KafkaPartitionSplit, ...], stops: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """The checkpoint with these splits is final: each partition resumes behind its split.

        :param stops: stopping offsets that were found in the records; they replace later stops.
        """
        if self._membership is not None:
            self._positions.next = self._membership.complete(splits)
            return
        self._positions.complete(splits, stops or {})

    def ahead(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Subtasks have committed these offsets by themselves: for :attr:`pending`, which counts them as read."""
        self._positions.ahead = offsets

    def explain(self, error: OffsetsWentBackwards) -> OffsetsWentBackwards:
        """Explains why a reader did not find planned records; called by the engine when it has stopped.

        :returns: the error that ends the attempt. It names both offsets where the log begins behind the plan, and is
            not fatal where the job skips lost records.
        """
        return self._lost.explain(error, self._positions.reached, self._positions.stops)

    def _restore(
        self,
        restored: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int] | None,
        topics: Mapping[str, int],
    ) -> None:
        """Places the partitions of a start from a checkpoint, with the stops that still hold.

        Topics that were recreated are read from their beginning, all their partitions; the previous topic's stops mean
        nothing.
        """
        kept = self._discovery.still_subscribed(restored)
        kept_topics = {partition.topic for partition in kept}
        self._identity.forget({partition.topic for partition in restored} - kept_topics)
        found = self._discovery.partitions(topics)
        recreated = self._identity.recreated(kept_topics | {partition.topic for partition in found})
        deleted = self._discovery.deleted(partition for partition in kept if partition not in found)
        self._discovery.refuse_deleted(deleted, topics)
        positions = self._positions
        positions.next = kept
        positions.stops = {
            partition: stop
            for partition, stop in (stops or {}).items()
            if partition in kept and partition.topic not in recreated
        }
        if deleted:
            self._forget(deleted)
        self._begin_again(recreated)
        unknown = sorted(found - set(kept))
        if self._options.is_bounded and stops is not None:
            again = [partition for partition in unknown if partition.topic in recreated]
            others = [partition for partition in unknown if partition.topic not in recreated]
            unknown = again + self._discovery.newly_named(others, {partition.topic for partition in restored})
        positions.next |= self._cluster.earliest(unknown)
        if unknown and restored:
            self._discovery.warn_added(unknown)

    def _begin_again(self, topics: Collection[str]) -> None:
        """Partitions of recreated topics are read from their beginning."""
        positions = self._positions
        positions.next |= self._lost.begun_again(topics, positions.next, positions.stops)

    def _discover(self, *, only_removed: bool = False) -> PartitionChange:
        self._discovered_at = self._clock()
        found = self._discovery.partitions(self._discovery.topics())
        recreated: frozenset[str] = frozenset()
        if self._membership is None:
            recreated = self._identity.recreated({partition.topic for partition in found})
        known = set(self._positions.next)
        new = [] if only_removed else sorted(found - known)
        removed = self._discovery.deleted(known - found)
        self._discovery.refuse_removed(removed)
        if removed:
            self._forget(removed)
        self._begin_again(recreated)  # only now: the new topic may have fewer partitions
        if self._membership is not None:
            self._membership.discovered(found | (known - found - set(removed)), removed)
            return PartitionChange(frozenset(), frozenset(removed))
        if new:
            self._positions.next |= self._cluster.earliest(new)
            self._discovery.warn_added(new)
        return PartitionChange(frozenset(new), frozenset(removed), recreated)

    def _latest(self) -> dict[TopicPartition, int]:
        try:
            return self._cluster.latest(sorted(self._positions.next))
        except TopicNotFound:
            # Deleted between two discoveries; the job continues with the remaining partitions where its policy says so.
            if self._discovery.fails_on_deletion:
                raise
            if not self.discover().removed:
                raise
            return self._cluster.latest(sorted(self._positions.next))

    def _forget(self, deleted: Sequence[TopicPartition]) -> None:
        self._positions.forget(deleted)
        topics = {partition.topic for partition in deleted}
        self._identity.forget(topics - {partition.topic for partition in self._positions.next})
        self._discovery.warn_removed(deleted)
