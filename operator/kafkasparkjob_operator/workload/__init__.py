"""The job that a resource asks for, and what a job may ask of its pods."""

from kafkasparkjob_operator.workload.autoscaler_fields import Autoscaler
from kafkasparkjob_operator.workload.desired import (
    DesiredJob,
    PodResources,
    Workload,
    deletion_of,
    desired_from_resource,
    restart_policy_of,
)
from kafkasparkjob_operator.workload.fields import (
    Deletion,
    DeletionPolicy,
    DrainFallback,
    PrepareFallback,
    PullPolicy,
    RestartPolicy,
    RollbackPolicy,
    SnapshotPolicy,
    SnapshotsOnDelete,
    StateOnDelete,
    SuccessorPolicy,
    UpgradeMode,
    UpgradePolicy,
)
from kafkasparkjob_operator.workload.job_settings import NO_SETTINGS, JobSettings, read_job_settings
from kafkasparkjob_operator.workload.pod_template import NO_TEMPLATE
from kafkasparkjob_operator.workload.spark_conf import DENIED_SPARK_PREFIXES, DENIED_SPARK_SETTINGS

__all__ = [
    "DENIED_SPARK_PREFIXES",
    "DENIED_SPARK_SETTINGS",
    "NO_SETTINGS",
    "NO_TEMPLATE",
    "Autoscaler",
    "Deletion",
    "DeletionPolicy",
    "DesiredJob",
    "DrainFallback",
    "JobSettings",
    "PodResources",
    "PrepareFallback",
    "PullPolicy",
    "RestartPolicy",
    "RollbackPolicy",
    "SnapshotPolicy",
    "SnapshotsOnDelete",
    "StateOnDelete",
    "SuccessorPolicy",
    "UpgradeMode",
    "UpgradePolicy",
    "Workload",
    "deletion_of",
    "desired_from_resource",
    "read_job_settings",
    "restart_policy_of",
]
