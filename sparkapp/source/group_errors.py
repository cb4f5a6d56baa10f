"""What each error of a group's coordinator means for a member: one table, by name (seed 004's response handlers)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from confluent_kafka import KafkaError


class Reaction(StrEnum):
    """What follows an error."""

    FAIL = "fail"
    """The attempt ends with the error's exception and remedy."""
    REJOIN = "rejoin"
    """The client joins the group again by itself and says what was lost; a commit counts as failed."""
    RETRY = "retry"
    """A commit is tried again while its partitions are ours; else the client goes on by itself."""
    COUNT = "count"
    """A commit counts as failed and the next checkpoint commits further; else it is logged."""


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
"""Codes are Kafka's own where they are positive, librdkafka's where they are negative."""


def reaction_to(error: KafkaError) -> Reaction:
    """The reaction to an error of a poll, a callback or a commit; what the client calls fatal ends the attempt."""
    if error.fatal() or error.code() == KafkaError._FATAL:
        return Reaction.FAIL
    return REACTIONS.get(error.code(), Reaction.COUNT)


def cause_of(error: KafkaError) -> KafkaError:
    """The error itself, or what a fatal one was raised for: a consumer is told ``_FATAL``, with the cause in words."""
    if error.code() != KafkaError._FATAL:
        return error
    causes = (code for code, reaction in REACTIONS.items() if reaction is Reaction.FAIL)
    code = next((code for code in causes if KafkaError(code).str() in error.str()), KafkaError._FATAL)
    return KafkaError(code, error.str(), fatal=True)
