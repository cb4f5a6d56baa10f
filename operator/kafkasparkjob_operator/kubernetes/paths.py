"""Paths of objects at the API server, built from names that Kubernetes gives to objects and from no others."""

from __future__ import annotations

from kafkasparkjob_operator.kubernetes.answers import NOT_FOUND
from kafkasparkjob_operator.kubernetes.port import ObjectRefused
from sparkapp.model import names

DISCOVERY = f"/apis/{names.GROUP}/{names.VERSION}"
NAMESPACES = "/api/v1/namespaces"

_COLLECTIONS = {
    "Pod": ("/api/v1", "pods"),
    "ConfigMap": ("/api/v1", "configmaps"),
    "Secret": ("/api/v1", "secrets"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "ResourceQuota": ("/api/v1", "resourcequotas"),
    "Event": ("/api/v1", "events"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    names.KIND: (DISCOVERY, names.PLURAL),
    names.SNAPSHOT_KIND: (DISCOVERY, names.SNAPSHOT_PLURAL),
}


def collection(kind: str, namespace: str) -> str:
    """The path of a kind's objects in a namespace.

    :raises ObjectRefused: no namespace can have that name. The status is that of an object that does not exist.
    """
    version, plural = _COLLECTIONS[kind]
    return f"{version}/namespaces/{_checked(namespace)}/{plural}"


def everywhere(kind: str) -> str:
    """The path of a kind's objects in all namespaces."""
    return "/".join(_COLLECTIONS[kind])


def object_path(kind: str, namespace: str, name: str) -> str:
    """The path of an object. A name may come from a user's spec, and ``../..`` would lead to other objects.

    :raises ObjectRefused: no namespace, or no object, can have that name. The status is that of an object that does not
        exist.
    """
    return f"{collection(kind, namespace)}/{_checked(name)}"


def _checked(name: str) -> str:
    if not names.is_object_name(name):
        msg = f"{name[: names.MAX_OBJECT_NAME]!r} cannot be the name of an object: it is no DNS subdomain (RFC 1123)"
        raise ObjectRefused(msg, status=NOT_FOUND)
    return name
