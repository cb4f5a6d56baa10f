"""Reads ``spec`` of a custom resource into a job's spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkapp.model import names
from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.job.rules.spec_rules import check_spec
from sparkapp.model.job.spec import JobSpec


def spec_from_resource(spec: Mapping[str, Any], *, namespace: str, name: str, cluster: str = "") -> JobSpec:
    """Reads ``spec`` of a custom resource (camelCase), fills in defaults and checks what CEL cannot.

    Called by the operator on every change. Fields that only the operator needs (image, driver, executor ...) are
    ignored here. The dataclasses of :mod:`sparkapp.model.job.spec` say where each field is.

    :param cluster: id of the Kubernetes cluster in default names at Kafka (``status.clusterId``); empty for none.
    :raises ConfigurationError: naming the field and the remedy.
    """
    read = read_part(JobSpec, Fields(spec, "spec"))
    source, sink = read.source, read.sink
    result = replace(
        read,
        source=replace(source, group_id=source.group_id or names.default_group_id(namespace, name, cluster)),
        sink=replace(
            sink,
            transactional_id_prefix=sink.transactional_id_prefix
            or names.default_transactional_id_prefix(namespace, name, cluster),
        ),
    )
    check_spec(result)
    return result
