"""The rules between a job's fields, a function a section; checked by the operator and again by the driver.

They repeat the CRD's CEL rules and add to them, because a cluster's CRD may be older than the operator. The operator
evaluates no expression of a user: CEL and the driver match ``source.topicPattern``
(:mod:`sparkapp.clients.topics.topic_pattern`).
"""

from __future__ import annotations

import re

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import ConfigurationError, InvalidArgument
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.access.registry_access import check_registry_access
from sparkapp.model.job.access.security import check_security
from sparkapp.model.job.client.properties import check_properties
from sparkapp.model.job.client.spark_options import refused_option
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.rules.engine_rules import check_engine
from sparkapp.model.job.rules.membership_rules import check_membership
from sparkapp.model.job.rules.object_names import check_object_names
from sparkapp.model.job.sections.record_errors import check_record_errors
from sparkapp.model.job.sections.retention import check_restore
from sparkapp.model.job.sections.sink import TopicFrom
from sparkapp.model.job.sections.source import IsolationLevel, Source
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import check_subscribed
from sparkapp.model.transactional_id import check_prefix

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")


def check_spec(spec: JobSpec) -> None:
    """All rules.

    Called where a resource is read, and where the driver decodes its copy.

    :raises ConfigurationError: naming the field, with the remedy.
    """
    check_object_names(spec)
    check_security(spec.kafka.tls, spec.kafka.authentication)
    _check_topics(spec)
    _check_source(spec.source)
    _check_formats(spec.source)
    _check_transform(spec)
    _check_sink(spec)
    _check_exactly_once(spec)
    check_membership(spec)
    check_engine(spec)
    check_restore(spec.restore, subscribes=spec.source.group_membership.subscribes)


def _check_topics(spec: JobSpec) -> None:
    source, sink = spec.source, spec.sink
    require(
        sum(map(bool, (source.topics, source.topic_pattern, source.partitions))) == 1,
        "spec.source",
        "set exactly one of source.topics, source.topicPattern and source.partitions",
    )
    named = {*source.topics, *(partition.topic for partition in source.partitions)}
    for topic in (*sorted(named), sink.topic, *spec.record_errors.topics):
        require(
            bool(_TOPIC.fullmatch(topic)),
            "spec",
            f"{topic!r} is not a topic name: use at most 249 letters, digits, '.', '_' and '-', but not '.' or '..'",
        )
    require(
        sink.topic not in named,
        "spec.sink.topic",
        f"{sink.topic!r} is also a source topic, so the job would read its own output forever",
        "set sink.topic to another topic",
    )
    check_record_errors(spec.record_errors, topics=named, sink=sink.topic)


def _check_source(source: Source) -> None:
    check_subscribed(source.startup, source.stopping, topics=source.topics, partitions=source.partitions)
    check_properties("spec.source.properties", source.properties)
    for name in source.properties:
        instead = refused_option(name)
        require(instead is None, "spec.source.properties", instead or "")
    require(
        not (source.stopping.predicate and source.max_records_per_split),
        "spec.source.limits.maxRecordsPerSplit",
        "a partition in several splits has no first record of which stopping.predicate is true",
        "set source.limits.maxRecordsPerSplit: 0, or remove source.stopping.predicate",
    )
    require(
        source.max_out_of_orderness_seconds is not None or not source.idle_timeout_seconds,
        "spec.source.watermarks",
        "idleTimeoutSeconds needs maxOutOfOrdernessSeconds",
        "set watermarks.maxOutOfOrdernessSeconds: 0 where the records of each partition are in the order of their time",
    )


def _check_formats(source: Source) -> None:
    for side, chosen, schema in (
        ("key", source.key_format, source.key_schema),
        ("value", source.value_format, source.value_schema),
    ):
        where = f"spec.source.format.{side}Schema"
        require(
            bool(schema) or not chosen.traits.needs_schema,
            where,
            f"needed with format {side}: {chosen}",
            f'set {side}Schema, for instance "id BIGINT, name STRING"',
        )
        require(
            not schema or chosen.traits.needs_schema or chosen.traits.registered,
            where,
            f"not allowed with format {side}: {chosen}",
            f"remove {side}Schema",
        )
        require(
            chosen is not Format.AVRO or bool(schema) or len(source.topics) == 1,
            where,
            f"needed with format {side}: avro and several topics",
            f"set {side}Schema to an Avro schema that all topics can be read with",
        )
        require(
            chosen is not Format.PROTOBUF or len(source.topics) == 1,
            "spec.source.topics",
            f"format {side}: protobuf needs exactly one topic, whose subject in the registry gives the columns",
        )
    registered = source.key_format.traits.registered or source.value_format.traits.registered
    check_registry_access(source.schema_registry, needed=registered)


def _check_transform(spec: JobSpec) -> None:
    transform = spec.transform
    require(
        sum(map(bool, (transform.function, transform.arrow.name, transform.sql))) <= 1,
        "spec.transform",
        "set at most one of transform.python, transform.arrow and transform.sql",
    )
    require(
        not (transform.arrow.function and transform.arrow.factory)
        and bool(transform.arrow.name or not transform.arrow.config_map),
        "spec.transform.arrow",
        "set exactly one of arrow.function and arrow.factory",
    )
    for field, name in (
        ("python.function", transform.function),
        ("arrow.function", transform.arrow.function),
        ("arrow.factory", transform.arrow.factory),
    ):
        require(
            not name or bool(_FUNCTION.fullmatch(name)),
            f"spec.transform.{field}",
            f"{name!r} must have the form module:function, for instance enrich:transform",
        )
    require(
        spec.sink.topic_from is TopicFrom.SPEC or not transform.passes_through,
        "spec.sink.topicFrom",
        "Column needs a transform, because without it the column topic is the source topic",
        "add spec.transform, or set topicFrom: Spec",
    )


def _check_sink(spec: JobSpec) -> None:
    check_properties("spec.sink.properties", spec.sink.properties)


def _check_exactly_once(spec: JobSpec) -> None:
    source, sink = spec.source, spec.sink
    if sink.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        return
    require(
        source.isolation_level is IsolationLevel.READ_COMMITTED,
        "spec.source.isolationLevel",
        "ExactlyOnce needs read_committed, or the job would copy records of aborted transactions",
        "set source.isolationLevel: read_committed, or sink.deliveryGuarantee: AtLeastOnce",
    )
    require(
        sink.transaction_timeout_millis > spec.checkpoint_interval * 1000,
        "spec.sink.transactions.timeoutSeconds",
        "must exceed the checkpoint interval, or the broker aborts a transaction before its commit",
        f"set sink.transactions.timeoutSeconds to more than {spec.checkpoint_interval:g}",
    )
    require(
        sink.transactions_expire or "socket.timeout.ms" not in sink.properties,
        "spec.sink.properties",
        "socket.timeout.ms cannot be set with transactions.timeoutSeconds: 0: librdkafka refuses both together",
        "remove socket.timeout.ms",
    )
    try:
        check_prefix(sink.transactional_id_prefix)
    except InvalidArgument as error:
        msg = f"spec.sink.transactions.idPrefix: {error.message}"
        raise ConfigurationError(msg) from error
