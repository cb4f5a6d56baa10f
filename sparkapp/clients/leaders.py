"""Partitions with a leader in a client's metadata cache; ListOffsets is sent for these alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from sparkapp.clients.admin import ClusterAdmin
from sparkapp.model.partition import TopicPartition

_MAX_AGE = "metadata.max.age.ms"
_MAX_AGE_DEFAULT = 900_000
_LOOK_SECONDS = 6.0
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

    def _unknown(self, wanted: Iterable[TopicPartition]) -> list[TopicPartition]:
        now = time.monotonic()
        if self._admin.client is not self._client:
            return list(wanted)
        return [partition for partition in wanted if self._until.get(partition, 0.0) <= now]

    def _ask(self, topic: str | None) -> ClusterMetadata:
        metadata = self._admin.metadata(topic, timeout=_LOOK_SECONDS)
        self.note(metadata)
        return metadata
