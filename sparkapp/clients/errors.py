"""Error codes of Kafka and librdkafka: one table of their exceptions, for all clients.

Codes are librdkafka's numbers, which are confluent_kafka's too: Kafka's own errors are positive and equal the
protocol's, the client's are negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
    RecordRefused,
    SessionTimeoutRefused,
    TlsFailed,
    TopicNotFound,
    TransactionFenced,
    TransactionTimeoutTooLong,
)
from sparkapp.model.errors.refusal import Cause, RefusedRecord

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
    KafkaError.INVALID_RECORD: PreCommitFailed,
    KafkaError._MSG_TIMED_OUT: PreCommitFailed,
    KafkaError._PURGE_QUEUE: PreCommitFailed,
    KafkaError._PURGE_INFLIGHT: PreCommitFailed,
}
"""The exception of a code; any other code is a plain :class:`KafkaAccessError`."""

CAUSE: Mapping[int, Cause] = {
    KafkaError.MSG_SIZE_TOO_LARGE: Cause.SIZE,
    KafkaError.INVALID_MSG_SIZE: Cause.SIZE,
    KafkaError.INVALID_RECORD: Cause.OTHER,
    KafkaError.INVALID_TIMESTAMP: Cause.TIME,
}
"""Codes that refuse a record for its content. Every try of the record is refused."""

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
    return kind(f"{doing}: {text or error.str()} ({error.name()})")


def refused_by_client(code: int, doing: str, record: RefusedRecord, *, limit: int, brokers: str) -> RecordRefused:
    """The exception for a record that the client does not take, with a code of :data:`CAUSE`.

    :param limit: the client's ``message.max.bytes``. :param brokers: as in :func:`refused_by_broker`.
    """
    larger = max(record.size, limit) + _OVERHEAD
    error = RecordRefused(
        f"{doing}: the client refuses a record of {record.size} bytes: its message.max.bytes is {limit}"
        f" ({KafkaError(code).name()})",
        remedy=f"raise max.message.bytes of topic {record.topic}: {_alter(brokers, record.topic)} --add-config"
        f" max.message.bytes={larger}. The client's limit follows it up to 64 MiB. Beyond that, or where it is set, set"
        f" message.max.bytes in spec.sink.properties to {larger}, too. Or have the transform write smaller records",
    )
    error.record = replace(record, cause=Cause.SIZE)
    return error


def refused_by_broker(code: int, text: str, doing: str, record: RefusedRecord, *, brokers: str) -> RecordRefused:
    """The exception for a record that a broker does not take, with a code of :data:`CAUSE`.

    :param text: the client's, which names topic and partition of the sink.
    :param brokers: ``bootstrap.servers``, for the commands of the remedy.
    """
    cause = CAUSE[code]
    if code == KafkaError.INVALID_RECORD and record.key_size < 0:
        cause = Cause.KEY
    what, remedy = _refusal(cause, record, brokers)
    error = RecordRefused(f"{doing}: {text} ({KafkaError(code).name()}): the broker refuses {what}", remedy=remedy)
    error.record = replace(record, cause=cause)
    return error


_OVERHEAD = 1024
"""Bytes of a record batch without keys, values and headers."""


def _alter(brokers: str, topic: str) -> str:
    return f"kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics --entity-name {topic}"


def _refusal(cause: Cause, record: RefusedRecord, brokers: str) -> tuple[str, str]:
    topic = record.topic
    alter = _alter(brokers, topic)
    if cause is Cause.SIZE:
        return (
            f"a batch whose largest record has {record.size} bytes",
            f"raise max.message.bytes of topic {topic}: {alter} --add-config max.message.bytes="
            f"{record.size + _OVERHEAD}. Where it is that large already, set batch.size in spec.sink.properties below"
            " it. Or set compression.type there, or have the transform write smaller records; the job then resumes",
        )
    if cause is Cause.KEY:
        return (
            "a record that has no key, as a topic with cleanup.policy compact does",
            "return a key for every record in spec.transform, or write to a topic that is not compacted:"
            f" {alter} --add-config cleanup.policy=delete",
        )
    if cause is Cause.TIME:
        # A record without its own time has that of the writer's clock; brokers refuse times of the future.
        return (
            "a record for its time",
            f"raise message.timestamp.before.max.ms of topic {topic} for records of the past: {alter} --add-config"
            " message.timestamp.before.max.ms=9223372036854775807. For records of the future correct the clock of the"
            " executors' nodes (timedatectl) or raise message.timestamp.after.max.ms. Or correct the column timestamp"
            " of the transform",
        )
    return "a record as invalid", f"read the log of the brokers, which has the reason, about topic {topic}"
