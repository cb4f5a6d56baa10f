"""The driver pod of an attempt."""

from __future__ import annotations

from typing import Any

from kafkasparkjob_operator.identity import (
    ANNOTATION_CLAIM,
    ANNOTATION_GENERATION,
    ANNOTATION_REVISION,
    ANNOTATION_SOURCE,
    ANNOTATION_STANDBY_PARALLELISM,
    JobIdentity,
    metadata,
)
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

TERMINATION_GRACE_SECONDS = GRACE_SECONDS[names.ROLE_DRIVER]
"""Time to finish the current checkpoint after SIGTERM; the next attempt settles a longer checkpoint."""


def driver_pod(
    job: JobIdentity,
    desired: DesiredJob,
    *,
    attempt: int,
    claim_uid: str,
    revision: str = "",
    standby_for: int | None = None,
    takes_over: bool = False,
) -> dict[str, Any]:
    """The driver pod. It is never restarted in place: each attempt has a pod and a number of its own.

    :param claim_uid: UID of the attempt's ConfigMap.
    :param revision: its ConfigMap; empty for an attempt that only settles.
    :param standby_for: the resource's generation, for a standby driver; None for a driver that starts at once.
    :param takes_over: a standby driver that prepares all that it can.
    """
    workload = desired.workload
    volumes, mounts = volumes_and_mounts(job, desired, attempt=attempt)
    description = names.attempt_config_map(job.name, job.uid, attempt)
    volumes.append({"name": "job", "configMap": {"name": description}})
    mounts.append({"name": "job", "mountPath": names.JOB_DIRECTORY, "readOnly": True})
    memory = f"{workload.driver.container_mebibytes}Mi"
    resources = storage_resources(workload.driver)
    resources["requests"] |= {"cpu": f"{workload.driver.cpu_request}m", "memory": memory}
    # No CPU limit by default: a throttled driver restarts slowly.
    cpu_limit = {"cpu": f"{workload.driver.cpu_limit}m"} if workload.driver.cpu_limit else {}
    resources["limits"] |= {"memory": memory, **cpu_limit}
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": names.service_account(job.name),
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
        "securityContext": pod_security_context(desired),
        "containers": [
            {
                "name": names.DRIVER_CONTAINER,
                "image": workload.image,
                "imagePullPolicy": workload.image_pull_policy,
                "args": ["driver"],
                "workingDir": names.WORK_DIRECTORY,
                "env": [
                    _downward("KAFKASPARK_POD_IP", "status.podIP"),
                    _downward(names.POD_UID_VARIABLE, "metadata.uid"),
                    {"name": "SPARK_LOCAL_DIRS", "value": SPARK_DIRECTORY},
                    *environment(desired),
                ],
                "resources": resources,
                "securityContext": container_security_context(),
                "terminationMessagePath": names.TERMINATION_LOG,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    annotations = {ANNOTATION_CLAIM: claim_uid}
    if revision:
        annotations[ANNOTATION_REVISION] = revision
    if workload.modules != desired.spec.transform.code:
        annotations[ANNOTATION_SOURCE] = desired.spec.transform.code
    if desired.spec.metrics_port:
        spec["containers"][0]["ports"] = [{"name": names.METRICS_PORT, "containerPort": desired.spec.metrics_port}]
        # Annotations that Prometheus uses where there is no PodMonitor.
        annotations |= {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(desired.spec.metrics_port),
            "prometheus.io/path": names.METRICS_PATH,
        }
    if standby_for is not None:
        annotations |= {
            names.ANNOTATION_TURN: names.TURN_AWAITED,
            ANNOTATION_GENERATION: str(standby_for),
            ANNOTATION_STANDBY_PARALLELISM: str(desired.spec.parallelism),
        }
        variables = [names.AWAITS_TURN_VARIABLE, *([names.TAKES_OVER_VARIABLE] if takes_over else [])]
        spec["containers"][0]["env"] += [{"name": name, "value": "true"} for name in variables]
    if workload.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in workload.image_pull_secrets]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            job,
            names.driver_pod(job.name, attempt),
            attempt=attempt,
            role=names.ROLE_DRIVER,
            annotations=annotations,
        ),
        "spec": spec,
    }
    return with_size_limits(with_templates(pod, workload.driver), workload.driver)


def _downward(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
