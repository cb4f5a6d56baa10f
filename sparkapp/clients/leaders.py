"""Partitions with a leader in a client's metadata cache; ListOffsets is sent for these alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from sparkapp.clients.admin import ClusterAdmin
from sparkapp.model.partition import TopicPartition

_MAX_AGE = "metadata.max.age.ms"
_MAX_AGE_DEFAULT = 900_000
_LOOK_SECONDS = 6.0
_NOBODY = -1
_BY_NAME = 8
"""Largest number of topics that are asked for by name; beyond it a listing of all topics costs less."""


class KnownLeaders:
    """Asks for metadata until every partition of a question has a leader there.

    ``rd_kafka_ListOffsets`` looks the leaders up in the caller's thread. Where a leader is not in the cache, it
    registers the same operation for the next change of the cache, which librdkafka's main thread serves. A change in
    between makes both threads finish the operation and free it: ``double free or corruption``, or SIGSEGV. librdkafka
    2.16.0 has the race, and docs/adr/0031 the traces. With every leader in the cache nothing is registered.

    :param admin: its client is asked.
    :param config: its librdkafka properties; ``metadata.max.age.ms`` bounds how long an answer counts.
    """

    def __init__(self, admin: ClusterAdmin, config: Mapping[str, str]) -> None:
        self._admin = admin
        self._client: AdminClient | None = None
        # Half of librdkafka's own limit: nothing may expire between this check and the request.
        self._seconds = int(config.get(_MAX_AGE, _MAX_AGE_DEFAULT)) / 2000
        self._until: dict[TopicPartition, float] = {}

    def note(self, metadata: ClusterMetadata) -> None:
        """Notes which partitions of an answer have a leader.

        :param metadata: an answer that the admin's client got; librdkafka has its content in the cache by then.
        """
        client = self._admin.client
        if client is not self._client:
            self._until.clear()
            self._client = client
        until = time.monotonic() + self._seconds
        for name, topic in metadata.topics.items():
            for number, partition in topic.partitions.items():
                if topic.error is None and partition.leader in metadata.brokers:
                    self._until[TopicPartition(name, number)] = until
                else:
                    self._until.pop(TopicPartition(name, number), None)

    def forget(self) -> None:
        """Makes the next request ask for metadata first: an answer was an error, so a leader may have moved."""
        self._until.clear()

    def require(self, partitions: Iterable[TopicPartition]) -> AdminClient:
        """The client that has a leader for each of these partitions in its cache.

        :raises KafkaException: LEADER_NOT_AVAILABLE, the topic's own error, or no answer.
        """
        wanted = list(partitions)
        topics = sorted({partition.topic for partition in self._unknown(wanted)})
        if len(topics) > _BY_NAME:
            # A listing leaves out topics that the user may not describe: the answer to the name has the reason.
            listed = self._ask(None).topics
            topics = [name for name in topics if name not in listed]
        for topic in topics:
            found = self._ask(topic).topics.get(topic)
            if found is not None and found.error is not None:
                raise KafkaException(found.error)
        if missing := self._unknown(wanted):
            text = f"{missing[0]} has no leader"
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, text))
        assert self._client is not None
        return self._client

    def agreed(self, partitions: Iterable[TopicPartition]) -> AdminClient:
        """A new client that asks the leaders of these partitions, on which all brokers of the cluster agree.

        A leader that was cut off and replaced names itself, and this client may ask it for minutes. Its successor knows
        better. librdkafka refuses a leader of an earlier epoch only where its cache has the later epoch. So the next
        :meth:`require` asks for metadata, too.

        :raises KafkaException: LEADER_NOT_AVAILABLE where the brokers disagree; no answer of one of them.
        """
        self.forget()
        named: dict[TopicPartition, set[int]] = {partition: set() for partition in partitions}
        asks = None
        for client, metadata in self._admin.each(timeout=_LOOK_SECONDS):
            asks = client
            for partition, leaders in named.items():
                leaders.add(_leader(metadata, partition))
        for partition, leaders in named.items():
            if len(leaders) != 1 or _NOBODY in leaders:
                text = f"the brokers do not agree on the leader of {partition}: {sorted(leaders)}"
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, text))
        assert asks is not None, "some broker has named a leader"
        return asks

    def _unknown(self, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
        now = time.monotonic()
        if self._admin.client is not self._client:
            return list(wanted)
        return [partition for partition in wanted if self._until.get(partition, 0.0) <= now]

    def _ask(self, topic: str | None) -> ClusterMetadata:
        metadata = self._admin.metadata(topic, timeout=_LOOK_SECONDS)
        self.note(metadata)
        return metadata


def list_offsets(
    client: AdminClient,
    requests: Sequence[Mapping[ClientPartition, OffsetSpec]],
    isolation: IsolationLevel,
    *,
    timeout: float,
) -> dict[TopicPartition, Any]:
    """Each partition's leader's answer; all requests are sent before the first wait.

    :param client: of :meth:`KnownLeaders.require` or :meth:`KnownLeaders.agreed` for these partitions.
    :param timeout: seconds for an answer.
    :raises KafkaException: a leader refuses or does not answer.
    """
    answers = [
        client.list_offsets(dict(request), isolation_level=isolation, request_timeout=timeout) for request in requests
    ]
    found = {
        TopicPartition(partition.topic, partition.partition): future.result()
        for futures in answers
        for partition, future in futures.items()
    }
    # librdkafka's answer, without an error, where the leader died or began a new epoch.
    unanswered = [partition for partition, info in found.items() if info.offset == OFFSET_INVALID]
    if unanswered:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"{unanswered[0]} has no answer"))
    return found


def _leader(metadata: ClusterMetadata, partition: TopicPartition) -> int:
    """The broker that leads a partition by this answer, or :data:`_NOBODY`."""
    topic = metadata.topics.get(partition.topic)
    found = None if topic is None or topic.error is not None else topic.partitions.get(partition.partition)
    return found.leader if found is not None and found.leader in metadata.brokers else _NOBODY
