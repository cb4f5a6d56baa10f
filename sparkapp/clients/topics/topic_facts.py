"""What brokers say of topics by name: copies of their partitions, rights of the user, and settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType


class TopicFacts(NamedTuple):
    """A topic that exists.

    :param copies: replicas of each partition; empty where the user may not describe the topic.
    :param operations: that the user may do with it, by Kafka's names (``READ``, ``WRITE``); none where the user may not
        describe it. None where brokers do not tell.
    """

    copies: tuple[int, ...] = ()
    operations: frozenset[str] | None = frozenset()


def facts_of(topics: Iterable[str], client: AdminClient, seconds: float) -> dict[str, TopicFacts]:
    """Of the topics that exist; asked by the cluster view, by DescribeTopics.

    :raises KafkaException: no answer, or a refusal for another cause than a missing right.
    """
    found = {}
    names = TopicCollection(sorted(set(topics)))
    answers = client.describe_topics(names, include_authorized_operations=True, request_timeout=seconds)
    for name, answer in answers.items():
        try:
            topic = answer.result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                found[name] = TopicFacts()
            elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
        else:
            allowed = topic.authorized_operations
            found[name] = TopicFacts(
                copies=tuple(len(partition.replicas) for partition in topic.partitions),
                operations=None if allowed is None else frozenset(operation.name for operation in allowed),
            )
    return found


def settings_of(name: str, topics: Iterable[str], client: AdminClient, seconds: float) -> dict[str, str]:
    """A setting as it is in force for each topic: the topic's own value, or that of the cluster.

    Topics that do not exist and topics whose settings the user may not read are absent. Errors as in :func:`facts_of`.
    """
    found = {}
    resources = {ConfigResource(ResourceType.TOPIC, topic): topic for topic in sorted(set(topics))}
    answers = client.describe_configs(list(resources), request_timeout=seconds)
    for resource, topic in resources.items():
        try:
            entry = answers[resource].result().get(name)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise
        else:
            if entry is not None and entry.value is not None:
                found[topic] = str(entry.value)
    return found
