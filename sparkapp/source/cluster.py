"""What the enumerator asks of the brokers; with ``offset_committer`` the only importer of confluent_kafka here."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from confluent_kafka import Consumer, IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable, TopicNotFound
from sparkapp.model.partition import TopicPartition
from sparkapp.native.kafka_errors import error_for

LOG = logging.getLogger(__name__)

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class ClusterView(Protocol):
    """The questions of the enumerator and its offsets initializers; answered by :class:`KafkaClusterView`, or by a
    fake in unit tests."""

    def topics(self) -> dict[str, int]:
        """Every topic that is not internal, with its number of partitions."""
        ...

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The end that a reader of the job's isolation level can reach."""
        ...

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets; partitions without one are absent."""
        ...


class KafkaClusterView:
    """Answers from the real brokers; one per driver, thread-safe as librdkafka's clients are.

    :param config: the job's consumer configuration.
    :param read_committed: whether :meth:`latest` stops at the last stable offset.
    :param timeout: seconds for one question.
    """

    def __init__(self, config: Mapping[str, str], *, read_committed: bool, timeout: float = 20.0) -> None:
        shared = {
            name: value
            for name, value in config.items()
            if name in {"bootstrap.servers", "client.id"} or name.startswith(("security.", "sasl.", "ssl."))
        }
        self._timeout = timeout
        self._errors: list[Any] = []
        self._admin = AdminClient({**shared, "error_cb": self._errors.append})
        self._consumer = Consumer({**config, "error_cb": self._errors.append})
        self._isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED

    def close(self) -> None:
        self._consumer.close()

    def topics(self) -> dict[str, int]:
        try:
            metadata = self._admin.list_topics(timeout=self._timeout)
        except KafkaException as error:
            raise self._translated(error, "the brokers did not answer") from error
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if name not in INTERNAL_TOPICS and topic.error is None
        }

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._list_offsets(partitions, OffsetSpec.earliest())

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._list_offsets(partitions, OffsetSpec.latest())

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = [ClientPartition(topic, partition) for topic, partition in partitions]
        if not wanted:
            return {}
        try:
            found = self._consumer.committed(wanted, timeout=self._timeout)
        except KafkaException as error:
            raise self._translated(error, "the group's committed offsets could not be read") from error
        result = {}
        for one in found:
            if one.error is not None:
                raise error_for(one.error, f"the committed offset of {one.topic}-{one.partition} could not be read")
            if one.offset >= 0:
                result[TopicPartition(one.topic, one.partition)] = one.offset
        return result

    def broker_config(self, name: str) -> str | None:
        """One setting of a broker, or None where it may not be read."""
        try:
            metadata = self._admin.list_topics(timeout=self._timeout)
            broker = str(next(iter(metadata.brokers)))
            resource = ConfigResource(ResourceType.BROKER, broker)
            future = self._admin.describe_configs([resource], request_timeout=self._timeout)[resource]
            entry = future.result().get(name)
        except (KafkaException, StopIteration) as error:
            LOG.warning("broker setting %s could not be read: %s", name, error)
            return None
        return None if entry is None else str(entry.value)

    def _list_offsets(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        request = {ClientPartition(topic, partition): spec for topic, partition in partitions}
        if not request:
            return {}
        try:
            futures = self._admin.list_offsets(request, isolation_level=self._isolation, request_timeout=self._timeout)
        except KafkaException as error:
            raise self._translated(error, "offsets could not be listed") from error
        result = {}
        for asked, future in futures.items():
            try:
                result[TopicPartition(asked.topic, asked.partition)] = future.result().offset
            except KafkaException as error:
                raise self._translated(
                    error, f"offsets of {asked.topic}-{asked.partition} could not be listed"
                ) from error
        return result

    def _translated(self, error: KafkaException, what: str) -> KafkaAccessError:
        """A time-out hides its cause: what the error callback heard (authentication, DNS …) is the better answer."""
        translated = error_for(error.args[0], what)
        if isinstance(translated, KafkaUnreachable):
            for heard in self._errors:
                better = error_for(heard, what)
                if type(better) not in (KafkaUnreachable, KafkaAccessError):
                    return better if isinstance(better, KafkaAccessError) else translated
        return translated if isinstance(translated, KafkaAccessError) else KafkaAccessError(str(translated))


def require_topics(cluster: ClusterView, names: Iterable[str]) -> dict[str, int]:
    """The partition counts of topics that must exist.

    :raises TopicNotFound: naming the missing ones.
    """
    known = cluster.topics()
    missing = [name for name in names if name not in known]
    if missing:
        msg = f"topic {', '.join(repr(name) for name in missing)} does not exist on the Kafka brokers"
        raise TopicNotFound(msg)
    return {name: known[name] for name in names}
