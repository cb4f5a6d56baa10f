"""A job as the driver runs it: the resource's spec with every default filled in, bound to one attempt.

The operator reads it from the resource (``model.job_resource``), checks what CEL cannot (``model.job_rules``) and
renders it into an immutable ConfigMap (``model.job_codec``); the driver reads it back.

The defaults here are what a field means that another release's operator does not write: a new field has one, and none
ever changes. The resource's own defaults are ``model.job_resource``'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sparkapp.model.group_membership import MembershipOptions
from sparkapp.model.partition import TopicPartition
from sparkapp.model.positions import Startup, Stopping
from sparkapp.model.record_errors import RecordErrors
from sparkapp.model.registry_access import RegistryAccess
from sparkapp.model.retention import Restore, Retention
from sparkapp.model.semantic import OffsetCommit, Semantic
from sparkapp.model.sink_routing import Partitioner, TopicFrom
from sparkapp.model.transaction_naming import TransactionNaming


class Format(StrEnum):
    """How key or value bytes appear to the transform."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    """This and avro in Confluent's wire format: a zero byte, the id of a schema in the registry, the record."""


class OutputMode(StrEnum):
    """What a transform with an aggregation writes: final rows, or every change. Without one both are the same."""

    APPEND = "append"
    UPDATE = "update"


class OnTopicDeleted(StrEnum):
    """What a job does when a topic or partition that it reads is gone."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class DataLossPolicy(StrEnum):
    """What a job does when records that it has not read are gone: by retention, or with a topic made anew (S40)."""

    FAIL = "Fail"
    SKIP_TO_AVAILABLE = "SkipToAvailable"


class LostTransactionPolicy(StrEnum):
    """What a start does when a transaction of the document is proven lost (P11, C07); nothing of it is visible then."""

    REPLAY = "Replay"
    FAIL = "Fail"


class TransactionTimeout(StrEnum):
    """Which limit the brokers set to an open transaction."""

    SECONDS = "Seconds"
    """They abort it after ``sink.transactionTimeoutSeconds``."""
    NEVER = "Never"
    """They never abort it."""


NEVER_MILLIS = 2**31 - 1
"""The ``transaction.timeout.ms`` that transaction coordinators take for no limit (KIP-939, ``TransactionMetadata``)."""


class IsolationLevel(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class AuthenticationType(StrEnum):
    PLAIN = "plain"
    SCRAM_SHA_256 = "scram-sha-256"
    SCRAM_SHA_512 = "scram-sha-512"


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """SASL credentials; the password is a key of a Secret, mounted, never copied."""

    type: AuthenticationType
    username: str
    secret_name: str
    secret_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """The cluster of source and sink.

    :param cluster_id: the only cluster that the job may run on, by Kafka's id; empty for the checkpoint's.
    """

    bootstrap_servers: str
    authentication: Authentication | None = None
    cluster_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is read. Exactly one of ``topics``, ``topic_pattern`` and ``partitions`` is set.

    :param discovery_interval_seconds: at most 0 discovers once, at a start.
    :param max_rate_per_partition: records a second of one partition; 0 is no limit.
    :param max_records_per_split: a partition with more in one checkpoint is read by several subtasks; 0 is no limit.
    :param max_drift_seconds: of record time, between partitions; 0 is no limit.
    """

    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    group_id: str
    startup: Startup = field(default_factory=Startup)
    stopping: Stopping = field(default_factory=Stopping)
    discovery_interval_seconds: int = 300
    on_topic_deleted: OnTopicDeleted = OnTopicDeleted.FAIL
    data_loss_policy: DataLossPolicy = DataLossPolicy.FAIL
    offset_commit: OffsetCommit = OffsetCommit.IN_TRANSACTION
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    max_offsets_per_checkpoint: int = 1_000_000
    max_rate_per_partition: int = 0
    max_records_per_split: int = 0
    max_drift_seconds: int = 0
    key_format: Format = Format.RAW
    value_format: Format = Format.RAW
    key_schema: str = ""
    value_schema: str = ""
    schema_registry: RegistryAccess | None = None
    """Set with avro and protobuf and only there."""
    group_membership: MembershipOptions = field(default_factory=MembershipOptions)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """At most one of ``function`` and ``sql``; neither passes records through.

    :param function: ``module:function``, a Python function DataFrame -> DataFrame.
    :param config_map: ConfigMap whose keys are the module files; empty means that the image has the module.
    :param sql: a query over the view ``source``.
    """

    function: str = ""
    config_map: str = ""
    sql: str = ""
    output_mode: OutputMode = OutputMode.APPEND


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where the result goes.

    :param topic: of every record; with :attr:`TopicFrom.COLUMN` of none, but it has to exist all the same.
    """

    topic: str
    topic_from: TopicFrom = TopicFrom.SPEC
    partitioner: Partitioner = Partitioner.KEY
    semantic: Semantic = Semantic.EXACTLY_ONCE
    transactional_id_prefix: str
    transaction_naming: TransactionNaming = TransactionNaming.HINT
    lost_transaction_policy: LostTransactionPolicy = LostTransactionPolicy.REPLAY
    producers_pool_size: int = 5
    transaction_timeout: TransactionTimeout = TransactionTimeout.SECONDS
    transaction_timeout_seconds: int = 900
    """Without effect where :attr:`transaction_timeout` is NEVER."""
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def transaction_timeout_millis(self) -> int:
        """``transaction.timeout.ms`` of the job's producers."""
        if self.transaction_timeout is TransactionTimeout.NEVER:
            return NEVER_MILLIS
        return self.transaction_timeout_seconds * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The whole job, defaults filled in."""

    kafka: KafkaCluster
    source: Source
    transform: Transform
    sink: Sink
    parallelism: int = 1
    checkpoint_interval_seconds: int = 10
    retention: Retention = field(default_factory=Retention)
    restore: Restore = field(default_factory=Restore)
    record_errors: RecordErrors = field(default_factory=RecordErrors)
    state_claim: str = ""
    """Persistent volume claim for operators' state; a transform that keeps state needs one."""
    metrics_port: int = 0
    """TCP port of the driver's Prometheus endpoint; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of a job: who it is, which life, and what to do."""

    namespace: str
    name: str
    uid: str
    generation: int
    attempt: int
    spec: JobSpec


def dead_letter_topics(spec: JobSpec) -> tuple[str, ...]:
    """The dead letter topic, if there is one."""
    topic = spec.record_errors.dead_letter_topic
    return (topic,) if topic else ()
