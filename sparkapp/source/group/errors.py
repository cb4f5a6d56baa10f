"""The reaction of a member to each error of its group coordinator (Kafka's ConsumerCoordinator response handlers)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from confluent_kafka import KafkaError


class Reaction(StrEnum):
    """Reactions to an error."""

    FAIL = "fail"
    """The attempt ends with the error's exception and remedy."""
    REJOIN = "rejoin"
    """The client rejoins the group by itself and reports lost partitions; a commit counts as failed."""
    RETRY = "retry"
    """A commit is retried while its partitions are assigned; otherwise the client recovers by itself."""
    COUNT = "count"
    """A commit counts as failed, and the next checkpoint commits later offsets; any other error is logged."""


REACTIONS: Mapping[int, Reaction] = {
    KafkaError.FENCED_INSTANCE_ID: Reaction.FAIL,
    KafkaError.GROUP_AUTHORIZATION_FAILED: Reaction.FAIL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Reaction.FAIL,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: Reaction.FAIL,
    KafkaError.INVALID_SESSION_TIMEOUT: Reaction.FAIL,
    KafkaError.GROUP_MAX_SIZE_REACHED: Reaction.FAIL,
    KafkaError.INVALID_GROUP_ID: Reaction.FAIL,
    KafkaError._AUTHENTICATION: Reaction.FAIL,
    KafkaError.SASL_AUTHENTICATION_FAILED: Reaction.FAIL,
    KafkaError.UNKNOWN_MEMBER_ID: Reaction.REJOIN,
    KafkaError.ILLEGAL_GENERATION: Reaction.REJOIN,
    KafkaError._ASSIGNMENT_LOST: Reaction.REJOIN,
    KafkaError._MAX_POLL_EXCEEDED: Reaction.REJOIN,
    KafkaError.REBALANCE_IN_PROGRESS: Reaction.RETRY,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    KafkaError.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY,
    KafkaError.NOT_COORDINATOR: Reaction.RETRY,
    KafkaError._WAIT_COORD: Reaction.RETRY,
    KafkaError._TRANSPORT: Reaction.RETRY,
    KafkaError._ALL_BROKERS_DOWN: Reaction.RETRY,
    KafkaError._TIMED_OUT: Reaction.RETRY,
    KafkaError.REQUEST_TIMED_OUT: Reaction.RETRY,
}
"""Positive codes are Kafka's, negative codes librdkafka's."""


def reaction_to(error: KafkaError) -> Reaction:
    """The reaction to an error of a poll, a callback or a commit; a fatal error of the client ends the attempt."""
    if error.fatal() or error.code() == KafkaError._FATAL:
        return Reaction.FAIL
    return REACTIONS.get(error.code(), Reaction.COUNT)


def cause_of(error: KafkaError) -> KafkaError:
    """The error itself, or the cause of a fatal error: a consumer receives ``_FATAL`` with the cause in its text."""
    if error.code() != KafkaError._FATAL:
        return error
    causes = (code for code, reaction in REACTIONS.items() if reaction is Reaction.FAIL)
    code = next((code for code in causes if KafkaError(code).str() in error.str()), KafkaError._FATAL)
    return KafkaError(code, error.str(), fatal=True)
