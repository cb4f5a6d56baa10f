"""Reads ``spec`` of a custom resource into a job's spec; called by the operator on every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkapp.model import names
from sparkapp.model.fields import Fields
from sparkapp.model.group_membership import membership_from
from sparkapp.model.job import (
    Authentication,
    AuthenticationType,
    DataLossPolicy,
    Format,
    IsolationLevel,
    JobSpec,
    KafkaCluster,
    LostTransactionPolicy,
    OnTopicDeleted,
    OutputMode,
    Sink,
    Source,
    TransactionTimeout,
    Transform,
)
from sparkapp.model.job_rules import check_spec, require
from sparkapp.model.positions import partitions_from, startup_from, stopping_from
from sparkapp.model.record_errors import record_errors_from_resource
from sparkapp.model.registry_access import registry_access_from_resource
from sparkapp.model.retention import restore_from, retention_from
from sparkapp.model.semantic import OffsetCommit, Semantic
from sparkapp.model.sink_routing import Partitioner, TopicFrom
from sparkapp.model.transaction_naming import TransactionNaming

DEFAULT_METRICS_PORT = 8090
MIN_METRICS_PORT = 1024
"""Lower ones need a capability that the pods do not have."""
MAX_PORT = 65535


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
            cluster_id=kafka.string("clusterId", ""),
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
            max_records_per_split=source.integer("maxRecordsPerSplit", 0, low=0),
            max_drift_seconds=source.child("watermarkAlignment").integer("maxDriftSeconds", 0, low=0),
            key_format=formats.choice("key", Format, Format.RAW),
            value_format=formats.choice("value", Format, Format.RAW),
            key_schema=formats.string("keySchema", ""),
            value_schema=formats.string("valueSchema", ""),
            schema_registry=registry_access_from_resource(source.child("schemaRegistry")),
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
            topic_from=sink.choice("topicFrom", TopicFrom, TopicFrom.SPEC),
            partitioner=sink.choice("partitioner", Partitioner, Partitioner.KEY),
            semantic=sink.choice("semantic", Semantic, Semantic.EXACTLY_ONCE),
            transactional_id_prefix=sink.string("transactionalIdPrefix", "")
            or names.default_transactional_id_prefix(namespace, name),
            transaction_naming=sink.choice("transactionNaming", TransactionNaming, TransactionNaming.HINT),
            lost_transaction_policy=sink.choice(
                "lostTransactionPolicy", LostTransactionPolicy, LostTransactionPolicy.REPLAY
            ),
            producers_pool_size=sink.integer("producersPoolSize", 5, low=2),
            transaction_timeout=sink.choice("transactionTimeout", TransactionTimeout, TransactionTimeout.SECONDS),
            transaction_timeout_seconds=sink.integer("transactionTimeoutSeconds", 900, low=1),
            properties=sink.string_map("properties"),
        ),
        parallelism=root.integer("parallelism", 1, low=1),
        checkpoint_interval_seconds=root.child("checkpoint").integer("intervalSeconds", 10, low=1),
        retention=retention_from(root.child("checkpoint")),
        restore=restore_from(root),
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
    require(
        MIN_METRICS_PORT <= port <= MAX_PORT,
        f"{fields.path}.port",
        f"must be a port from {MIN_METRICS_PORT} to {MAX_PORT}, not {port}; enabled: false opens none",
    )
    return port if fields.boolean("enabled", True) else 0
