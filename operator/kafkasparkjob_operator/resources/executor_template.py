"""Pod template that Spark fills in for each executor."""

from __future__ import annotations

from typing import Any

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.executor_metadata import with_metadata_text
from kafkasparkjob_operator.resources.pod_parts import (
    SPARK_DIRECTORY,
    container_security_context,
    environment,
    pod_security_context,
    storage_resources,
    volumes_and_mounts,
    with_size_limits,
)
from kafkasparkjob_operator.resources.strategic_merge import with_templates
from kafkasparkjob_operator.workload import DesiredJob
from kafkasparkjob_operator.workload.pod_rules import GRACE_SECONDS
from sparkapp.model import names

EXECUTOR_CONTAINER = names.ROLE_EXECUTOR
"""As a template of the user names it."""


def executor_pod_template(job: JobIdentity, desired: DesiredJob, *, attempt: int) -> dict[str, Any]:
    """No token of a service account, no root, no writable image; Spark adds image, command, size and owner."""
    volumes, mounts = volumes_and_mounts(job, desired, attempt=attempt)
    # By this beginning of the name Spark knows its scratch space. The volume that it would add has no size limit.
    volumes.append({"name": "spark-local-dir-1", "emptyDir": {}})
    mounts.append({"name": "spark-local-dir-1", "mountPath": SPARK_DIRECTORY})
    # Only for the brokers' token: the kubelet writes it for the pod's account, and driver and executors are one user.
    own_token = any(cluster.has_own_token for cluster in desired.spec.clusters)
    account = names.service_account if own_token else names.executor_service_account
    labels = names.labels(job.name, attempt=attempt, role=names.ROLE_EXECUTOR)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": labels},
        "spec": {
            "serviceAccountName": account(job.name),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_SECONDS[names.ROLE_EXECUTOR],
            "securityContext": pod_security_context(desired),
            "containers": [
                {
                    "name": EXECUTOR_CONTAINER,
                    "workingDir": names.WORK_DIRECTORY,
                    "securityContext": container_security_context(),
                    "env": environment(desired),
                    "resources": storage_resources(desired.workload.executor),
                    "volumeMounts": mounts,
                }
            ],
            "volumes": volumes,
        },
    }
    merged = with_size_limits(with_templates(pod, desired.workload.executor), desired.workload.executor)
    return with_metadata_text(merged, own_labels=labels)
