"""Partitions that exist, partitions that were deleted, and what the job's spec says about both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkapp.clients.cluster_view import ClusterView, known_topics
from sparkapp.model.errors import TopicNotFound
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.sections.source import OnTopicDeleted
from sparkapp.model.partition import TopicPartition, named
from sparkapp.source.enumerator.subscriber import Subscriber, require
from sparkapp.source.offsets_initializer import Warn

_REMEDY_DELETED = "create it again, or set spec.source.onTopicDeleted to Ignore to continue without it"


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """Result of a discovery (case S12).

    :ivar recreated: topics that are read from their beginning again, because their id has changed.
    """

    new: frozenset[TopicPartition]
    removed: frozenset[TopicPartition]
    recreated: frozenset[str] = frozenset()


class PartitionDiscovery:
    """Compares the subscription with the cluster; used by the enumerator, from its thread.

    :param on_topic_deleted: the policy for deleted partitions.
    :param warn: receives events about new, removed and ignored partitions.
    """

    def __init__(
        self, cluster: ClusterView, subscriber: Subscriber, on_topic_deleted: OnTopicDeleted, warn: Warn
    ) -> None:
        self._cluster = cluster
        self._subscriber = subscriber
        self.fails_on_deletion = on_topic_deleted is OnTopicDeleted.FAIL
        self._warn = warn

    def topics(self) -> dict[str, int]:
        """Every topic of the cluster with its number of partitions; see :func:`known_topics`."""
        return known_topics(self._cluster, self._subscriber.named)

    def partitions(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        """The subscribed partitions that exist."""
        return self._subscriber.partitions(topics)

    def required(self, topics: Mapping[str, int]) -> set[TopicPartition]:
        """:meth:`partitions` of a first start; see :func:`require`.

        :raises TopicNotFound: a named partition does not exist, or there is nothing to read.
        """
        return require(self._subscriber, topics)

    def still_subscribed(self, restored: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Restored offsets of partitions that match the subscription; warns of all others."""
        kept = {partition: offset for partition, offset in restored.items() if self._subscriber.matches(partition)}
        dropped = sorted(set(restored) - set(kept))
        if dropped:
            self._warn(
                DriverEvent.PARTITION_REMOVED,
                f"partition {named(dropped)} of the restored checkpoint is no longer part of"
                f" {self._subscriber.describe()}: not read",
            )
        return kept

    def shared(self, topics: Mapping[str, int], restored: Mapping[TopicPartition, int] | None) -> set[TopicPartition]:
        """The partitions that the members of the consumer group divide among them."""
        if restored is None or self.fails_on_deletion:
            return require(self._subscriber, topics, or_nothing=restored is not None)
        found = self._subscriber.partitions(topics)
        unlisted = {
            partition for partition in restored if partition not in found and self._subscriber.matches(partition)
        }
        return found | (unlisted - set(self.deleted(unlisted)))

    def deleted(self, unlisted: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Partitions that do not exist any more, among those that a listing of all topics lacks.

        The enumerator forgets them, and they begin Earliest when they come back. So every broker is asked.

        :raises KafkaAccessError: see :meth:`ClusterView.gone`.
        """
        asked = sorted(unlisted)
        return sorted(self._cluster.gone(asked)) if asked else []

    def refuse_deleted(self, deleted: Sequence[TopicPartition], topics: Mapping[str, int]) -> None:
        """Called at a start from a checkpoint.

        :raises TopicNotFound: a restored partition or a named topic does not exist, and the policy is Fail.
        """
        missing = self._subscriber.missing(topics)
        if self.fails_on_deletion and (deleted or missing):
            what = f"partition {named(deleted)} of the restored checkpoint" if deleted else missing
            msg = f"{what} no longer exists on the Kafka brokers"
            raise TopicNotFound(msg, remedy=_REMEDY_DELETED)

    def refuse_removed(self, deleted: Sequence[TopicPartition]) -> None:
        """Called by a discovery. :raises TopicNotFound: partitions were deleted, and the policy is Fail."""
        if deleted and self.fails_on_deletion:
            msg = f"partition {named(deleted)} no longer exists on the Kafka brokers"
            raise TopicNotFound(msg, remedy=_REMEDY_DELETED)

    def newly_named(self, unknown: Sequence[TopicPartition], known: Collection[str]) -> list[TopicPartition]:
        """New partitions of a bounded source that its spec names now; warns of all others.

        :param known: topics of the restored checkpoint.
        """
        named_now = [partition for partition in unknown if self._subscriber.newly_asked_for(partition, known)]
        ignored = sorted(set(unknown) - set(named_now))
        if ignored:
            self._warn(
                DriverEvent.PARTITION_IGNORED,
                f"partition {named(ignored)} was added after the first start of this bounded job: not read",
            )
        return named_now

    def warn_removed(self, deleted: Sequence[TopicPartition]) -> None:
        self._warn(
            DriverEvent.PARTITION_REMOVED, f"partition {named(deleted)} no longer exists on the Kafka brokers: not read"
        )

    def warn_added(self, partitions: Sequence[TopicPartition]) -> None:
        self._warn(
            DriverEvent.PARTITION_ADDED,
            f"{len(partitions)} new partition(s), read from the earliest offset: {named(partitions)}",
        )
