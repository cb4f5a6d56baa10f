"""The service accounts of a job, the driver's rights, and the secret of an attempt."""

from __future__ import annotations

from typing import Any

from kafkasparkjob_operator.identity import JobIdentity, metadata
from kafkasparkjob_operator.resources.references import References
from sparkapp.model import names

DRIVE = "drive"
"""Verb on the job's own resource. No request has it: the chart's admission policy recognizes drivers by it."""
USE = "use"
"""Verb on what the driver's executors may refer to. No request has it: the admission policy asks for it."""
VIRTUAL = {"images": "executorimages", "audiences": "executoraudiences", "metadata": "executormetadata"}
"""Resources of our API group that exist in Roles alone. Their names are images, audiences of tokens, and labels
and annotations of executors."""
POLICIES = "driverpolicies"
"""Resource of our API group that exists in Roles alone: the admission policies of releases."""
_ANY_POLICY = "any"
"""Name with which a Role says that it names a policy. All policies confine a driver whose Role does not say so."""


def service_account(job: JobIdentity) -> dict[str, Any]:
    """The driver's. No token unless a pod asks for one, and only the driver's pod does."""
    return _service_account(job, names.service_account(job.name))


def executor_service_account(job: JobIdentity) -> dict[str, Any]:
    """The executors', without any right."""
    return _service_account(job, names.executor_service_account(job.name))


def _service_account(job: JobIdentity, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(job, name),
        "automountServiceAccountToken": False,
    }


def role(job: JobIdentity, references: References, *, policy: str = "") -> dict[str, Any]:
    """Rights on the job's three ConfigMaps by name, and on pods, because Spark's driver starts executors.

    :param references: the names that the executors of the job's attempts refer to.
    :param policy: the admission policy that confines the driver, and no other release's; empty for those of all.
    """
    used = [
        _rule(names.GROUP if kind in VIRTUAL else "", VIRTUAL.get(kind, kind), (USE,), granted)
        for kind, granted in references.record().items()
    ]
    if policy:
        used.append(_rule(names.GROUP, POLICIES, (USE,), [policy, _ANY_POLICY]))
    config_maps = [
        names.state_config_map(job.name), names.checkpoints_config_map(job.name), names.report_config_map(job.name),
    ]  # fmt: skip
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(job, names.service_account(job.name)),
        "rules": [
            _rule("", "configmaps", ("get", "patch"), config_maps),
            # Spark deletes executors without a heartbeat by a selector. The admission policy judges each pod of it.
            {
                "apiGroups": [""],
                "resources": ["pods"],
                "verbs": ["create", "get", "list", "watch", "delete", "deletecollection"],
            },
            _rule(names.GROUP, names.PLURAL, (DRIVE,), [job.name]),
            *used,
        ],
    }


def _rule(group: str, resource: str, verbs: tuple[str, ...], granted: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "resourceNames": granted, "verbs": list(verbs)}


def role_binding(job: JobIdentity) -> dict[str, Any]:
    name = names.service_account(job.name)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(job, name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": job.namespace}],
    }


SECRET_BYTES = 32
"""Length of an attempt's secret, before its encoding."""


def spark_secret(job: JobIdentity, *, attempt: int, claim_uid: str, value: str) -> dict[str, Any]:
    """Immutable. The attempt's ConfigMap owns it, so Kubernetes deletes it with the ConfigMap.

    Called between the ConfigMap and the driver's pod.

    :param claim_uid: UID of the attempt's ConfigMap.
    :param value: random text; nothing else may keep it.
    """
    name = names.attempt_config_map(job.name, job.uid, attempt)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": claim_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            **metadata(job, names.spark_secret(job.name, job.uid, attempt), attempt=attempt),
            "ownerReferences": [owner],
        },
        "immutable": True,
        "stringData": {names.SPARK_SECRET_KEY: value},
    }
