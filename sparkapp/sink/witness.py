"""The witness of a commit: the group's offsets, which moved with the transaction or not at all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import KafkaSparkJobError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition
from sparkapp.native.kafka_errors import error_for

_PAUSE = 0.1
_SHARED = ("security.", "sasl.", "ssl.")


class Witness(Protocol):
    """Tells the offsets of the job's group that no open transaction can still change."""

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Next offset a partition; partitions without a committed offset are absent.

        :raises KafkaAccessError: no stable answer in time.
        """
        ...


class GroupOffsetsWitness:
    """Asks the group coordinator for stable offsets, waiting while an open transaction holds some of them.

    :param config: librdkafka properties of the cluster; others, a consumer's for instance, are ignored.
    :param timeout: seconds for one question.
    """

    def __init__(self, config: Mapping[str, str], *, group_id: str, timeout: float = 30.0) -> None:
        shared = {
            name: value
            for name, value in config.items()
            if name in {"bootstrap.servers", "client.id"} or name.startswith(_SHARED)
        }
        self._group_id = group_id
        self._timeout = timeout
        self._last_error: KafkaError | None = None
        self._admin = AdminClient({**shared, "error_cb": self._remember})

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        wanted = [ClientPartition(topic, partition) for topic, partition in partitions]
        if not wanted:
            return {}
        deadline = Deadline.after(self._timeout)
        while True:
            try:
                return self._ask(wanted, deadline)
            except KafkaException as error:
                problem = error.args[0]
                if not _may_pass(problem):
                    raise self._translated(problem) from error
                if deadline.expired:
                    raise self._late(problem) from error
            # An open transaction ends by somebody else's doing; there is nothing to be woken by.
            time.sleep(deadline.bound(_PAUSE))

    def close(self) -> None:
        """Nothing is held open: the client ends with its last reference."""

    def _ask(self, wanted: list[ClientPartition], deadline: Deadline) -> dict[TopicPartition, int]:
        request = ConsumerGroupTopicPartitions(self._group_id, wanted)
        futures = self._admin.list_consumer_group_offsets(
            [request], require_stable=True, request_timeout=max(0.1, deadline.remaining)
        )
        found = futures[self._group_id].result()
        offsets = {}
        for one in found.topic_partitions:
            if one.error is not None:
                raise KafkaException(one.error)
            if one.offset >= 0:
                offsets[TopicPartition(one.topic, one.partition)] = one.offset
        return offsets

    def _remember(self, error: KafkaError) -> None:
        self._last_error = error

    def _translated(self, error: KafkaError) -> KafkaSparkJobError:
        return error_for(error, f"reading the committed offsets of group {self._group_id}")

    def _late(self, error: KafkaError) -> KafkaSparkJobError:
        cause = self._last_error
        if cause is not None and cause.code() in {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}:
            return self._translated(cause)
        return KafkaUnreachable(
            f"the committed offsets of group {self._group_id} were not stable or not to be had within "
            f"{self._timeout:.0f} s: {error.str()}"
        )


def _may_pass(error: KafkaError) -> bool:
    return bool(error.retriable()) or error.code() in {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
    }
