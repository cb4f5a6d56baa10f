"""Spark settings of an attempt that the operator decides; the driver adds its address."""

from __future__ import annotations

from kafkasparkjob_operator.identity import JobIdentity
from kafkasparkjob_operator.resources.executor_template import EXECUTOR_CONTAINER, executor_pod_template
from kafkasparkjob_operator.workload import DesiredJob
from sparkapp.model import names

_LEAST_FAILURES = 20
_FAILURES_AN_EXECUTOR = 4


def spark_conf(job: JobIdentity, desired: DesiredJob, *, attempt: int) -> dict[str, str]:
    """Defaults, the user's settings, and what must hold: names and labels by attempt, no fetching, no second copies."""
    workload = desired.workload
    # Spark replaces the template's seconds with the setting's.
    grace = executor_pod_template(job, desired, attempt=attempt)["spec"]["terminationGracePeriodSeconds"]
    settings = {
        # Without an interval Spark counts lost executors forever, and a driver on spot nodes ends one day (exit
        # status 11). Only this number of losses within an hour is a fault.
        "spark.executor.failuresValidityInterval": "1h",
        "spark.executor.maxNumFailures": str(max(_LEAST_FAILURES, _FAILURES_AN_EXECUTOR * workload.executor_instances)),
        # The UI shows environment and plans to everybody who reaches the pod, and can end a running checkpoint.
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",
        **workload.spark_conf,
        "spark.app.name": f"{job.namespace}.{job.name}",
        "spark.driver.memory": f"{workload.driver.heap_mebibytes}m",
        "spark.executor.instances": str(workload.executor_instances),
        "spark.executor.cores": str(workload.executor_cores),
        "spark.executor.memory": f"{workload.executor.heap_mebibytes}m",
        "spark.executor.memoryOverhead": f"{workload.executor.overhead_mebibytes}m",
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
        "spark.kubernetes.executor.request.cores": f"{workload.executor.cpu_request}m",
        "spark.kubernetes.executor.terminationGracePeriodSeconds": f"{grace}s",
        # The driver's Role does not allow ConfigMaps, Services and volume claims, so Spark must not use them.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    }
    if workload.executor.cpu_limit:
        settings["spark.kubernetes.executor.limit.cores"] = f"{workload.executor.cpu_limit}m"
    if workload.image_pull_secrets:
        settings["spark.kubernetes.container.image.pullSecrets"] = ",".join(workload.image_pull_secrets)
    for label, value in names.labels(job.name, attempt=attempt, role=names.ROLE_EXECUTOR).items():
        settings[f"spark.kubernetes.executor.label.{label}"] = value
    return settings
