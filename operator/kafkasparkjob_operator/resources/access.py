"""The driver's service account and its rights."""

from __future__ import annotations

from typing import Any

from kafkasparkjob_operator.identity import JobIdentity, metadata
from sparkapp.model import names


def service_account(job: JobIdentity) -> dict[str, Any]:
    """No token unless a pod asks for one, and only the driver's pod does."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(job, names.service_account(job.name)),
        "automountServiceAccountToken": False,
    }


def role(job: JobIdentity) -> dict[str, Any]:
    """Rights on the job's three ConfigMaps by name, and on pods, because Spark's driver starts executors."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(job, names.service_account(job.name)),
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": [
                    names.state_config_map(job.name),
                    names.checkpoints_config_map(job.name),
                    names.report_config_map(job.name),
                ],
                "verbs": ["get", "patch"],
            },
            {
                "apiGroups": [""],
                "resources": ["pods"],
                "verbs": ["create", "get", "list", "watch", "patch", "delete", "deletecollection"],
            },
        ],
    }


def role_binding(job: JobIdentity) -> dict[str, Any]:
    name = names.service_account(job.name)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(job, name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": job.namespace}],
    }
