"""Spark settings of one attempt, as far as the operator decides them; the driver adds its own address."""

from __future__ import annotations

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.executor_template import EXECUTOR_CONTAINER, GRACE_SECONDS
from kafkasparkjob_operator.resources.pod_parts import OVERHEAD_FACTOR
from kafkasparkjob_operator.workload import Wanted
from sparkapp.model import names


def spark_conf(job: JobIdentity, wanted: Wanted, *, attempt: int) -> dict[str, str]:
    """The user's settings first, then what must hold: names and labels by attempt, no fetching, no second copies."""
    workload = wanted.workload
    settings = {
        "spark.executor.memoryOverheadFactor": str(OVERHEAD_FACTOR),
        **workload.spark_conf,
        "spark.app.name": f"{job.namespace}.{job.name}",
        "spark.driver.memory": workload.driver.memory,
        "spark.executor.instances": str(workload.executor_instances),
        "spark.executor.cores": str(workload.executor.cores),
        "spark.executor.memory": workload.executor.memory,
        "spark.dynamicAllocation.enabled": "false",
        # A second copy of a task would fence the first: both write under the same transactional id.
        "spark.speculation": "false",
        "spark.kubernetes.namespace": job.namespace,
        "spark.kubernetes.driver.pod.name": names.driver_pod(job.name, attempt),
        "spark.kubernetes.container.image": workload.image,
        "spark.kubernetes.container.image.pullPolicy": workload.image_pull_policy,
        "spark.kubernetes.executor.podNamePrefix": names.executor_pod_prefix(job.name, attempt),
        "spark.kubernetes.executor.podTemplateFile": f"{names.JOB_DIRECTORY}/{names.EXECUTOR_POD_TEMPLATE_KEY}",
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
        "spark.kubernetes.executor.request.cores": workload.executor.core_request,
        "spark.kubernetes.executor.terminationGracePeriodSeconds": f"{GRACE_SECONDS}s",
        # What the driver's Role does not allow, Spark must not try: ConfigMaps, Services, volume claims.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    }
    if workload.image_pull_secrets:
        settings["spark.kubernetes.container.image.pullSecrets"] = ",".join(workload.image_pull_secrets)
    for label, value in names.labels(job.name, attempt=attempt, role=names.ROLE_EXECUTOR).items():
        settings[f"spark.kubernetes.executor.label.{label}"] = value
    return settings
