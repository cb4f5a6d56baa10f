"""The rules between a job's fields, checked by the operator and again by the driver.

They repeat what the CRD's CEL rules say and go beyond it, for a CRD may be older than the operator. No expression of a
user's is evaluated here, for this runs in the operator: CEL and the driver match ``source.topicPattern``
(:mod:`sparkapp.native.topic_pattern`).
"""

from __future__ import annotations

import re

from sparkapp.model.client_properties import check_properties
from sparkapp.model.errors import ConfigurationError, InvalidArgument
from sparkapp.model.group_membership import check_membership
from sparkapp.model.job import (
    DataLossPolicy,
    Format,
    IsolationLevel,
    JobSpec,
    TransactionTimeout,
    dead_letter_topics,
)
from sparkapp.model.positions import check_subscribed
from sparkapp.model.record_errors import check_record_errors
from sparkapp.model.registry_access import check_registry_access
from sparkapp.model.retention import check_retention
from sparkapp.model.semantic import Semantic
from sparkapp.model.sink_routing import TopicFrom
from sparkapp.model.spark_options import refused_option
from sparkapp.model.transaction_naming import MAX_PARALLELISM, MAX_POOL_SIZE
from sparkapp.model.transactional_id import check_prefix

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
_REGISTERED = frozenset({Format.AVRO, Format.PROTOBUF})


def check_spec(spec: JobSpec) -> None:
    """The rules between fields.

    :raises ConfigurationError: naming the field and what to type instead.
    """
    source, sink, transform = spec.source, spec.sink, spec.transform
    require(
        sum(map(bool, (source.topics, source.topic_pattern, source.partitions))) == 1,
        "spec.source",
        "set exactly one of source.topics, source.topicPattern and source.partitions",
    )
    named = {*source.topics, *(partition.topic for partition in source.partitions)}
    for topic in (*sorted(named), sink.topic, *dead_letter_topics(spec)):
        require(
            bool(_TOPIC.fullmatch(topic)),
            "spec",
            f"{topic!r} is not a topic name: letters, digits, '.', '_', '-', at most 249, and not '.' or '..'",
        )
    require(
        sink.topic not in named,
        "spec.sink.topic",
        f"{sink.topic!r} is also a source topic: the job would loop forever",
    )
    check_record_errors(spec.record_errors, topics=named, sink=sink.topic)
    check_subscribed(source.startup, source.stopping, topics=source.topics, partitions=source.partitions)
    for where, properties in (("spec.source.properties", source.properties), ("spec.sink.properties", sink.properties)):
        check_properties(where, properties)
    for name in source.properties:
        instead = refused_option(name)
        require(instead is None, "spec.source.properties", instead or "")
    require(
        not (transform.function and transform.sql),
        "spec.transform",
        "set at most one of transform.python and transform.sql",
    )
    require(
        sink.topic_from is TopicFrom.SPEC or bool(transform.function or transform.sql),
        "spec.sink.topicFrom",
        "Column needs a transform whose result has a column topic: without one it is the topic that the record was read"
        " from; add spec.transform, or set topicFrom: Spec",
    )
    if transform.function:
        require(
            bool(_FUNCTION.fullmatch(transform.function)),
            "spec.transform.python.function",
            f"{transform.function!r} must be written module:function, for instance enrich:transform",
        )
    for side, chosen, schema in (
        ("key", source.key_format, source.key_schema),
        ("value", source.value_format, source.value_schema),
    ):
        require(
            chosen in _REGISTERED or (chosen is Format.JSON) == bool(schema),
            f"spec.source.format.{side}Schema",
            f'needed with format {side}: json, for instance "id BIGINT, name STRING"; not with raw or string',
        )
        require(
            chosen is not Format.AVRO or bool(schema) or len(source.topics) == 1,
            f"spec.source.format.{side}Schema",
            f"needed with format {side}: avro and several topics: the Avro schema that all of them can be read with",
        )
        require(
            chosen is not Format.PROTOBUF or len(source.topics) == 1,
            "spec.source.topics",
            f"format {side}: protobuf needs exactly one topic, whose subject in the registry gives the columns",
        )
    check_registry_access(source.schema_registry, needed=bool(_REGISTERED & {source.key_format, source.value_format}))
    require(
        not (source.stopping.predicate and source.max_records_per_split),
        "spec.source.maxRecordsPerSplit",
        "a partition that is read in pieces has no first record of which stopping.predicate is true:"
        " set source.maxRecordsPerSplit: 0, or remove source.stopping.predicate",
    )
    check_membership(
        source.group_membership, semantic=sink.semantic, startup=source.startup.mode.value,
        offset_commit=source.offset_commit, state_claim=spec.state_claim, bounded=source.stopping.bounded,
        named_partitions=bool(source.partitions), skips=source.data_loss_policy is DataLossPolicy.SKIP_TO_AVAILABLE,
    )  # fmt: skip
    check_retention(spec.retention, spec.restore, subscribes=source.group_membership.subscribes)
    # A restart that may not list walks all ids that a former life can have used.
    require(
        spec.parallelism <= MAX_PARALLELISM,
        "spec.parallelism",
        f"must be at most {MAX_PARALLELISM}, not {spec.parallelism}",
    )
    require(
        sink.producers_pool_size <= MAX_POOL_SIZE,
        "spec.sink.producersPoolSize",
        f"must be at most {MAX_POOL_SIZE}, not {sink.producers_pool_size}",
    )
    if sink.semantic is Semantic.EXACTLY_ONCE:
        require(
            source.isolation_level is IsolationLevel.READ_COMMITTED,
            "spec.source.isolationLevel",
            "EXACTLY_ONCE needs read_committed: records of aborted transactions would be copied",
        )
        require(
            sink.transaction_timeout_millis > spec.checkpoint_interval_seconds * 1000,
            "spec.sink.transactionTimeoutSeconds",
            "must exceed checkpoint.intervalSeconds, or the broker aborts a transaction before it is committed",
        )
        require(
            sink.transaction_timeout is TransactionTimeout.SECONDS or "socket.timeout.ms" not in sink.properties,
            "spec.sink.properties",
            "socket.timeout.ms cannot be set with transactionTimeout: Never, librdkafka refuses the two together:"
            " remove socket.timeout.ms",
        )
        try:
            check_prefix(sink.transactional_id_prefix)
        except InvalidArgument as error:
            msg = f"spec.sink.transactionalIdPrefix: {error.message}"
            raise ConfigurationError(msg) from error


def require(condition: bool, where: str, message: str) -> None:
    """:raises ConfigurationError: the condition does not hold; names the field and says what to type instead."""
    if not condition:
        msg = f"{where}: {message}"
        raise ConfigurationError(msg)
