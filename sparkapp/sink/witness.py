"""The witness of a commit: the group's offsets, which moved with the transaction or not at all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.model.client_config import cluster_properties
from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import AuthenticationFailed, AuthorizationFailed, KafkaSparkJobError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition
from sparkapp.model.settlement import GroupOffset
from sparkapp.native.kafka_errors import COORDINATOR_MOVES, MEANING, RETRIED, error_for

_MAY_PASS = RETRIED | COORDINATOR_MOVES | {KafkaError.UNSTABLE_OFFSET_COMMIT}
_PAUSE = 0.1
_REQUEST_SECONDS = 3.0
"""One request; between requests it is noticed that credentials or rights are missing."""


class Witness(Protocol):
    """Tells the offsets of the job's group that no open transaction can still change."""

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        """Next offset a partition, with its mark; partitions without a committed offset are absent.

        :raises KafkaAccessError: no stable answer in time.
        """
        ...


class GroupOffsetsWitness:
    """Asks the group coordinator for stable offsets, waiting while an open transaction holds some of them.

    :param config: librdkafka properties of the cluster; others, a consumer's for instance, are ignored.
    :param stable: whether to wait; otherwise the offsets are what is committed now, whatever is open.
    :param timeout: seconds for one question.
    """

    def __init__(self, config: Mapping[str, str], *, group_id: str, stable: bool = True, timeout: float = 30.0) -> None:
        # A read_committed consumer asks for stable offsets (KIP-447).
        isolation = "read_committed" if stable else "read_uncommitted"
        self._config = {**cluster_properties(config), "group.id": group_id, "isolation.level": isolation}
        self._group_id = group_id
        self._timeout = timeout

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        """See :meth:`Witness.committed`.

        A client for each question, of which there are few: it is ended here, so that no callback can outlive it.

        :raises KafkaUnreachable: no stable answer in time. :raises AuthenticationFailed: the credentials were refused.
        :raises AuthorizationFailed: READ is missing on the group, or DESCRIBE on a topic.
        """
        wanted = [ClientPartition(topic, partition) for topic, partition in partitions]
        if not wanted:
            return {}
        errors: list[KafkaError] = []
        consumer = Consumer({**self._config, "error_cb": errors.append})
        try:
            return self._ask(consumer, wanted, errors)
        finally:
            consumer.close()

    def _ask(
        self, consumer: Consumer, wanted: list[ClientPartition], errors: list[KafkaError]
    ) -> dict[TopicPartition, GroupOffset]:
        deadline = Deadline.after(self._timeout)
        while True:
            try:
                return _offsets(consumer.committed(wanted, timeout=deadline.bound(_REQUEST_SECONDS)))
            except KafkaException as error:
                problem: KafkaError = error.args[0]
                refused = _refusal(consumer, errors)
                if refused is not None or problem.code() not in _MAY_PASS:
                    raise self._translated(refused or problem) from error
                if deadline.expired:
                    msg = (
                        f"the committed offsets of group {self._group_id} were not stable or not to be had within "
                        f"{self._timeout:.0f} s: {problem.str()}"
                    )
                    raise KafkaUnreachable(msg) from error
            # Some of these answers come at once; what they wait for is other brokers' doing.
            time.sleep(deadline.bound(_PAUSE))

    def _translated(self, error: KafkaError) -> KafkaSparkJobError:
        return error_for(error, f"reading the committed offsets of group {self._group_id}")


def _refusal(consumer: Consumer, errors: list[KafkaError]) -> KafkaError | None:
    """What the client tells on its own account while it tries again: credentials by callback, ACLs as a message."""
    message = consumer.poll(0)
    if message is not None and message.error() is not None:
        errors.append(message.error())
    return next((one for one in errors if MEANING.get(one.code()) in {AuthenticationFailed, AuthorizationFailed}), None)


def _offsets(found: list[ClientPartition]) -> dict[TopicPartition, GroupOffset]:
    offsets = {}
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
        if one.offset >= 0:
            offsets[TopicPartition(one.topic, one.partition)] = GroupOffset(one.offset, one.metadata or "")
    return offsets
