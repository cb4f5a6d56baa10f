"""Attacks from inside a running driver, with the driver's token, and the objects of others that they aim at."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from clusterjob.installation import IMAGE_OF
from sparkapp.model import names
from tests.support.kubernetes.attacks import MERGE, filled, other_writes, pod_attacks
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

OTHER = "other"
_ADMIN = "admin"
_SENDS = """
import json, os, ssl, sys, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
token = open(folder + "token").read()
server = "https://{KUBERNETES_SERVICE_HOST}:{KUBERNETES_SERVICE_PORT}".format(**os.environ)
context = ssl.create_default_context(cafile=folder + "ca.crt")
answers = {}
for name, (method, url, body, kind) in json.load(sys.stdin).items():
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": "Bearer " + token, "Content-Type": kind}
    request = urllib.request.Request(server + url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, context=context, timeout=20) as response:
            answers[name] = response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        answers[name] = error.code, error.read().decode()
json.dump(answers, sys.stdout)
"""
"""Sends requests from inside the driver's container."""

_Request = tuple[str, str, Any, str]
_JSON = "application/json"


def bystanders() -> list[dict[str, Any]]:
    """A foreign Secret, a service account with a name that attacks use, and pods of others."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foreign"}, "stringData": {"k": "value"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ADMIN}}
    return [secret, account, bystander("foreign"), bystander(f"{OTHER}-1-driver")]


def bystander(name: str) -> dict[str, Any]:
    """A pod of another job."""
    drop = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    security = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {"name": "c", "image": IMAGE_OF["sparkapp"], "imagePullPolicy": "IfNotPresent", "securityContext": drop}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {names.LABEL_JOB: OTHER}},
        "spec": {
            "containers": [{**container, "command": ["sleep", "infinity"]}], "securityContext": security,
            "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0,
        },
    }  # fmt: skip


def _answers(cluster_job: ClusterJob, requests: Mapping[str, _Request]) -> dict[str, tuple[int, str]]:
    """What the API server answers to the driver of the current attempt."""
    driver = names.driver_pod(NAME, cluster_job.job.attempt)
    text = cluster_job.kubectl.run(
        "exec", "--stdin", driver, f"--container={names.DRIVER_CONTAINER}", "--", "python3", "-c", _SENDS,
        stdin=json.dumps(requests),
    )  # fmt: skip
    return {name: (status, answer) for name, (status, answer) in json.loads(text).items()}


def _executor_like(pod: dict[str, Any], number: int) -> dict[str, Any]:
    """A further executor of the attempt: a copy of an executor that Spark has created."""
    twin = copy.deepcopy({part: pod[part] for part in ("apiVersion", "kind", "metadata", "spec")})
    kept = ("labels", "annotations", "ownerReferences")
    name = f"{pod['metadata']['name'].rpartition('-')[0]}-{number}"
    twin["metadata"] = {part: value for part, value in pod["metadata"].items() if part in kept} | {"name": name}
    twin["spec"].pop("nodeName", None)
    return twin


def assert_confined(cluster_job: ClusterJob) -> None:
    """Sends every attack from inside of the driver: each of them is refused, and an executor is not."""
    (mine, *_) = cluster_job.job.pods(names.ROLE_EXECUTOR)
    pods = f"/api/v1/namespaces/{cluster_job.namespace}/"
    create = f"{pods}pods?dryRun=All"
    twin = _executor_like(mine, 900)
    requests: dict[str, _Request] = {}
    for name, (attack, _) in pod_attacks(NAME, OTHER).items():
        pod = copy.deepcopy(twin)
        attack(pod)
        requests[name] = ("POST", create, pod, _JSON)
    named = {
        "foreign": "foreign", "other": f"{OTHER}-1-driver", "mine": mine["metadata"]["name"],
        "own": names.driver_pod(NAME, cluster_job.job.attempt),
    }  # fmt: skip
    for name, (method, path, body) in other_writes().items():
        kind = MERGE if method == "PATCH" else _JSON
        requests[name] = (method, filled(f"{pods}{path}", **named), filled(body, **named), kind)
    requests["a foreign Secret"] = ("GET", f"{pods}secrets/foreign", None, _JSON)
    requests["a pod in kube-system"] = ("POST", "/api/v1/namespaces/kube-system/pods", twin, _JSON)
    found = _answers(cluster_job, {**requests, "an executor": ("POST", create, twin, _JSON)})
    assert found.pop("an executor")[0] == 201
    assert {name: answer for name, answer in found.items() if answer[0] != 403} == {}
    left = {pod["metadata"]["name"] for pod in cluster_job.kubectl.list("pods", f"{names.LABEL_JOB}={OTHER}")}
    assert left == {"foreign", f"{OTHER}-1-driver"}
