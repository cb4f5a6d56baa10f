"""A job as the driver runs it: the resource's spec with every default filled in, bound to one attempt.

The operator renders it from the custom resource (:func:`job_from_resource`) into an immutable ConfigMap
(:func:`encode_job`); the driver reads it back (:func:`decode_job`). The same checks run in both, beyond what the CRD's
CEL rules say, for a CRD may be older than the operator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from sparkapp.model import names
from sparkapp.model.errors import ConfigurationError, InvalidArgument
from sparkapp.model.fields import Fields
from sparkapp.model.group_membership import (
    MembershipOptions,
    check_membership,
    decode_membership,
    membership_from,
    refused_property,
)
from sparkapp.model.partition import TopicPartition
from sparkapp.model.positions import (
    Startup,
    Stopping,
    decode_startup,
    decode_stopping,
    partitions_from,
    startup_from,
    stopping_from,
)
from sparkapp.model.record_errors import (
    RecordErrors,
    check_record_errors,
    record_errors_from_job,
    record_errors_from_resource,
)
from sparkapp.model.semantic import OffsetCommit, Semantic
from sparkapp.model.transactional_id import check_prefix

DENIED_PROPERTIES = frozenset(
    {
        "bootstrap.servers", "group.id", "client.id", "transactional.id", "transaction.timeout.ms",
        "enable.idempotence",
        "enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "isolation.level", "acks",
        "enable.partition.eof", "max.in.flight.requests.per.connection", "plugin.library.paths",
        "sasl.username", "sasl.password", "sasl.mechanism", "sasl.mechanisms", "security.protocol", "sasl.jaas.config",
        "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config",
    }
)  # fmt: skip
"""Client properties that the job sets itself, or that would carry a secret into the resource."""

DEFAULT_METRICS_PORT = 8090
MIN_METRICS_PORT = 1024
"""Lower ones need a capability that the pods do not have."""
MAX_PORT = 65535

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_REGISTRY = re.compile(r"https?://[^\s/@?#]+(/[^\s@?#]*)?")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


class Format(StrEnum):
    """How key or value bytes appear to the transform."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    """This and avro in Confluent's wire format: a zero byte, the id of a schema in the registry, the record."""


_REGISTERED = frozenset({Format.AVRO, Format.PROTOBUF})


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
    bootstrap_servers: str
    authentication: Authentication | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is read. Exactly one of ``topics``, ``topic_pattern`` and ``partitions`` is set.

    :param discovery_interval_seconds: at most 0 discovers once, at a start.
    :param max_rate_per_partition: records a second of one partition; 0 is no limit.
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
    max_drift_seconds: int = 0
    key_format: Format = Format.RAW
    value_format: Format = Format.RAW
    key_schema: str = ""
    value_schema: str = ""
    schema_registry: str = ""
    """The registry's URL; set with avro and only there."""
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
    topic: str
    semantic: Semantic = Semantic.EXACTLY_ONCE
    transactional_id_prefix: str
    producers_pool_size: int = 5
    transaction_timeout_seconds: int = 900
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """The whole job, defaults filled in."""

    kafka: KafkaCluster
    source: Source
    transform: Transform
    sink: Sink
    parallelism: int = 1
    checkpoint_interval_seconds: int = 10
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


def spec_from_resource(spec: Mapping[str, Any], *, namespace: str, name: str) -> JobSpec:
    """Reads ``spec`` of a custom resource (camelCase), fills in defaults and checks what CEL cannot.

    Called by the operator on every change. Fields that only the operator needs (image, driver, executor …) are
    ignored here.

    :raises ConfigurationError: naming the field and the remedy.
    """
    root = Fields(spec, "spec")
    kafka = root.child("kafka")
    source = root.child("source")
    formats = source.child("format")
    transform = root.child("transform")
    python = transform.child("python")
    sql = transform.child("sql")
    sink = root.child("sink")
    result = JobSpec(
        kafka=KafkaCluster(
            bootstrap_servers=kafka.string("bootstrapServers"),
            authentication=_authentication(kafka.child("authentication")),
        ),
        source=Source(
            topics=tuple(source.strings("topics")),
            topic_pattern=source.string("topicPattern", ""),
            group_id=source.string("groupId", "") or names.default_group_id(namespace, name),
            partitions=partitions_from(source, "partitions"),
            startup=startup_from(source.child("startup")),
            stopping=stopping_from(source.child("stopping")),
            discovery_interval_seconds=source.integer("discoveryIntervalSeconds", 300),
            on_topic_deleted=source.choice("onTopicDeleted", OnTopicDeleted, OnTopicDeleted.FAIL),
            data_loss_policy=source.choice("dataLossPolicy", DataLossPolicy, DataLossPolicy.FAIL),
            offset_commit=source.choice("offsetCommit", OffsetCommit, OffsetCommit.IN_TRANSACTION),
            isolation_level=source.choice("isolationLevel", IsolationLevel, IsolationLevel.READ_COMMITTED),
            max_offsets_per_checkpoint=source.integer("maxOffsetsPerCheckpoint", 1_000_000, low=1),
            max_rate_per_partition=source.integer("maxRatePerPartition", 0, low=0),
            max_drift_seconds=source.child("watermarkAlignment").integer("maxDriftSeconds", 0, low=0),
            key_format=formats.choice("key", Format, Format.RAW),
            value_format=formats.choice("value", Format, Format.RAW),
            key_schema=formats.string("keySchema", ""),
            value_schema=formats.string("valueSchema", ""),
            schema_registry=source.child("schemaRegistry").string("url", ""),
            group_membership=membership_from(source.child("groupMembership")),
            properties=source.string_map("properties"),
        ),
        transform=Transform(
            function=python.string("function", ""),
            config_map=python.child("configMapRef").string("name", ""),
            sql=sql.string("query", ""),
            output_mode=transform.choice("outputMode", OutputMode, OutputMode.APPEND),
        ),
        sink=Sink(
            topic=sink.string("topic"),
            semantic=sink.choice("semantic", Semantic, Semantic.EXACTLY_ONCE),
            transactional_id_prefix=sink.string("transactionalIdPrefix", "")
            or names.default_transactional_id_prefix(namespace, name),
            producers_pool_size=sink.integer("producersPoolSize", 5, low=2),
            transaction_timeout_seconds=sink.integer("transactionTimeoutSeconds", 900, low=1),
            properties=sink.string_map("properties"),
        ),
        parallelism=root.integer("parallelism", 1, low=1),
        checkpoint_interval_seconds=root.child("checkpoint").integer("intervalSeconds", 10, low=1),
        record_errors=record_errors_from_resource(root),
        state_claim=root.child("checkpoint").child("stateVolume").string("claimName", ""),
        metrics_port=_metrics_port(root.child("metrics").child("prometheus")),
    )
    check_spec(result)
    return result


def _authentication(fields: Fields) -> Authentication | None:
    if fields.empty:
        return None
    secret = fields.child("passwordFrom").child("secretKeyRef")
    return Authentication(
        type=fields.choice("type", AuthenticationType, AuthenticationType.SCRAM_SHA_512),
        username=fields.string("username"),
        secret_name=secret.string("name"),
        secret_key=secret.string("key"),
    )


def _metrics_port(fields: Fields) -> int:
    port = fields.integer("port", DEFAULT_METRICS_PORT)
    _require(
        MIN_METRICS_PORT <= port <= MAX_PORT,
        f"{fields.path}.port",
        f"must be a port from {MIN_METRICS_PORT} to {MAX_PORT}, not {port}; enabled: false opens none",
    )
    return port if fields.boolean("enabled", True) else 0


def check_spec(spec: JobSpec) -> None:
    """The rules between fields.

    :raises ConfigurationError: naming the field and what to type instead.
    """
    source, sink, transform = spec.source, spec.sink, spec.transform
    _require(
        sum(map(bool, (source.topics, source.topic_pattern, source.partitions))) == 1,
        "spec.source",
        "set exactly one of source.topics, source.topicPattern and source.partitions",
    )
    named = {*source.topics, *(partition.topic for partition in source.partitions)}
    for topic in (*sorted(named), sink.topic, *dead_letter_topics(spec)):
        _require(
            bool(_TOPIC.fullmatch(topic)),
            "spec",
            f"{topic!r} is not a topic name: letters, digits, '.', '_', '-', at most 249",
        )
    pattern = None
    if source.topic_pattern:
        try:
            pattern = re.compile(source.topic_pattern)
        except re.error as error:
            msg = f"spec.source.topicPattern {source.topic_pattern!r} is not a regular expression: {error}"
            raise ConfigurationError(msg) from error
        _require(
            not pattern.fullmatch(sink.topic),
            "spec.sink.topic",
            f"{sink.topic!r} matches source.topicPattern: the job would read its own output forever",
        )
    _require(
        sink.topic not in named,
        "spec.sink.topic",
        f"{sink.topic!r} is also a source topic: the job would loop forever",
    )
    check_record_errors(spec.record_errors, topics=source.topics, pattern=pattern, sink=sink.topic)
    for where, properties in (("spec.source.properties", source.properties), ("spec.sink.properties", sink.properties)):
        for name in properties:
            instead = refused_property(name)
            _require(instead is None, where, instead or "")
            _require(
                name not in DENIED_PROPERTIES and "password" not in name,
                where,
                f"{name} cannot be set here: use the resource's own field; credentials come from Secrets",
            )
    _require(
        not (transform.function and transform.sql),
        "spec.transform",
        "set at most one of transform.python and transform.sql",
    )
    if transform.function:
        _require(
            bool(_FUNCTION.fullmatch(transform.function)),
            "spec.transform.python.function",
            f"{transform.function!r} must be written module:function, for instance enrich:transform",
        )
    for side, chosen, schema in (
        ("key", source.key_format, source.key_schema),
        ("value", source.value_format, source.value_schema),
    ):
        _require(
            chosen in _REGISTERED or (chosen is Format.JSON) == bool(schema),
            f"spec.source.format.{side}Schema",
            f'needed with format {side}: json, for instance "id BIGINT, name STRING"; not with raw or string',
        )
        _require(
            chosen is not Format.AVRO or bool(schema) or len(source.topics) == 1,
            f"spec.source.format.{side}Schema",
            f"needed with format {side}: avro and several topics: the Avro schema that all of them can be read with",
        )
        _require(
            chosen is not Format.PROTOBUF or len(source.topics) == 1,
            "spec.source.topics",
            f"format {side}: protobuf needs exactly one topic, whose subject in the registry gives the columns",
        )
    _require(
        bool(_REGISTERED & {source.key_format, source.value_format}) == bool(source.schema_registry),
        "spec.source.schemaRegistry.url",
        "needed with formats avro and protobuf, and only there, for instance http://schema-registry:8081",
    )
    _require(
        not source.schema_registry or bool(_REGISTRY.fullmatch(source.schema_registry)),
        "spec.source.schemaRegistry.url",
        f"{source.schema_registry!r} must be http://host:port or https://host, without user or password",
    )
    check_membership(
        source.group_membership, semantic=sink.semantic, startup=source.startup.mode.value,
        offset_commit=source.offset_commit, state_claim=spec.state_claim, bounded=source.stopping.bounded,
        named_partitions=bool(source.partitions), skips=source.data_loss_policy is DataLossPolicy.SKIP_TO_AVAILABLE,
    )  # fmt: skip
    if sink.semantic is Semantic.EXACTLY_ONCE:
        _require(
            source.isolation_level is IsolationLevel.READ_COMMITTED,
            "spec.source.isolationLevel",
            "EXACTLY_ONCE needs read_committed: records of aborted transactions would be copied",
        )
        _require(
            sink.transaction_timeout_seconds > spec.checkpoint_interval_seconds,
            "spec.sink.transactionTimeoutSeconds",
            "must exceed checkpoint.intervalSeconds, or the broker aborts a transaction before it is committed",
        )
        try:
            check_prefix(sink.transactional_id_prefix)
        except InvalidArgument as error:
            msg = f"spec.sink.transactionalIdPrefix: {error.message}"
            raise ConfigurationError(msg) from error


def dead_letter_topics(spec: JobSpec) -> tuple[str, ...]:
    """The dead letter topic, if there is one."""
    topic = spec.record_errors.dead_letter_topic
    return (topic,) if topic else ()


def encode_job(job: Job) -> str:
    """The job as JSON text for the attempt's ConfigMap."""
    return json.dumps(asdict(job), separators=(",", ":"), ensure_ascii=False)


def decode_job(text: str) -> Job:
    """Reads a job back in the driver.

    :raises ConfigurationError: the text is not a job of this release (operator and image differ in version).
    """
    try:
        body = json.loads(text)
        spec = body["spec"]
        authentication = spec["kafka"]["authentication"]
        source, sink = spec["source"], spec["sink"]
        job = Job(
            **{
                **body,
                "spec": JobSpec(
                    **{
                        **spec,
                        "kafka": KafkaCluster(
                            bootstrap_servers=spec["kafka"]["bootstrap_servers"],
                            authentication=authentication
                            and Authentication(
                                **{**authentication, "type": AuthenticationType(authentication["type"])}
                            ),
                        ),
                        "source": Source(
                            **{
                                **source,
                                "topics": tuple(source["topics"]),
                                "partitions": tuple(TopicPartition(*one) for one in source["partitions"]),
                                "startup": decode_startup(source["startup"]),
                                "stopping": decode_stopping(source["stopping"]),
                                "on_topic_deleted": OnTopicDeleted(source["on_topic_deleted"]),
                                "data_loss_policy": DataLossPolicy(source["data_loss_policy"]),
                                "offset_commit": OffsetCommit(source["offset_commit"]),
                                "isolation_level": IsolationLevel(source["isolation_level"]),
                                "key_format": Format(source["key_format"]),
                                "value_format": Format(source["value_format"]),
                                "group_membership": decode_membership(source["group_membership"]),
                            }
                        ),
                        "transform": Transform(
                            **{**spec["transform"], "output_mode": OutputMode(spec["transform"]["output_mode"])}
                        ),
                        "sink": Sink(**{**sink, "semantic": Semantic(sink["semantic"])}),
                        "record_errors": record_errors_from_job(spec["record_errors"]),
                    }
                ),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        msg = f"the job description is not one of this release: {error!r}"
        raise ConfigurationError(msg, remedy="use an image of the operator's release in spec.image") from error
    check_spec(job.spec)
    return job


def _require(condition: bool, where: str, message: str) -> None:
    if not condition:
        msg = f"{where}: {message}"
        raise ConfigurationError(msg)
