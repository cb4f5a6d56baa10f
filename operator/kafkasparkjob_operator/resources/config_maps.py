"""The job's ConfigMaps: its state, earlier checkpoints, its report, and the description of one attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from kafkasparkjob_operator.identity import (
    ANNOTATION_JOB_UID,
    ROLE_ATTEMPT,
    ROLE_CHECKPOINTS,
    ROLE_REPORT,
    ROLE_STATE,
    JobIdentity,
    metadata,
)
from kafkasparkjob_operator.resources.executor_template import executor_pod_template
from kafkasparkjob_operator.resources.spark_conf import spark_conf
from kafkasparkjob_operator.workload import Wanted
from sparkapp.model import names
from sparkapp.model.job import Job
from sparkapp.model.job_codec import encode_job

RESOURCE_SPEC_KEY = "resource-spec.json"
"""The resource's spec as the attempt was started with, so that a later one can be compared with it."""


def state_config_map(job: JobIdentity) -> dict[str, Any]:
    """Empty, and bound to one life of the resource. Created once; a later loss is never repaired by guess."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            job, names.state_config_map(job.name), role=ROLE_STATE, annotations={ANNOTATION_JOB_UID: job.uid}
        ),
        "data": {},
    }


def checkpoints_config_map(job: JobIdentity) -> dict[str, Any]:
    """Empty; the driver keeps earlier checkpoints in it. Made again where it is gone: no state is in it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, names.checkpoints_config_map(job.name), role=ROLE_CHECKPOINTS),
        "data": {},
    }


def report_config_map(job: JobIdentity) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, names.report_config_map(job.name), role=ROLE_REPORT),
        "data": {},
    }


def attempt_config_map(
    job: JobIdentity, wanted: Wanted, *, attempt: int, generation: int, resource_spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Immutable, and named by the attempt: creating it is the claim of the number."""
    resolved = Job(
        namespace=job.namespace, name=job.name, uid=job.uid, generation=generation, attempt=attempt, spec=wanted.spec
    )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, names.attempt_config_map(job.name, attempt), attempt=attempt, role=ROLE_ATTEMPT),
        "immutable": True,
        "data": {
            names.JOB_KEY: encode_job(resolved),
            names.SPARK_CONF_KEY: json.dumps(spark_conf(job, wanted, attempt=attempt), indent=1, sort_keys=True),
            names.EXECUTOR_POD_TEMPLATE_KEY: yaml.safe_dump(
                executor_pod_template(job, wanted, attempt=attempt), sort_keys=False
            ),
            RESOURCE_SPEC_KEY: json.dumps(
                {"generation": generation, "spec": resource_spec}, separators=(",", ":"), sort_keys=True
            ),
        },
    }
