"""Code inside a running driver, with the driver's token: it gets no further than its own executors."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from clusterjob import installation
from clusterjob.installation import IMAGE_OF
from clusterjob.kubectl import CommandFailed
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.attacks import MERGE, filled, other_writes, pod_attacks
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 5_000
OTHER = "other"
ADMIN = "admin"
QUICK = {
    "spark.network.timeout": "20s", "spark.network.timeoutInterval": "5s", "spark.executor.heartbeatInterval": "2s",
}  # fmt: skip
"""Spark gives an executor up after 20 s without a heartbeat, not after two minutes."""

SENDS = """
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

Request = tuple[str, str, Any, str]
JSON = "application/json"


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job that runs, beside a foreign Secret, service account, claim and pod."""
    cluster_job = make_cluster_job("confined")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foreign"}, "stringData": {"k": "value"}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ADMIN}}
    cluster_job.kubectl.apply(secret, account, bystander("foreign"), bystander(f"{OTHER}-1-driver"))
    cluster_job.load(BATCH)
    cluster_job.apply(sparkConf=QUICK)
    cluster_job.job.wait_ready()
    cluster_job.job.wait_executors(1)
    return cluster_job


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


def answers(cluster_job: ClusterJob, requests: Mapping[str, Request]) -> dict[str, tuple[int, str]]:
    """What the API server answers to the driver of the current attempt."""
    driver = names.driver_pod(NAME, cluster_job.job.attempt)
    text = cluster_job.kubectl.run(
        "exec", "--stdin", driver, f"--container={names.DRIVER_CONTAINER}", "--", "python3", "-c", SENDS,
        stdin=json.dumps(requests),
    )  # fmt: skip
    return {name: (status, answer) for name, (status, answer) in json.loads(text).items()}


def executor_like(pod: dict[str, Any], number: int) -> dict[str, Any]:
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
    twin = executor_like(mine, 900)
    requests: dict[str, Request] = {}
    for name, (attack, _) in pod_attacks(NAME, OTHER).items():
        pod = copy.deepcopy(twin)
        attack(pod)
        requests[name] = ("POST", create, pod, JSON)
    named = {
        "foreign": "foreign", "other": f"{OTHER}-1-driver", "mine": mine["metadata"]["name"],
        "own": names.driver_pod(NAME, cluster_job.job.attempt),
    }  # fmt: skip
    for name, (method, path, body) in other_writes().items():
        kind = MERGE if method == "PATCH" else JSON
        requests[name] = (method, filled(f"{pods}{path}", **named), filled(body, **named), kind)
    requests["a foreign Secret"] = ("GET", f"{pods}secrets/foreign", None, JSON)
    requests["a pod in kube-system"] = ("POST", "/api/v1/namespaces/kube-system/pods", twin, JSON)
    found = answers(cluster_job, {**requests, "an executor": ("POST", create, twin, JSON)})
    assert found.pop("an executor")[0] == 201
    assert {name: answer for name, answer in found.items() if answer[0] != 403} == {}
    bystanders = {pod["metadata"]["name"] for pod in cluster_job.kubectl.list("pods", f"{names.LABEL_JOB}={OTHER}")}
    assert bystanders == {"foreign", f"{OTHER}-1-driver"}


def test_a_running_driver_is_confined(cluster_job: ClusterJob) -> None:
    assert_confined(cluster_job)
    cluster_job.assert_exactly_once(BATCH)


def test_every_namespace_admits_restricted_pods_only(cluster_job: ClusterJob) -> None:
    """Those of the other tests are made by the same function; Kubernetes' own have no operator and no job."""
    there = cluster_job.kubectl.list("namespaces")
    active = [one["metadata"]["name"] for one in there if one["status"]["phase"] == "Active"]
    ours = [name for name in active if name != "default" and not name.startswith("kube-")]
    assert {cluster_job.namespace, installation.NAMESPACE} <= set(ours)
    for name in ours:
        pod = bystander("privileged")
        pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
        with pytest.raises(CommandFailed, match='violates PodSecurity "restricted'):
            cluster_job.kubectl.within(name).run("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))


def test_it_scales_loses_and_replaces_executors_meanwhile(cluster_job: ClusterJob) -> None:
    before = cluster_job.job.attempt
    cluster_job.job.rescale(4)
    cluster_job.load(BATCH)
    cluster_job.job.wait_ready(attempt_above=before)
    cluster_job.job.wait_executors(2)
    attempt = cluster_job.job.attempt
    assert_confined(cluster_job)

    killed = cluster_job.job.kill_executor()
    cluster_job.load(BATCH)
    cluster_job.job.wait_executors(2, without=killed["metadata"]["uid"])
    cluster_job.job.wait_pods(
        "Spark has deleted the pod of the executor that was killed",
        lambda pods: killed["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods.values()},
    )
    assert_confined(cluster_job)
    records = cluster_job.load(BATCH)
    cluster_job.assert_exactly_once(records)
    assert cluster_job.job.attempt == attempt


def test_a_frozen_executor_is_deleted_and_replaced(cluster_job: ClusterJob) -> None:
    """Its pod still runs, so Kubernetes leaves it; Spark deletes executors without a heartbeat by a selector."""
    frozen = cluster_job.job.freeze_executor()
    cluster_job.load(BATCH)
    cluster_job.job.wait_executors(2, without=frozen["metadata"]["uid"])
    cluster_job.job.wait_pods(
        "Spark has deleted the pod of the frozen executor",
        lambda pods: frozen["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods.values()},
    )
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))


def test_a_drained_driver_leaves_no_executor(cluster_job: ClusterJob) -> None:
    cluster_job.change(suspend=True)
    cluster_job.job.wait("Suspended", lambda status: status.get("state") == "Suspended")
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    cluster_job.assert_nothing_open()
