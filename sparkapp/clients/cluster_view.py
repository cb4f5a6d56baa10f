"""Questions about topics and offsets of a cluster, as the enumerator asks them; the protocol and its helpers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from sparkapp.model.partition import TopicPartition


class FoundRecord(NamedTuple):
    """A record that was found by its time: its offset, and its own time in milliseconds since 1970."""

    offset: int
    millis: int


class ClusterView(Protocol):
    """The questions of the enumerator and its offsets initializers; answered by :class:`KafkaClusterView`, or by a
    fake in unit tests."""

    def topics(self) -> dict[str, int]:
        """Every topic that is not internal, with its number of partitions."""
        ...

    def existing(self, topics: Iterable[str]) -> dict[str, int]:
        """Asks for topics by name: those that exist, with their numbers of partitions.

        A listing leaves out topics that the user may not describe, and topics with an error. Only the answer to a name
        proves that a topic does not exist.

        :raises KafkaAccessError: any other answer, AuthorizationFailed among them.
        """
        ...

    def gone(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those that no broker knows. A broker that lags may not know a partition yet that the job has read.

        :raises KafkaAccessError: as :meth:`existing`, or a broker does not answer.
        """
        ...

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """The first 60 bits of each topic's id, as Kafka prints them; topics without one are absent (KIP-516)."""
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end that a reader of the job's isolation level can reach."""
        ...

    def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end of the log itself, records of open transactions included: no record exists behind it."""
        ...

    def confirmed_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """:meth:`log_ends` of leaders on which all brokers agree. Every other answer may be a replaced leader's.

        It costs requests to each broker, so it is for ends that are before the offset of a reader.

        :raises KafkaAccessError: the brokers do not agree, or a broker does not answer.
        """
        ...

    def records_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundRecord]:
        """The first record of a time or later; partitions without such a record are absent.

        It is an offset in the log: the record may be of an open transaction, or behind it.

        :param times: milliseconds since 1970, a partition.
        """
        ...

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are absent."""
        ...


def ends_before(offsets: Mapping[TopicPartition, int], cluster: ClusterView) -> dict[TopicPartition, int]:
    """The end of each partition's log, by agreement of all brokers where it seems to be before the offset.

    A leader that was replaced without its knowledge answers with an outdated end.

    :param offsets: of readers, or of their group.
    :raises KafkaAccessError: the brokers do not agree: see :meth:`ClusterView.confirmed_ends`.
    """
    ends = cluster.log_ends(sorted(offsets)) if offsets else {}
    suspects = sorted(partition for partition, offset in offsets.items() if ends[partition] < offset)
    return {**ends, **cluster.confirmed_ends(suspects)} if suspects else ends


def known_topics(cluster: ClusterView, named: Iterable[str]) -> dict[str, int]:
    """Every topic that is not internal, and the existing topics of ``named``, with their numbers of partitions.

    A listing lacks internal topics and topics that the user may not describe. Only a request by name proves whether
    such a topic exists.

    :raises AuthorizationFailed: one of ``named`` may not be described.
    """
    listed = cluster.topics()
    unlisted = set(named) - listed.keys()
    return {**listed, **cluster.existing(unlisted)} if unlisted else listed
