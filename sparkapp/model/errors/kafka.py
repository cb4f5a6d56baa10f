"""Errors of the brokers, of topics, and of the records in them."""

from __future__ import annotations

from typing import ClassVar

from sparkapp.model.errors.base import KAFKA_REACHABLE, KafkaSparkJobError


class KafkaAccessError(KafkaSparkJobError):
    """A broker, a topic or a group does not allow the job to work; the message has Kafka's error.

    The job restarts with backoff.
    """

    reason = "KafkaError"
    condition: ClassVar[str | None] = KAFKA_REACHABLE


class KafkaUnreachable(KafkaAccessError):
    """No broker of ``kafka.bootstrapServers`` answered in time."""

    reason = "KafkaUnreachable"
    default_remedy = "check spec.kafka.bootstrapServers, and that the pods can reach the brokers"


class AuthenticationFailed(KafkaAccessError):
    """The broker refused the credentials."""

    reason = "AuthenticationFailed"
    default_remedy = "check the username and the password's Secret in spec.kafka.authentication"


class TlsFailed(KafkaAccessError):
    """TLS with a broker failed: its certificate, its host name, the job's certificate, or a listener without TLS.

    The message has the cause.
    """

    reason = "TlsFailed"
    default_remedy = (
        "check spec.kafka.tls.trustedCertificates, and that the broker's certificate is valid for the host name in"
        " spec.kafka.bootstrapServers: openssl s_client -connect BROKERS -showcerts"
    )


class AuthorizationFailed(KafkaAccessError):
    """The broker accepts the user, but an ACL is missing."""

    reason = "AuthorizationFailed"
    default_remedy = (
        "grant READ on the source topics and the group, and WRITE on the sink topic and the transactional id prefix"
    )


class TopicNotFound(KafkaAccessError):
    """A topic of the job does not exist, or a pattern matches no topic; a job creates no topic.

    The message says whether it is a topic of source, sink or dead letters. It may come from the column ``topic`` of the
    transform.
    """

    reason = "TopicNotFound"
    default_remedy = "create the topic, or correct spec.source or spec.sink"


class TransactionTimeoutTooLong(KafkaAccessError):
    """``sink.transactions.timeoutSeconds`` exceeds the broker's ``transaction.max.timeout.ms``.

    A broker takes another maximum from ``server.properties`` and at its start. 0 needs a maximum of 2147483647.
    """

    reason = "TransactionTimeoutTooLong"
    fatal = True
    default_remedy = "lower spec.sink.transactions.timeoutSeconds, or raise transaction.max.timeout.ms on the brokers"


class LeaderUnavailable(KafkaAccessError):
    """A partition's leader gave no answer for 20 s: an election, or too few replicas in sync.

    Or a partition seems to end before its offset, and the brokers do not agree on its leader.
    """

    reason = "LeaderUnavailable"
    default_remedy = (
        "check the partition's leader and replicas: kafka-topics.sh --bootstrap-server BROKERS --describe"
        " --under-min-isr-partitions (or --unavailable-partitions); the job retries by itself"
    )


class GroupInUse(KafkaAccessError):
    """``source.groupId`` has active members: Kafka then accepts offsets from members only (GroupMetadataManager)."""

    reason = "GroupInUse"
    default_remedy = (
        "stop the group's other consumers (kafka-consumer-groups.sh --bootstrap-server BROKERS --describe --group GROUP"
        " --members lists them), or set spec.source.groupId to a group that only this job uses"
    )


class ReadTimedOut(KafkaAccessError):
    """A bounded read made no progress within its deadline; nothing of it is committed."""

    reason = "ReadTimedOut"
    condition = None
    default_remedy = "check the brokers that lead the partition; the job reads the range again after the restart"


class ListingUnsupported(KafkaAccessError):
    """The brokers do not support ListTransactions; the job checks each transactional id instead."""

    reason = "ListingUnsupported"
    condition = None


class UndefinedOffset(KafkaAccessError):
    """The group has no committed offset and ``onMissingOffset`` is Fail (case S23)."""

    reason = "UndefinedOffset"
    fatal = True
    condition = None
    default_remedy = "set spec.source.startup.onMissingOffset to Earliest or Latest, or commit offsets for the group"


class OffsetsWentBackwards(KafkaAccessError):
    """A partition ends before the restored offset, or begins behind it (case S40).

    The topic was recreated, records were lost, or retention has deleted them.
    """

    reason = "OffsetsWentBackwards"
    fatal = True
    condition = None
    default_remedy = (
        "check whether the topic was recreated, or whether retention deleted unread records."
        " Then set spec.source.onDataLoss to SkipToAvailable to resume at the first available record,"
        " or create a job with a new name to start from spec.source.startup"
    )


class TopicRecreated(OffsetsWentBackwards):
    """A topic has another id than in the checkpoint: it was deleted and created again under its name (KIP-516)."""

    reason = "TopicRecreated"
    fatal = True
    default_remedy = (
        "to read the new topic from its beginning: kubectl patch ksj NAME -n NAMESPACE --type merge -p"
        ' \'{"spec":{"source":{"onDataLoss":"SkipToAvailable"}}}\''
    )


class OffsetsOvertaken(OffsetsWentBackwards):
    """Records between a plan and its read are gone, under ``onDataLoss: SkipToAvailable``: the next attempt skips them.

    Or a reader says so, and the brokers do not confirm it: the next attempt asks again.
    """

    fatal = False
    default_remedy = (
        "raise the topic's retention.ms or retention.bytes to lose no more records; the job resumes by itself at the"
        " first available record"
    )
