"""The job that a resource asks for, and what a job may ask of its pods."""

from kafkasparkjob_operator.workload.desired import (
    DENIED_SPARK_PREFIXES,
    DENIED_SPARK_SETTINGS,
    DesiredJob,
    PodResources,
    PullPolicy,
    RestartPolicy,
    SuccessorPolicy,
    Workload,
    desired_from_resource,
    restart_policy_of,
)

__all__ = [
    "DENIED_SPARK_PREFIXES",
    "DENIED_SPARK_SETTINGS",
    "DesiredJob",
    "PodResources",
    "PullPolicy",
    "RestartPolicy",
    "SuccessorPolicy",
    "Workload",
    "desired_from_resource",
    "restart_policy_of",
]
