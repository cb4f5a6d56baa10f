"""Canaries in every Secret of a real job: after success, crash and a refused login they are nowhere else."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import EXECUTOR_CONTAINER
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kafka.sasl_broker import USER, SaslBroker
from tests.support.kubernetes.canaries import Canaries, text_of
from tests.support.kubernetes.cluster_job import NAME, ClusterJob, numbered

RECORDS = 500
CANARIES = Canaries({"kafka": ("password",), "wrong": ("password",), "shop": ("api-key",), "files": ("token",)})
PASSWORD, WRONG = CANARIES.value("kafka", "password"), CANARIES.value("wrong", "password")
PROCESSES = "for file in /proc/[0-9]*/{}; do tr '\\0' '\\n' < $file; done 2>/dev/null; true"
FETCH = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"


def pod_parts(container: str) -> dict[str, Any]:
    """Fields of the driver or of executors: a variable and a volume from Secrets."""
    mount = {"name": container, "volumeMounts": [{"name": "files", "mountPath": "/mnt/files"}]}
    return {
        "env": [{"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "api-key"}}}],
        "podTemplate": {
            "spec": {"volumes": [{"name": "files", "secret": {"secretName": "files"}}], "containers": [mount]}
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def broker(environment: ClusterEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    host = environment.bootstrap_pods.rpartition(":")[0]
    with SaslBroker(tmp_path_factory.mktemp("sasl"), pods_host=host, password=PASSWORD) as running:
        yield running


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob, broker: SaslBroker) -> ClusterJob:
    """A job that runs, with a Secret of each kind: credentials, variable, volume and image registry."""
    cluster_job = make_cluster_job("canaries")
    broker.create_topics(cluster_job.source, cluster_job.sink)
    registries = {"auths": {"registry.example.com": {"auth": base64.b64encode(f"u:{PASSWORD}".encode()).decode()}}}
    pull = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps(registries)},
    }  # fmt: skip
    cluster_job.kubectl.run("create", "--filename=-", stdin=text_of(listed([*CANARIES.manifests(), pull])))
    authentication = {
        "type": "plain", "username": USER, "allowInsecure": True,
        "passwordSecret": {"secretName": "kafka", "password": "password"},
    }  # fmt: skip
    cluster_job.apply(
        kafka={"bootstrapServers": broker.bootstrap_pods, "authentication": authentication},
        imagePullSecrets=[{"name": "pull"}],
        driver=pod_parts(names.DRIVER_CONTAINER),
        executor=pod_parts(EXECUTOR_CONTAINER),
    )
    cluster_job.job.wait_ready()
    cluster_job.job.wait_executors(1)
    return cluster_job


def listed(objects: Sequence[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def load(cluster_job: ClusterJob, broker: SaslBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **broker.login})
    for record in numbered(range(RECORDS)):
        producer.produce(cluster_job.source, record.value, record.key)
    assert producer.flush(60) == 0


def everything(cluster_job: ClusterJob) -> dict[str, str]:
    """Every object but Secrets, and logs, metrics, arguments and termination messages of every pod."""
    found = {}
    for kubectl in (cluster_job.kubectl, cluster_job.kubectl.within(installation.NAMESPACE)):
        kinds = kubectl.run("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
        kinds.remove("secrets")
        found |= {f"{kubectl.namespace} {kind}": kubectl.run("get", kind, "--output=json") for kind in kinds}
        for pod in kubectl.list("pods"):
            if pod["status"]["phase"] == "Running":
                found |= inside(kubectl, pod)
    return found


def inside(kubectl: Kubectl, pod: dict[str, Any]) -> dict[str, str]:
    """What a running pod shows: its log, the arguments of its processes, its metrics."""
    name = pod["metadata"]["name"]
    found = {
        f"log of {name}": kubectl.run("logs", name, "--all-containers"),
        f"arguments in {name}": kubectl.run("exec", name, "--", "bash", "-c", PROCESSES.format("cmdline")),
    }
    role = pod["metadata"]["labels"].get(names.LABEL_ROLE)
    if role != names.ROLE_EXECUTOR:
        url = "http://127.0.0.1:8090/metrics" if role == names.ROLE_DRIVER else "http://127.0.0.1:8080/metrics"
        metrics = kubectl.run("exec", name, "--", "python3", "-c", FETCH, url)
        assert "kafkaspark_" in metrics
        found[f"metrics of {name}"] = metrics
    return found


def pod_logs(environment: ClusterEnvironment) -> list[str]:
    """Files of logs on the node that have a canary, those of deleted pods and of Kubernetes included."""
    word = PASSWORD.rpartition("-kafka")[0]
    done = subprocess.run(
        ["grep", "--recursive", "--fixed-strings", "--files-with-matches", word, str(environment.logs)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


def assert_no_leak(cluster_job: ClusterJob) -> None:
    parts = everything(cluster_job)
    assert CANARIES.leaks(parts) == []
    assert pod_logs(cluster_job.environment) == []


def test_the_search_finds_a_canary(cluster_job: ClusterJob) -> None:
    planted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "planted"}, "data": {"x": PASSWORD}}
    cluster_job.kubectl.run("create", "--filename=-", stdin=text_of(planted))
    found = CANARIES.leaks(everything(cluster_job))
    cluster_job.kubectl.delete("configmap", "planted")
    assert found == [f"{cluster_job.namespace} configmaps"]


def test_nothing_leaks_after_success(cluster_job: ClusterJob, broker: SaslBroker) -> None:
    load(cluster_job, broker)
    cluster_job.job.wait_read(RECORDS)
    assert_no_leak(cluster_job)


def test_only_the_variable_is_in_the_environment_of_processes(cluster_job: ClusterJob) -> None:
    key = CANARIES.value("shop", "api-key")
    for pod in cluster_job.kubectl.list("pods", f"{names.LABEL_JOB}={NAME}"):
        name = pod["metadata"]["name"]
        text = cluster_job.kubectl.run("exec", name, "--", "bash", "-c", PROCESSES.format("environ"))
        assert f"API_KEY={key}" in text
        assert CANARIES.leaks({name: text}, allowed=[key]) == []


def test_nothing_leaks_after_a_crash(cluster_job: ClusterJob) -> None:
    before = cluster_job.job.attempt
    cluster_job.job.kill_driver()
    cluster_job.job.wait_ready(attempt_above=before)
    cluster_job.job.wait_executors(1)
    assert cluster_job.job.status["lastFailure"]["attempt"] == before
    assert_no_leak(cluster_job)


def test_nothing_leaks_after_a_refused_login(cluster_job: ClusterJob) -> None:
    cluster_job.kubectl.patch("secret", "kafka", {"stringData": {"password": WRONG}})
    cluster_job.change(restartNonce=1)
    status = cluster_job.job.wait(
        "a refused login", lambda status: status.get("lastFailure", {}).get("reason") == "AuthenticationFailed"
    )
    assert status["lastFailure"]["log"]
    # Its drivers come and go until then. The node keeps their logs, and the status the last termination message.
    cluster_job.change(suspend=True)
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    assert_no_leak(cluster_job)
