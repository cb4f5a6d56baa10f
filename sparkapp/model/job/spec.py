"""A job as the driver runs it: the resource's spec with every default filled in, bound to one attempt.

The operator reads it from the resource (``model.job.spec_from_resource``), checks it (``model.job.rules``) and renders
it into an immutable ConfigMap (``model.job.codec``). The driver reads it back.

A field's name, type, default and metadata also say where the resource has it (``model.encoding.resource``). The
defaults are the meaning of a description of another release: a new field has one, and none ever changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import at
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.access.registry_access import RegistryAccess, registry_access_from
from sparkapp.model.job.access.security import Authentication, Tls, tls_from
from sparkapp.model.job.group_membership import MembershipOptions
from sparkapp.model.job.record_errors import RecordErrors
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.retention import Restore, Retention
from sparkapp.model.job.startup import Startup, Stopping, partitions_from, startup_from, stopping_from
from sparkapp.model.partition import TopicPartition


class Engine(StrEnum):
    """What runs the job's checkpoints."""

    AUTO = "Auto"
    """Continuous where it can run the job, else MicroBatch (``rules.engine_rules.chosen_engine``)."""
    MICRO_BATCH = "MicroBatch"
    """A Spark job for each checkpoint, with any transform."""
    CONTINUOUS = "Continuous"
    """Long-lived subtasks, for pipelines with an Arrow function or without a transform."""


class OutputMode(StrEnum):
    """The output of an aggregation: final rows, or every change. Without an aggregation both are the same."""

    APPEND = "append"
    UPDATE = "update"


class OnTopicDeleted(StrEnum):
    """The reaction to a deleted topic or partition that the job reads."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class OnDataLoss(StrEnum):
    """The reaction to deleted records that the job has not read: by retention, or with a recreated topic (S40)."""

    FAIL = "Fail"
    SKIP_TO_AVAILABLE = "SkipToAvailable"


class OnTransactionLost(StrEnum):
    """The reaction of a start to a transaction of the document that is proven lost (P11, C07)."""

    REPLAY = "Replay"
    FAIL = "Fail"


NEVER_MILLIS = 2**31 - 1
"""The ``transaction.timeout.ms`` that transaction coordinators take for no limit (KIP-939, ``TransactionMetadata``)."""


class Partitioner(StrEnum):
    """The choice of a record's sink partition."""

    KEY = "Key"
    """The key's murmur2 hash, as in Java's clients, so that producers agree; any partition where there is no key."""
    SOURCE_PARTITION = "SourcePartition"
    """The source partition modulo the sink topic's number of partitions, which keeps the order of each partition."""
    ROUND_ROBIN = "RoundRobin"
    """Each partition after the other, whatever the key is."""


class TopicFrom(StrEnum):
    """The place of the name of a record's sink topic."""

    SPEC = "Spec"
    """``sink.topic``. A column ``topic`` of the result is ignored."""
    COLUMN = "Column"
    """The result's column ``topic``, as in Spark's own Kafka sink."""


class IsolationLevel(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """The cluster of source and sink. It must be ``cluster_id``, by Kafka's id; empty for the checkpoint's."""

    bootstrap_servers: str
    tls: Tls | None = field(default=None, metadata=at(reader=tls_from))
    authentication: Authentication | None = None
    cluster_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The records that are read. Exactly one of ``topics``, ``topic_pattern`` and ``partitions`` is set.

    :param discovery_interval_seconds: at most 0 discovers once, at a start.
    :param max_rate_per_partition: records a second of a partition; 0 is no limit.
    :param max_records_per_split: a partition with more in one checkpoint is read by several subtasks; 0 is no limit.
    :param max_drift_seconds: of record time, between partitions; 0 is no limit.
    :param max_out_of_orderness_seconds: of record time, within a partition; None for a job without watermarks.
    :param idle_timeout_seconds: without records, after which a partition does not hold watermarks back; 0 for never.
    :param schema_registry: set with registered formats, and only there.
    """

    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    partitions: tuple[TopicPartition, ...] = field(default=(), metadata=at(reader=partitions_from))
    group_id: str = field(metadata=at(absent=""))
    startup: Startup = field(default_factory=Startup, metadata=at(reader=startup_from))
    stopping: Stopping = field(default_factory=Stopping, metadata=at(reader=stopping_from))
    discovery_interval_seconds: int = field(default=300, metadata=at(low=-1))
    on_topic_deleted: OnTopicDeleted = OnTopicDeleted.FAIL
    on_data_loss: OnDataLoss = OnDataLoss.FAIL
    offset_commit: OffsetCommit = OffsetCommit.IN_TRANSACTION
    isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED
    max_offsets_per_checkpoint: int = field(default=1_000_000, metadata=at("limits.maxOffsetsPerCheckpoint", low=1))
    max_rate_per_partition: int = field(default=0, metadata=at("limits.maxRatePerPartition", low=0))
    max_records_per_split: int = field(default=0, metadata=at("limits.maxRecordsPerSplit", low=0))
    max_drift_seconds: int = field(default=0, metadata=at("watermarkAlignment.maxDriftSeconds", low=0))
    max_out_of_orderness_seconds: int | None = field(
        default=None, metadata=at("watermarks.maxOutOfOrdernessSeconds", low=0)
    )
    idle_timeout_seconds: int = field(default=0, metadata=at("watermarks.idleTimeoutSeconds", low=0))
    key_format: Format = field(default=Format.RAW, metadata=at("format.key"))
    value_format: Format = field(default=Format.RAW, metadata=at("format.value"))
    key_schema: str = field(default="", metadata=at("format.keySchema"))
    value_schema: str = field(default="", metadata=at("format.valueSchema"))
    schema_registry: RegistryAccess | None = field(default=None, metadata=at(reader=registry_access_from))
    group_membership: MembershipOptions = field(default_factory=MembershipOptions)
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowTransform:
    """A function over Arrow batches; at most one of ``function`` and ``factory`` is set.

    :param function: ``module:function``, called with each batch, and with a context if it takes one.
    :param factory: ``module:factory``, called once per subtask without arguments. It returns the function.
    :param config_map: as in :class:`Transform`.
    """

    function: str = ""
    factory: str = ""
    config_map: str = field(default="", metadata=at("configMapRef.name", required=True))

    @property
    def name(self) -> str:
        """``module:function`` or ``module:factory``; empty without an Arrow function."""
        return self.function or self.factory


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """At most one of ``function``, ``arrow`` and ``sql``; none of them passes records through.

    :param function: ``module:function``, a Python function DataFrame -> DataFrame.
    :param config_map: ConfigMap whose keys are the module files; empty means that the image has the module.
    :param arrow: a Python function RecordBatch -> RecordBatch.
    :param sql: a query over the view ``source``.
    """

    function: str = field(default="", metadata=at("python.function", required=True))
    config_map: str = field(default="", metadata=at("python.configMapRef.name", required=True))
    arrow: ArrowTransform = field(default_factory=ArrowTransform)
    sql: str = field(default="", metadata=at("sql.query", required=True))
    output_mode: OutputMode = OutputMode.APPEND

    @property
    def passes_through(self) -> bool:
        """Whether records pass through unchanged."""
        return not (self.function or self.arrow.name or self.sql)

    @property
    def code(self) -> str:
        """The ConfigMap of the modules, whichever function it is for; empty where the image has them."""
        return self.config_map or self.arrow.config_map


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """The destination of the result, and its delivery guarantee.

    :param topic: of every record; with :attr:`TopicFrom.COLUMN` of none, but it has to exist all the same.
    :param transaction_timeout_seconds: age at which brokers abort an open transaction; 0 for never.
    """

    topic: str
    topic_from: TopicFrom = TopicFrom.SPEC
    partitioner: Partitioner = Partitioner.KEY
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    transactional_id_prefix: str = field(metadata=at("transactions.idPrefix", absent=""))
    transaction_naming: TransactionNaming = field(default=TransactionNaming.HINT, metadata=at("transactions.naming"))
    on_transaction_lost: OnTransactionLost = OnTransactionLost.REPLAY
    producers_pool_size: int = field(default=5, metadata=at("transactions.producersPoolSize", low=2))
    transaction_timeout_seconds: int = field(default=900, metadata=at("transactions.timeoutSeconds", low=0))
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def transactions_expire(self) -> bool:
        """False where brokers never abort an open transaction of the job."""
        return self.transaction_timeout_seconds > 0

    @property
    def transaction_timeout_millis(self) -> int:
        """``transaction.timeout.ms`` of the job's producers."""
        return self.transaction_timeout_seconds * 1000 if self.transactions_expire else NEVER_MILLIS


MIN_METRICS_PORT = 1024
"""Lower ports need a capability that the pods do not have."""


def _metrics_port_from(metrics: Fields, name: str) -> int:
    prometheus = metrics.child(name)
    port = prometheus.integer("port", 8090, low=MIN_METRICS_PORT)
    return port if prometheus.boolean("enabled", True) else 0


MIN_INTERVAL_MILLIS = 20
"""Each checkpoint opens a producer for each subtask and writes the document, which together take some 50 ms."""


def _millis_from(checkpoint: Fields, name: str) -> int:
    """:raises ConfigurationError: both units are used."""
    if checkpoint.has(name) and checkpoint.has("intervalSeconds"):
        msg = f"{checkpoint.path}: intervalSeconds and {name} exclude each other"
        raise ConfigurationError(msg, remedy=f"remove one of them from {checkpoint.path}")
    return checkpoint.integer(name, 0, low=MIN_INTERVAL_MILLIS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The whole job, defaults filled in.

    :param checkpoint_interval_millis: 0 for the other unit; read :attr:`checkpoint_interval`.
    :param commit_interval_millis: of a subtask's own transactions; 0 for the two-phase commit of all subtasks.
    :param state_claim: PersistentVolumeClaim for operators' state; a transform that keeps state needs one.
    :param metrics_port: TCP port of the driver's Prometheus endpoint; 0 for none.
    """

    kafka: KafkaCluster
    source: Source
    transform: Transform
    sink: Sink
    engine: Engine = Engine.MICRO_BATCH
    parallelism: int = field(default=1, metadata=at(low=1))
    checkpoint_interval_seconds: int = field(default=10, metadata=at("checkpoint.intervalSeconds", low=1))
    checkpoint_interval_millis: int = field(default=0, metadata=at("checkpoint.intervalMillis", reader=_millis_from))
    commit_interval_millis: int = field(default=0, metadata=at("checkpoint.commitIntervalMillis", low=0))
    retention: Retention = field(default_factory=Retention, metadata=at("checkpoint.retention"))
    restore: Restore = field(default_factory=Restore)
    record_errors: RecordErrors = field(default_factory=RecordErrors, metadata=at("."))
    state_claim: str = field(default="", metadata=at("checkpoint.stateVolume.claimName", required=True))
    metrics_port: int = field(default=0, metadata=at("metrics.prometheus", reader=_metrics_port_from))

    @property
    def has_local_pace(self) -> bool:
        """Whether subtasks commit transactions of their own, of which checkpoints are records (ADR 56)."""
        return self.commit_interval_millis > 0

    @property
    def checkpoint_interval(self) -> float:
        """Seconds from a checkpoint to the next."""
        millis = self.checkpoint_interval_millis
        return millis / 1000 if millis else float(self.checkpoint_interval_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of a job: its resource by name, UID and generation, its number, and its spec.

    :param settles_only: the job is being deleted: the attempt settles its transactions and ends.
    :param record_limits: ``max.message.bytes`` of topics that it writes; the driver sets them for its tasks.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    attempt: int
    spec: JobSpec
    settles_only: bool = False
    record_limits: Mapping[str, int] = field(default_factory=dict)
