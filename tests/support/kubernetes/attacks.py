"""What code with a driver's token could try: pods that it must not create, and other writes of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasparkjob_operator.identity import ANNOTATION_METADATA
from sparkapp.model import names

MERGE = "application/merge-patch+json"
Attack = Callable[[dict[str, Any]], None]
"""Makes something else of the executor that a driver may create."""


def volume(**source: Any) -> Attack:
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **source})


def variable(**source: Any) -> Attack:
    return lambda pod: pod["spec"]["containers"][0]["env"].append({"name": "MORE", "valueFrom": source})


def spec(**fields: Any) -> Attack:
    return lambda pod: pod["spec"].update(fields)


def tolerates(**fields: Any) -> Attack:
    return lambda pod: pod["spec"].setdefault("tolerations", []).append(fields)


def container(**fields: Any) -> Attack:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def context(**fields: Any) -> Attack:
    return lambda pod: pod["spec"]["securityContext"].update(fields)


def capability(**fields: Any) -> Attack:
    return lambda pod: pod["spec"]["containers"][0]["securityContext"].update(fields)


def label(name: str, value: str) -> Attack:
    return lambda pod: pod["metadata"]["labels"].update({name: value})


def meta(**fields: Any) -> Attack:
    return lambda pod: pod["metadata"].update(fields)


def claimed(name: str, value: str) -> Attack:
    """A label, and the annotation by which the policy would know it."""

    def attack(pod: dict[str, Any]) -> None:
        annotations = pod["metadata"].setdefault("annotations", {})
        lines = [annotations.get(ANNOTATION_METADATA), f"label {name}={value}"]
        annotations[ANNOTATION_METADATA] = "\n".join(filter(None, lines))
        label(name, value)(pod)

    return attack


TOKEN = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
FOREIGN_TOKEN = {"sources": [{"serviceAccountToken": {"path": "token", "audience": "foreign"}}]}
FOREIGN = {"apiVersion": "v1", "kind": "Pod", "name": "foreign", "uid": "00000000-0000-0000-0000-000000000000"}
PROBE = {"httpGet": {"port": 80, "host": "10.0.0.1"}}
SIDECAR = {"name": "sidecar", "image": "kafkaspark/sparkapp:1"}


def pod_attacks(job: str, other: str) -> dict[str, tuple[Attack, str]]:
    """Each attack, and a part of the message that refuses it.

    :param job: the driver's own job.
    """
    return {
        "another service account": (spec(serviceAccountName="admin"), "service account"),
        "the default service account": (spec(serviceAccountName="default"), "service account"),
        "the driver's service account": (spec(serviceAccountName=f"{job}-driver"), "service account"),
        "a foreign Secret as volume": (volume(secret={"secretName": "foreign"}), "Secret"),
        "a foreign Secret projected": (volume(projected={"sources": [{"secret": {"name": "foreign"}}]}), "Secret"),
        "a foreign Secret as variable": (variable(secretKeyRef={"name": "foreign", "key": "k"}), "Secret"),
        "a foreign Secret for pulls": (spec(imagePullSecrets=[{"name": "foreign"}]), "Secret"),
        "a foreign Secret as envFrom": (container(envFrom=[{"secretRef": {"name": "foreign"}}]), "Secret"),
        "a foreign ConfigMap as envFrom": (container(envFrom=[{"configMapRef": {"name": "foreign"}}]), "ConfigMap"),
        "a foreign ConfigMap as volume": (volume(configMap={"name": "foreign"}), "ConfigMap"),
        "a foreign ConfigMap projected": (
            volume(projected={"sources": [{"configMap": {"name": "foreign"}}]}),
            "ConfigMap",
        ),
        "a foreign ConfigMap as variable": (variable(configMapKeyRef={"name": "foreign", "key": "k"}), "ConfigMap"),
        "a foreign claim": (volume(persistentVolumeClaim={"claimName": "foreign"}), "PersistentVolumeClaim"),
        "another image": (container(image="other:1"), "image"),
        "hostPath": (volume(hostPath={"path": "/"}), "volumes"),
        "a CSI volume": (volume(csi={"driver": "d"}), "volumes"),
        "an ephemeral claim": (
            volume(
                ephemeral={
                    "volumeClaimTemplate": {
                        "spec": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        }
                    }
                }
            ),
            "volumes",
        ),
        "NFS": (volume(nfs={"server": "s", "path": "/"}), "volumes"),
        "a token for the API server": (volume(projected=TOKEN), "token"),
        "a token of another audience": (volume(projected=FOREIGN_TOKEN), "token"),
        "a mounted token": (spec(automountServiceAccountToken=True), "token"),
        "privileged": (capability(privileged=True, allowPrivilegeEscalation=True), "security context"),
        "more capabilities": (capability(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), "security context"),
        "root": (capability(runAsUser=0, runAsNonRoot=False), "security context"),
        "another group": (context(supplementalGroups=[0]), "security context"),
        "no seccomp profile": (context(seccompProfile={"type": "Unconfined"}), "security context"),
        "the node's network": (spec(hostNetwork=True), "namespace of its node"),
        "the node's processes": (spec(hostPID=True), "namespace of its node"),
        "the node's memory": (spec(hostIPC=True), "namespace of its node"),
        "a node by name": (spec(nodeName="control-plane"), "chooses the node"),
        "300 days of grace": (spec(terminationGracePeriodSeconds=300 * 86400), "grace"),
        "a scheduling gate": (spec(schedulingGates=[{"name": "example.com/never"}]), "scheduling gate"),
        "a deadline": (spec(activeDeadlineSeconds=5), "deadline"),
        "a toleration of everything": (tolerates(operator="Exists"), "tolerations"),
        "a toleration of the template with another effect": (tolerates(key="pool", effect="NoExecute"), "tolerations"),
        "a node selector": (spec(nodeSelector={"kubernetes.io/hostname": "victim"}), "node selector"),
        "a node selector of the template with another value": (spec(nodeSelector={"pool": "other"}), "node selector"),
        "an affinity": (spec(affinity={"podAffinity": {}}), "affinity"),
        "another scheduler": (spec(schedulerName="none"), "scheduler"),
        "a port of the node": (container(ports=[{"containerPort": 80, "hostPort": 80}]), "ports of its node"),
        "a probe of the node's": (container(livenessProbe=PROBE), "probes"),
        "a second container": (lambda pod: pod["spec"]["containers"].append(SIDECAR), "one container"),
        "an init container": (spec(initContainers=[SIDECAR]), "one container"),
        "another job's label": (label(names.LABEL_JOB, other), "own job"),
        "a driver's label": (label(names.LABEL_ROLE, names.ROLE_DRIVER), "own job"),
        "another attempt's label": (label(names.LABEL_ATTEMPT, "999"), "own job"),
        "a label that a Service selects": (label("app", "payments"), "labels"),
        "a label of the template with another value": (label("team", "other"), "labels"),
        "a label that the pod itself claims to be granted": (claimed("app", "payments"), "not granted"),
        "another managed-by": (label("app.kubernetes.io/managed-by", "Helm"), "labels"),
        "an annotation": (meta(annotations={"k8s.v1.cni.cncf.io/networks": "storage"}), "annotation"),
        "a finalizer": (meta(finalizers=["example.com/stays"]), "finalizer"),
        "another owner": (meta(ownerReferences=[FOREIGN]), "own pod must own"),
        "no owner": (meta(ownerReferences=[]), "own pod must own"),
        "the next driver's name": (meta(name=f"{job}-999-driver"), "own pod must own"),
    }


GRACE = {"gracePeriodSeconds": 0}


def other_writes() -> dict[str, tuple[str, str, Any]]:
    """Method, path and body of each request that a driver must not send; :func:`filled` names the pods."""
    return {
        "delete of another job's executor": ("DELETE", "pods/{foreign}", GRACE),
        "delete of another job's driver": ("DELETE", "pods/{other}", GRACE),
        "delete of its own driver": ("DELETE", "pods/{own}", GRACE),
        "delete of every pod": ("DELETE", "pods", GRACE),
        "delete of the other job's pods": ("DELETE", "pods?labelSelector=kafkaspark.io/job%3Dother", GRACE),
        "patch of another job's executor": ("PATCH", "pods/{foreign}", {"metadata": {"labels": {"a": "b"}}}),
        "patch of its own driver": ("PATCH", "pods/{own}", {"metadata": {"labels": {"a": "b"}}}),
        "patch of its own executor": ("PATCH", "pods/{mine}", {"metadata": {"labels": {names.LABEL_JOB: "other"}}}),
        "status of another job's driver": ("PATCH", "pods/{other}/status", {"status": {"phase": "Failed"}}),
        "an ephemeral container": (
            "PATCH", "pods/{mine}/ephemeralcontainers", {"spec": {"ephemeralContainers": [SIDECAR]}},
        ),
        "eviction": (
            "POST", "pods/{foreign}/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "{foreign}"}},
        ),
        "binding to a node": (
            "POST", "pods/{foreign}/binding",
            {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "{foreign}"},
                "target": {"kind": "Node", "name": "n"},
            },
        ),
        "exec in another job's driver": ("POST", "pods/{other}/exec?command=id", None),
        "attach to another job's driver": ("POST", "pods/{other}/attach", None),
        "port forward to another job's driver": ("POST", "pods/{other}/portforward", None),
    }  # fmt: skip


def filled(text: Any, **values: str) -> Any:
    if isinstance(text, dict):
        return {key: filled(value, **values) for key, value in text.items()}
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value) if isinstance(text, str) else text
    return text
