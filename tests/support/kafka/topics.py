"""Topics for tests, on brokers that may be out of service for a moment, as they are when the machine is busy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.errors import NO_ANSWER

_SECONDS = 90.0
_REQUEST_SECONDS = 60.0
_PASSING = NO_ANSWER | {
    KafkaError._ALL_BROKERS_DOWN, KafkaError.NOT_CONTROLLER, KafkaError.BROKER_NOT_AVAILABLE,
    # Fewer brokers than copies are in service, or none is.
    KafkaError.INVALID_REPLICATION_FACTOR,
}  # fmt: skip


def create_topics(bootstrap: str, *topics: NewTopic, **login: str) -> None:
    """Makes them, where they are not there yet, and waits until the leader of each partition answers.

    Before that a leader refuses the first records, and a producer gives them up or changes their order.

    Each try has a client of its own: the previous client may know no broker any more (librdkafka's issue 5301).

    :param login: librdkafka's properties of a broker that asks who it is.
    """
    deadline = Deadline.after(_SECONDS)
    left = list(topics)
    while left:
        admin = AdminClient({"bootstrap.servers": bootstrap, **login})
        asked = admin.create_topics(left, request_timeout=_REQUEST_SECONDS)
        left = [each for each in left if not _is_made(asked[each.topic], deadline)]
        if left:
            time.sleep(0.2)
    _await_leaders(admin, topics, deadline)


def _await_leaders(admin: AdminClient, topics: Sequence[NewTopic], deadline: Deadline) -> None:
    left = {ClientPartition(each.topic, number) for each in topics for number in range(each.num_partitions)}
    while left:
        asked = admin.list_offsets(dict.fromkeys(left, OffsetSpec.latest()), request_timeout=_REQUEST_SECONDS)
        left = {partition for partition, answer in asked.items() if answer.exception() is not None}
        assert not (left and deadline.expired), f"partitions without a leader: {left}"
        if left:
            time.sleep(0.05)


def _is_made(answer: Future[None], deadline: Deadline) -> bool:
    try:
        answer.result()
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return True
        if code not in _PASSING or deadline.expired:
            raise
        return False
    return True
