"""Canaries in every Secret of a real job: after records, a crash and a refused login they are nowhere else."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import EXECUTOR_CONTAINER, condition_of
from localcluster.settings import NETWORK
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kafka.schema_registry import RegistryServer, basic, framed, registry
from tests.support.kafka.secured_broker import grant, rights_of_job
from tests.support.kafka.tls.broker import USER, TlsBroker
from tests.support.kafka.topics import create_topics
from tests.support.kubernetes.canaries import Canaries, text_of
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

RECORDS = 500
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
SECRETS = {
    USER: ("password",), "registry": ("password", "token"), "wrong": ("password", "token"), "shop": ("api-key",),
    "files": ("token",),
}  # fmt: skip
"""Keys with canaries; those of ``wrong`` replace others for a refused login."""
PROCESSES = "for file in /proc/[0-9]*/{}; do tr '\\0' '\\n' < $file; done 2>/dev/null; true"
FETCH = "import sys, urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"


@dataclass(frozen=True)
class Access:
    """How a job proves to brokers and registry who it is.

    :param kafka: one of the authentications of :class:`TlsBroker`.
    :param registry: ``source.schemaRegistry.authentication``.
    :param header: what the registry wants, with the canary of its Secret.
    :param refused: Secret and key of the credential that the test replaces, and the reason of the failure.
    :param condition: what is False then, together with Ready.
    """

    kafka: str
    registry: dict[str, Any]
    header: str
    refused: tuple[str, str, str]
    condition: str


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
def broker(environment: ClusterEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("tls"), host=NETWORK.node_ip) as running:
        yield running


@pytest.fixture(scope="module")
def schemas(broker: TlsBroker) -> Iterator[RegistryServer]:
    certificate = broker.authority.issue("registry", NETWORK.node_ip)
    with registry(host=NETWORK.node_ip, certificate=certificate) as running:
        yield running


@pytest.fixture(scope="module")
def canaries(broker: TlsBroker) -> Canaries:
    pair = broker.user
    files = {
        "cluster-ca": {"ca.crt": broker.authority.certificate.read_text()},
        USER: {"user.crt": pair.certificate.read_text(), "user.key": pair.key.read_text()},
    }
    made = Canaries(SECRETS, files)
    broker.set_password(made.value(USER, "password"))
    return made


@pytest.fixture(scope="module", params=["passwords", "key and token"])
def access(request: pytest.FixtureRequest, canaries: Canaries) -> Access:
    if request.param == "passwords":
        by_password = {"type": "basic", "username": USER, "passwordSecret": {"secretName": "registry"}}
        return Access(
            "scram-sha-512", by_password, basic(USER, canaries.value("registry", "password")),
            (USER, "password", "AuthenticationFailed"), "KafkaReachable",
        )  # fmt: skip
    by_token = {"type": "bearer", "accessToken": {"secretName": "registry", "key": "token"}}
    return Access(
        "mtls", by_token, f"Bearer {canaries.value('registry', 'token')}",
        ("registry", "token", "SchemaRegistryAccessDenied"), "Ready",
    )  # fmt: skip


@pytest.fixture(scope="module")
def cluster_job(
    make_cluster_job: MakeClusterJob, broker: TlsBroker, schemas: RegistryServer, canaries: Canaries, access: Access
) -> ClusterJob:
    """A job that runs, with a Secret of each kind: credentials, certificates, variable, volume and image registry."""
    cluster_job = make_cluster_job("canaries")
    create_topics(broker.bootstrap, NewTopic(cluster_job.source, 4, 1), NewTopic(cluster_job.sink, 4, 1))
    grant(broker.bootstrap, *rights_of_job(cluster_job.namespace), admin={})
    schemas.authorization = access.header
    schemas.register(f"{cluster_job.source}-value", SCHEMA)
    login = base64.b64encode(f"u:{canaries.value(USER, 'password')}".encode()).decode()
    pull = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {"registry.example.com": {"auth": login}}})},
    }  # fmt: skip
    cluster_job.kubectl.run("create", "--filename=-", stdin=text_of(listed([*canaries.manifests(), pull])))
    kafka = broker.spec(access.kafka)
    cluster_job.apply(
        kafka=kafka,
        source={
            "groupId": f"{cluster_job.namespace}.group", "format": {"value": "avro"},
            "schemaRegistry": {"url": schemas.url, "authentication": access.registry, "tls": kafka["tls"]},
        },
        transform={"sql": {"query": "SELECT key, CAST(value.id AS STRING) AS value FROM source"}},
        imagePullSecrets=[{"name": "pull"}],
        driver=pod_parts(names.DRIVER_CONTAINER),
        executor=pod_parts(EXECUTOR_CONTAINER),
    )  # fmt: skip
    cluster_job.job.wait_ready()
    cluster_job.job.wait_executors(1)
    return cluster_job


def listed(objects: Sequence[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def load(cluster_job: ClusterJob, broker: TlsBroker, schemas: RegistryServer) -> None:
    (schema,) = schemas.subjects[f"{cluster_job.source}-value"]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(RECORDS):
        producer.produce(cluster_job.source, framed(schema, SCHEMA, {"id": number}), b"%d" % number)
    assert producer.flush(60) == 0


def everything(cluster_job: ClusterJob) -> dict[str, str]:
    """Every object but Secrets, and logs, metrics, arguments and termination messages of every pod."""
    found: dict[str, str] = {}
    for kubectl in (cluster_job.kubectl, cluster_job.kubectl.within(installation.NAMESPACE)):
        kinds = kubectl.run("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
        kinds.remove("secrets")
        for each in json.loads(kubectl.run("get", ",".join(kinds), "--output=json"))["items"]:
            kind = f"{kubectl.namespace} {each['kind']}"
            found[kind] = found.get(kind, "") + text_of(each)
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


def pod_logs(environment: ClusterEnvironment, canaries: Canaries) -> list[str]:
    """Files of logs on the node that have a canary, those of deleted pods and of Kubernetes included."""
    done = subprocess.run(
        ["grep", "--recursive", "--fixed-strings", "--files-with-matches", "--file=-", str(environment.logs)],
        input="\n".join(canaries.forms), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.splitlines()


def assert_no_leak(cluster_job: ClusterJob, canaries: Canaries) -> None:
    parts = everything(cluster_job)
    assert canaries.leaks(parts) == []
    assert pod_logs(cluster_job.environment, canaries) == []


def test_the_search_finds_each_canary(cluster_job: ClusterJob, canaries: Canaries) -> None:
    values = [canaries.value(secret, key) for secret, keys in canaries.secrets.items() for key in keys]
    for value in values:
        encoded = base64.b64encode(f"user:{value}".encode()).decode()
        assert canaries.leaks({"as it is": text_of([value]), "in base64": encoded}) == ["as it is", "in base64"]
    planted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "planted"}, "data": {"x": values[-1]}}
    cluster_job.kubectl.run("create", "--filename=-", stdin=text_of(planted))
    found = canaries.leaks(everything(cluster_job))
    cluster_job.kubectl.delete("configmap", "planted")
    assert found == [f"{cluster_job.namespace} ConfigMap"]


def test_only_the_variable_is_in_the_environment_of_processes(cluster_job: ClusterJob, canaries: Canaries) -> None:
    key = canaries.value("shop", "api-key")
    for pod in cluster_job.kubectl.list("pods", f"{names.LABEL_JOB}={NAME}"):
        name = pod["metadata"]["name"]
        text = cluster_job.kubectl.run("exec", name, "--", "bash", "-c", PROCESSES.format("environ"))
        assert f"API_KEY={key}" in text
        assert canaries.leaks({name: text}, allowed=[key]) == []


def test_nothing_leaks_after_records_and_a_crash(
    cluster_job: ClusterJob, broker: TlsBroker, schemas: RegistryServer, canaries: Canaries
) -> None:
    """The node keeps the logs of the driver that was killed."""
    load(cluster_job, broker, schemas)
    cluster_job.job.wait_read(RECORDS)
    before = cluster_job.job.attempt
    cluster_job.job.kill_driver()
    cluster_job.job.wait_ready(attempt_above=before)
    cluster_job.job.wait_executors(1)
    assert cluster_job.job.status["lastFailure"]["attempt"] == before
    assert_no_leak(cluster_job, canaries)


def test_nothing_leaks_after_a_refused_login(cluster_job: ClusterJob, canaries: Canaries, access: Access) -> None:
    secret, key, reason = access.refused
    cluster_job.kubectl.patch("secret", secret, {"stringData": {key: canaries.value("wrong", key)}})
    cluster_job.change(restartNonce=1)
    status = cluster_job.job.wait(
        "a refused login", lambda status: status.get("lastFailure", {}).get("reason") == reason
    )
    assert status["lastFailure"]["log"]
    assert status["lastFailure"]["fatal"] is False
    assert "authentication" in status["lastFailure"]["remedy"]
    assert condition_of(status, "Ready")["status"] == "False"
    condition = condition_of(status, access.condition)
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert any(each["reason"] == reason and each["type"] == "Warning" for each in cluster_job.job.events())
    # Its drivers come and go until it is suspended. The node keeps their logs, the status the last termination message.
    cluster_job.suspend()
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    assert_no_leak(cluster_job, canaries)
