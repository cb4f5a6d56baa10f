"""All rules of a job's spec; checked by the operator and again by the driver.

Rules between fields are judged by the text that the API server has (:mod:`.field_rules`). The others are here: forms of
names, lists of refused names, and what the API server cannot know. The operator evaluates no expression of a user: CEL
and the driver match ``source.topicPattern`` (:mod:`sparkapp.clients.topics.topic_pattern`).
"""

from __future__ import annotations

import re

from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import ConfigurationError, InvalidArgument
from sparkapp.model.errors.requirement import require
from sparkapp.model.job.access.registry_access import check_registry_access
from sparkapp.model.job.access.security import check_token_endpoint
from sparkapp.model.job.client.properties import check_properties
from sparkapp.model.job.client.spark_options import refused_option
from sparkapp.model.job.rules.engine_rules import check_engine
from sparkapp.model.job.rules.field_rules import check_field_rules
from sparkapp.model.job.rules.object_names import check_object_names
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import check_subscribed
from sparkapp.model.transactional_id import check_prefix

_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
_INSTANCE_ID = re.compile(r"[A-Za-z0-9._-]{1,249}")


def check_spec(spec: JobSpec) -> None:
    """All rules.

    Called where a resource is read, and where the driver decodes its copy.

    :raises ConfigurationError: naming the field, with the remedy.
    """
    check_object_names(spec)
    check_engine(spec)
    check_field_rules(spec)
    _check_names(spec)
    _check_functions(spec)
    _check_properties(spec)
    for cluster in spec.clusters:
        check_token_endpoint(cluster.authentication, cluster.field)
    check_registry_access(spec.source.schema_registry)
    check_registry_access(spec.sink.schema_registry)
    source = spec.source
    check_subscribed(source.startup, source.stopping, topics=source.topics, partitions=source.partitions)


def _check_names(spec: JobSpec) -> None:
    """Names of topics, of a static member, and of transactional ids."""
    source, sink = spec.source, spec.sink
    named = {
        **{partition.topic: "spec.source.partitions" for partition in source.partitions},
        **dict.fromkeys(source.topics, "spec.source.topics"),
        **dict.fromkeys(spec.record_errors.topics, "spec.deadLetter.topic"),
        sink.topic: "spec.sink.topic",
    }
    for topic, field in named.items():
        require(
            bool(_TOPIC.fullmatch(topic)),
            field,
            f"{topic!r} is not a topic name: use at most 249 letters, digits, '.', '_' and '-', but not '.' or '..'",
        )
    member = source.group_membership.group_instance_id
    require(
        not member or bool(_INSTANCE_ID.fullmatch(member)),
        "spec.source.groupMembership.groupInstanceId",
        f"{member!r} must consist of at most 249 letters, digits, '.', '_' and '-'",
    )
    if sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        try:
            check_prefix(sink.transactional_id_prefix)
        except InvalidArgument as error:
            msg = f"spec.sink.transactions.idPrefix: {error.message}"
            raise ConfigurationError(msg) from error


def _check_functions(spec: JobSpec) -> None:
    transform = spec.transform
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


def _check_properties(spec: JobSpec) -> None:
    check_properties("spec.source.properties", spec.source.properties)
    check_properties("spec.sink.properties", spec.sink.properties)
    for name in spec.source.properties:
        instead = refused_option(name)
        require(instead is None, "spec.source.properties", instead or "")
