"""The job's ConfigMaps: state, earlier checkpoints, report, and the description of an attempt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from kafkasparkjob_operator.identity import (
    API_VERSION,
    ROLE_ATTEMPT,
    ROLE_CHECKPOINTS,
    ROLE_REPORT,
    ROLE_SNAPSHOT,
    ROLE_STATE,
    JobIdentity,
    metadata,
)
from kafkasparkjob_operator.resources.executor_template import executor_pod_template
from kafkasparkjob_operator.resources.references import References, references_of
from kafkasparkjob_operator.resources.revisions import Modules
from kafkasparkjob_operator.resources.spark_conf import spark_conf
from kafkasparkjob_operator.workload import DesiredJob
from sparkapp.model import names
from sparkapp.model.checkpoint.retained import Pin, RetainedCheckpoint, pin_annotation
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.job.codec import encode_job
from sparkapp.model.job.spec import Job

_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The dumper in C needs a hundredth of the time, and not every build of PyYAML has it."""
RESOURCE_SPEC_KEY = "resource-spec.json"
"""The resource's spec that the attempt was started with, for the comparison with a later spec."""
REMOVES_STATE_KEY = "removesState"
"""Likewise: true where the attempt removes the query state of a deleted job."""
SETTLES_KEY = "settles"
"""In the object under :data:`RESOURCE_SPEC_KEY`: true where the attempt only settles earlier transactions."""
DEFAULT_IMAGE_KEY = "defaultImage"
"""Likewise: the image of the attempt, where the resource names none."""
REFERENCES_KEY = "references"
"""Likewise: the names that the attempt's executors refer to."""
CODE_KEY = "codeDigest"
"""Likewise: the digest of the user's modules when the attempt was started; absent where there were none."""
REVISION_NAME_KEY = "revision"
"""Likewise: the ConfigMap of the attempt's revision; absent where the attempt only settles."""

STATELESS_KEY = "stateless"
"""Likewise: :attr:`sparkapp.model.job.spec.Job.stateless` of the attempt; absent for 0."""

CLUSTER_ID_KEY = "clusterId"
"""Likewise: the id of the Kubernetes cluster in the attempt's default names at Kafka; absent where they have none."""


def state_config_map(job: JobIdentity) -> dict[str, Any]:
    """Empty, and bound to the UID of the resource. Created once; a later loss is never repaired by guess."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            job, names.state_config_map(job.name), role=ROLE_STATE, annotations={names.ANNOTATION_JOB_UID: job.uid}
        ),
        "data": {},
    }


def checkpoints_config_map(job: JobIdentity, pins: Mapping[str, Pin] | None = None) -> dict[str, Any]:
    """Empty; the driver retains earlier checkpoints in it. Recreated where it is gone.

    :param pins: by the UIDs of their snapshots. The driver removes state that has none, so a ConfigMap is created with
        all that are needed.
    """
    annotations = {name: text for uid, pin in (pins or {}).items() for name, text in pin_annotation(uid, pin).items()}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(
            job, names.checkpoints_config_map(job.name), role=ROLE_CHECKPOINTS, annotations=annotations
        ),
        "data": {},
    }


def snapshot_config_map(snapshot: Mapping[str, Any], *, job: str, checkpoint: RetainedCheckpoint) -> dict[str, Any]:
    """Immutable; the snapshot alone owns it, so it outlives the job.

    :param snapshot: the KafkaSparkSnapshot. :param job: the name of the job that wrote the checkpoint.
    :raises CheckpointTooLarge: it does not fit into a ConfigMap.
    """
    meta = snapshot["metadata"]
    owner = {"apiVersion": API_VERSION, "kind": names.SNAPSHOT_KIND, "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.snapshot_config_map(meta["name"], meta["uid"]),
            "namespace": meta["namespace"],
            "labels": names.labels(job, role=ROLE_SNAPSHOT),
            "annotations": {names.ANNOTATION_JOB_UID: checkpoint.job_uid},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "immutable": True,
        "data": {names.SNAPSHOT_KEY: encode_retained(checkpoint)},
    }


def report_config_map(job: JobIdentity) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, names.report_config_map(job.name), role=ROLE_REPORT),
        "data": {},
    }


def attempt_config_map(
    job: JobIdentity,
    desired: DesiredJob,
    *,
    attempt: int,
    generation: int,
    resource_spec: Mapping[str, Any],
    settles: bool = False,
    removes_state: bool = False,
    revision: str = "",
    modules: Modules | None = None,
    snapshots: Mapping[str, str] | None = None,
    stateless: int = 0,
) -> dict[str, Any]:
    """Immutable, and named by resource and attempt: creating it is the claim of the number.

    :param settles: the driver only settles the transactions of earlier attempts.
    :param removes_state: likewise, and it removes the job's query state.
    :param revision: its ConfigMap; empty for none.
    :param modules: the copy of the user's modules; None where the attempt has none.
    :param snapshots: checkpoints of the snapshots that the attempt begins at, by name.
    :param stateless: the first attempt that was to begin without the checkpoint; 0 for none.
    """
    resolved = Job(
        namespace=job.namespace, name=job.name, uid=job.uid, generation=generation, attempt=attempt, spec=desired.spec,
        settles_only=settles, removes_state=removes_state, stateless=stateless, snapshots=snapshots or {},
    )  # fmt: skip
    mounted = desired.with_modules("" if modules is None else modules.name)
    template = executor_pod_template(job, mounted, attempt=attempt)
    recorded = {
        "generation": generation,
        "spec": resource_spec,
        REFERENCES_KEY: _references_of(template, desired).record(),
        **({SETTLES_KEY: True} if settles else {}),
        **({REMOVES_STATE_KEY: True} if removes_state else {}),
        **({STATELESS_KEY: stateless} if stateless else {}),
        **({CLUSTER_ID_KEY: desired.cluster_id} if desired.cluster_id else {}),
        **({REVISION_NAME_KEY: revision} if revision else {}),
        **({} if modules is None else {CODE_KEY: modules.digest}),
        **({DEFAULT_IMAGE_KEY: desired.workload.image} if desired.workload.default_image else {}),
    }
    name = names.attempt_config_map(job.name, job.uid, attempt)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, name, attempt=attempt, role=ROLE_ATTEMPT),
        "immutable": True,
        "data": {
            names.JOB_KEY: encode_job(resolved),
            names.SPARK_CONF_KEY: json.dumps(spark_conf(job, desired, attempt=attempt), indent=1, sort_keys=True),
            names.EXECUTOR_POD_TEMPLATE_KEY: yaml.dump(template, Dumper=_DUMPER, sort_keys=False),
            RESOURCE_SPEC_KEY: json.dumps(recorded, separators=(",", ":"), sort_keys=True),
            **({} if modules is None else {names.MODULES_KEY: modules.files}),
        },
    }


def attempt_references(job: JobIdentity, desired: DesiredJob, *, attempt: int) -> References:
    """The names that the executors of an attempt refer to.

    :param desired: with the copy of the modules that they mount.
    """
    return _references_of(executor_pod_template(job, desired, attempt=attempt), desired)


def _references_of(template: Mapping[str, Any], desired: DesiredJob) -> References:
    workload = desired.workload
    return references_of(template, image=workload.image, pull_secrets=workload.image_pull_secrets)
