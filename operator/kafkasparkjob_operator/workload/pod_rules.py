"""Fields of a pod that a template may not set, each with its reason and what to do instead."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkapp.model import names
from sparkapp.model.job.client.secret_names import carries_secret

_REMOVE = "remove the field"


class Refusal(NamedTuple):
    """Why a field is refused, and the remedy."""

    reason: str
    remedy: str = _REMOVE


GENERAL = Refusal("a pod template cannot set it")

GRACE_SECONDS: Mapping[str, int] = {names.ROLE_DRIVER: 120, names.ROLE_EXECUTOR: 5}
"""Seconds from SIGTERM to SIGKILL: the driver finishes its checkpoint, an executor's transactions are settled by the
next attempt. A template may set more."""

MOST_EXECUTOR_GRACE_SECONDS = 600
"""The chart's admission policy of drivers has the same: the next attempt waits for an executor's pod that long."""

FREE_SPEC_FIELDS: Mapping[str, type] = {
    "nodeSelector": dict, "tolerations": list, "affinity": dict, "topologySpreadConstraints": list,
    "schedulerName": str, "hostAliases": list, "dnsConfig": dict,
}  # fmt: skip
"""Fields that are merged as they are, and their type."""
FREE_CONTAINER_FIELDS = frozenset({"name", "env", "envFrom", "volumeMounts"})
MOUNT_FIELDS = frozenset({"name", "mountPath", "readOnly", "subPath", "subPathExpr", "recursiveReadOnly"})

ALLOWED_VOLUMES: Mapping[str, str] = {
    "configMap": "name", "secret": "secretName", "emptyDir": "", "persistentVolumeClaim": "claimName",
    "projected": "", "downwardAPI": "",
}  # fmt: skip
"""Kinds of volumes, and the field that names the object."""
ALLOWED_SOURCES = ("configMap", "secret", "downwardAPI")
"""Sources of a projected volume. A token would be an identity that the job has not been given."""

_HOST = Refusal("the pod must not share the node's namespaces")
_IDENTITY = Refusal("the operator creates the job's service accounts with the rights that the protocol needs")
_RESTARTS = Refusal("a pod that restarts in place would be two attempts of one number", "use spec.restartPolicy")
_SIDECAR = Refusal("another container could keep an ended attempt's pod alive", "run it as a pod of its own")
_START = Refusal("the image's entrypoint starts driver and executors", "build an image: docs/build-your-image.md")
_PROBE = Refusal("the operator judges the driver by its heartbeat", _REMOVE)

_SPEC: Mapping[str, Refusal] = {
    "restartPolicy": _RESTARTS,
    "serviceAccountName": _IDENTITY,
    "serviceAccount": _IDENTITY,
    "automountServiceAccountToken": _IDENTITY,
    "hostNetwork": _HOST,
    "hostPID": _HOST,
    "hostIPC": _HOST,
    "hostUsers": _HOST,
    "shareProcessNamespace": _SIDECAR,
    "initContainers": _SIDECAR,
    "ephemeralContainers": _SIDECAR,
    "nodeName": Refusal("a pod on a named node skips the scheduler", "use nodeSelector or affinity"),
    "activeDeadlineSeconds": Refusal("Kubernetes would kill a healthy attempt", "use spec.source.stopping"),
    "hostname": Refusal("Spark addresses the pods by their own names"),
    "subdomain": Refusal("Spark addresses the pods by their own names"),
    "setHostnameAsFQDN": Refusal("Spark addresses the pods by their own names"),
    "imagePullSecrets": Refusal("it has a field of its own", "use spec.imagePullSecrets"),
    "readinessGates": Refusal("the operator waits for ready pods, which the gate could prevent"),
    "runtimeClassName": Refusal("the admission policy of drivers refuses it in executors"),
}
_CONTAINER: Mapping[str, Refusal] = {
    "command": _START,
    "args": _START,
    "workingDir": _START,
    "image": Refusal("it has a field of its own", "use spec.image"),
    "imagePullPolicy": Refusal("it has a field of its own", "use spec.imagePullPolicy"),
    "resources": Refusal(
        "Spark and the container must have the same size", "use memory, memoryOverhead and resources of the job"
    ),
    "ports": Refusal("Spark and the operator name the ports", "use spec.metrics.prometheus.port"),
    "lifecycle": Refusal("a hook takes its time from the last checkpoint's"),
    "restartPolicy": _RESTARTS,
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
    "terminationMessagePath": Refusal("the operator reads the driver's last message there"),
    "terminationMessagePolicy": Refusal("the operator reads the driver's last message"),
}
_SECURITY: Mapping[str, str] = {
    "privileged": "a privileged container is root on its node",
    "capabilities": "the container has no capability",
    "runAsUser": "the image's user is not root",
    "allowPrivilegeEscalation": "a process must not gain rights",
}

_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_OUR_LABELS = frozenset({"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by"})
_SECURITY_ANNOTATIONS = ("container.apparmor.security.beta.kubernetes.io", "seccomp.security.alpha.kubernetes.io",
                         "container.seccomp.security.alpha.kubernetes.io")  # fmt: skip

OUR_VOLUMES = frozenset({"tmp", "work", "code", "state", "job", "schema-registry"})
"""Names of the operator's volumes; more begin with :data:`_OUR_VOLUME_PREFIXES`."""
_OUR_VOLUME_PREFIXES = ("spark-", "kafka-", "credentials")
_OUR_PATHS = ("/etc/kafkaspark", "/var/kafkaspark")
_IMAGE_PATHS = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/var/run/secrets", "/run/secrets")
_EXACT_PATHS = frozenset({"/", "/tmp", "/etc", "/var", "/run", "/var/run"})  # noqa: S108 - of the pod


def of_spec_field(name: str) -> Refusal:
    """The reason against a field of a pod's spec."""
    return _SPEC.get(name, GENERAL)


def of_container_field(name: str, value: Any) -> Refusal:
    """The reason against a field of the container."""
    if name == "securityContext" and isinstance(value, Mapping):
        reasons = [_SECURITY[inner] for inner in value if inner in _SECURITY]
        return Refusal("; ".join([*reasons, "the operator decides the container's security"]))
    return _CONTAINER.get(name, GENERAL)


def of_label(name: str, value: str) -> Refusal | None:
    """The reason against a label, None for a label of the user's."""
    plain = name.rpartition("/")[2]
    if not (_LABEL_VALUE.fullmatch(value) and plain and _LABEL_VALUE.fullmatch(plain)):
        return Refusal("Kubernetes allows at most 63 letters, digits, -, _ and . in it", "correct the label")
    if _of_our_group(name) or name in _OUR_LABELS or name.startswith("spark-"):
        return Refusal("operator and Spark find their pods by it", "give the label another name")
    return None


def of_annotation(name: str, value: str) -> Refusal | None:
    """The reason against an annotation, None for an annotation of the user's."""
    if carries_secret(value) or carries_secret(f"{name}={value}"):
        return Refusal(
            "it looks like a credential, and everybody who may get the pod reads it",
            "put it into a Secret, and mount that: podTemplate.spec.volumes and volumeMounts",
        )
    if "\n" in name or "\n" in value:
        return Refusal("the grant of an annotation has one line", "remove the line breaks")
    if _of_our_group(name):
        return Refusal("the operator recognizes its pods by it", "give the annotation another name")
    if name.partition("/")[0] in _SECURITY_ANNOTATIONS:
        return Refusal("the operator decides the pod's security")
    return None


def _of_our_group(name: str) -> bool:
    domain = name.partition("/")[0]
    return "/" in name and (domain == "kafkaspark.io" or domain.endswith(".kafkaspark.io"))


def of_volume_name(name: str) -> Refusal | None:
    """The reason against a volume's name, None for a name that is free."""
    if name in OUR_VOLUMES or name.startswith(_OUR_VOLUME_PREFIXES):
        return Refusal("the operator and Spark use the name", "give the volume another name, without spark- and kafka-")
    return None


def of_mount_path(path: str) -> Refusal | None:
    """The reason against a mount, None where it covers nothing of the operator's or the image's."""
    where = posixpath.normpath("/" + path.lstrip("/"))
    if where in _EXACT_PATHS or any(_within(where, ours) for ours in (*_OUR_PATHS, *_IMAGE_PATHS)):
        return Refusal("it would cover files of the job or the image", "mount it elsewhere, for instance at /mnt")
    return None


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
