"""Error codes of Kafka and librdkafka: one table of their exceptions, for all clients.

Codes are librdkafka's numbers, which are confluent_kafka's too: Kafka's own errors are positive and equal the
protocol's, the client's are negative.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from sparkapp.model.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    GroupFull,
    GroupInUse,
    GroupMemberFenced,
    GroupProtocolMismatch,
    KafkaAccessError,
    KafkaSparkJobError,
    KafkaUnreachable,
    LeaderUnavailable,
    OffsetsWentBackwards,
    PreCommitFailed,
    SessionTimeoutRefused,
    TlsFailed,
    TopicNotFound,
    TransactionFenced,
    TransactionTimeoutTooLong,
)

MEANING: Mapping[int, type[KafkaSparkJobError]] = {
    KafkaError._AUTHENTICATION: AuthenticationFailed,
    KafkaError.SASL_AUTHENTICATION_FAILED: AuthenticationFailed,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: AuthenticationFailed,
    KafkaError.ILLEGAL_SASL_STATE: AuthenticationFailed,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: AuthorizationFailed,
    KafkaError.GROUP_AUTHORIZATION_FAILED: AuthorizationFailed,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: AuthorizationFailed,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationFailed,
    KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationFailed,
    KafkaError.UNKNOWN_TOPIC_OR_PART: TopicNotFound,
    KafkaError.UNKNOWN_TOPIC_ID: TopicNotFound,
    KafkaError._UNKNOWN_TOPIC: TopicNotFound,
    KafkaError._UNKNOWN_PARTITION: TopicNotFound,
    KafkaError._ALL_BROKERS_DOWN: KafkaUnreachable,
    KafkaError._TRANSPORT: KafkaUnreachable,
    KafkaError._DESTROY_BROKER: KafkaUnreachable,
    KafkaError._RESOLVE: KafkaUnreachable,
    KafkaError._SSL: KafkaUnreachable,  # also what a broker's restart looks like in the middle of a handshake
    KafkaError._TIMED_OUT: KafkaUnreachable,
    KafkaError._TIMED_OUT_QUEUE: KafkaUnreachable,
    KafkaError.REQUEST_TIMED_OUT: KafkaUnreachable,
    KafkaError._FENCED: TransactionFenced,
    KafkaError.PRODUCER_FENCED: TransactionFenced,
    KafkaError.INVALID_PRODUCER_EPOCH: TransactionFenced,
    KafkaError.INVALID_PRODUCER_ID_MAPPING: TransactionFenced,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: TransactionTimeoutTooLong,
    KafkaError.LEADER_NOT_AVAILABLE: LeaderUnavailable,
    KafkaError.NOT_LEADER_FOR_PARTITION: LeaderUnavailable,
    KafkaError.FENCED_LEADER_EPOCH: LeaderUnavailable,
    KafkaError.UNKNOWN_LEADER_EPOCH: LeaderUnavailable,
    KafkaError.OFFSET_NOT_AVAILABLE: LeaderUnavailable,
    KafkaError.KAFKA_STORAGE_ERROR: LeaderUnavailable,
    KafkaError.REPLICA_NOT_AVAILABLE: LeaderUnavailable,
    KafkaError.UNKNOWN_MEMBER_ID: GroupInUse,
    KafkaError.ILLEGAL_GENERATION: GroupInUse,
    KafkaError.REBALANCE_IN_PROGRESS: GroupInUse,
    KafkaError.FENCED_INSTANCE_ID: GroupMemberFenced,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: GroupProtocolMismatch,
    KafkaError.GROUP_MAX_SIZE_REACHED: GroupFull,
    KafkaError.INVALID_SESSION_TIMEOUT: SessionTimeoutRefused,
    KafkaError.OFFSET_OUT_OF_RANGE: OffsetsWentBackwards,
    KafkaError._AUTO_OFFSET_RESET: OffsetsWentBackwards,
    KafkaError._LOG_TRUNCATION: OffsetsWentBackwards,
    KafkaError.INVALID_TIMESTAMP: PreCommitFailed,
    KafkaError.MSG_SIZE_TOO_LARGE: PreCommitFailed,
    KafkaError.INVALID_MSG_SIZE: PreCommitFailed,
    KafkaError._MSG_TIMED_OUT: PreCommitFailed,
    KafkaError._PURGE_QUEUE: PreCommitFailed,
    KafkaError._PURGE_INFLIGHT: PreCommitFailed,
}
"""The exception of a code; any other code is a plain :class:`KafkaAccessError`."""

_REMEDIES: Mapping[int, str] = {
    # A record without its own time has that of the writer's clock; brokers refuse times of the future.
    KafkaError.INVALID_TIMESTAMP: (
        "correct the clock of the executors' nodes (timedatectl), or the column timestamp of the transform;"
        " or raise message.timestamp.after.max.ms of the sink topic"
    ),
}
"""Remedies of codes that the default remedy of their exception does not solve."""

_UNTRUSTED = "certificate verify failed"
"""The part of librdkafka's text for ``_SSL`` that a broker's restart does not explain."""

RETRIED = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._NODE_UPDATE,
        KafkaError._DESTROY_BROKER,
    }
)
"""Codes after which librdkafka retries by itself: they matter only as the last error before a deadline."""

NO_ANSWER = frozenset(
    # _NOENT: librdkafka has found no leader at all, as in an election or with a fenced broker. _DESTROY_BROKER: the
    # broker has left the metadata meanwhile.
    {
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._NOENT,
        KafkaError._DESTROY_BROKER,
    }
)
"""The broker that was asked does not answer; another may."""

COORDINATOR_MOVES = frozenset(
    {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR}
)
"""A group's coordinator moves to another broker, or the group is new: a retry succeeds."""

LEADER_MOVES = frozenset(code for code, kind in MEANING.items() if kind is LeaderUnavailable)
"""A partition's leader moves to another broker, or does not know its end yet: a retry succeeds."""

GROUP_IN_USE = frozenset(code for code, kind in MEANING.items() if kind is GroupInUse)
"""Answers to a commit from outside a group that has members."""

OUT_OF_REACH = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._SSL})
"""Retried codes that prove by themselves that no broker is reachable."""


def error_for(error: KafkaError, doing: str) -> KafkaSparkJobError:
    """The exception to raise for a confluent_kafka error.

    :param doing: what failed, as the beginning of the message ("reading orders-3 at 17").
    """
    return error_of(error.code(), error.str(), doing)


def error_of(code: int, text: str, doing: str) -> KafkaSparkJobError:
    """:func:`error_for` for librdkafka's number and text."""
    error = KafkaError(code)
    refused = code == KafkaError._SSL and _UNTRUSTED in text
    kind = TlsFailed if refused else MEANING.get(code, KafkaAccessError)
    return kind(f"{doing}: {text or error.str()} ({error.name()})", remedy=_REMEDIES.get(code))
