"""Who can connect to whom, with the chart's NetworkPolicies and without: real connections from inside the pods."""

from __future__ import annotations

import json
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.installation import IMAGE_OF
from clusterjob.kubectl import Kubectl
from localcluster.machine.commands import run, succeeds
from localcluster.settings import NETWORK
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 2_000
OTHER = "other"
METRICS = 8090
STRANGERS_PORT = 8000
METADATA = ("169.254.88.1", 8088)
"""A server at a link-local address of the node, as clouds have one for the credentials of nodes."""
PATIENCE = 120.0

CONNECTS = """
import concurrent.futures, json, socket, sys
def connects(target):
    try:
        socket.create_connection(target, 3).close()
    except OSError:
        return False
    return True
targets = json.load(sys.stdin)
with concurrent.futures.ThreadPoolExecutor(len(targets)) as pool:
    print(json.dumps(list(pool.map(connects, targets.values()))))
"""
LISTENS = """
import json
ports = set()
for file in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in list(open(file))[1:]:
        _, local, _, state, *_ = line.split()
        address, port = local.split(":")
        if state == "0A" and not address.endswith(("0100007F", "0" * 25 + "1000000")):  # loopback
            ports.add(int(port, 16))
print(json.dumps(sorted(ports)))
"""
"""The ports at which a pod listens for others: a driver at Spark's two and the metrics', an executor at one."""

ALLOWED = {
    # from: the targets that it may connect to. No policy refuses a pod's connection to itself.
    "operator": {"API server", "operator"},
    "driver": {"operator", "metrics", "driver", "executor", "stranger", "API server", "Kafka"},
    "executor": {"operator", "metrics", "driver", "executor", "stranger", "API server", "Kafka"},
    # These pods have no NetworkPolicy of their own.
    "driver of another job": {"operator", "metrics", "stranger", "API server", "Kafka", "metadata"},
    "executor of another job": {"operator", "metrics", "stranger", "API server", "Kafka", "metadata"},
    "stranger of the namespace": {"operator", "metrics", "stranger", "API server", "Kafka", "metadata"},
    "stranger of another namespace": {"operator", "metrics", "stranger", "API server", "Kafka", "metadata"},
}
"""The table of docs/security.md."""


class Source(NamedTuple):
    """A container from which a test connects."""

    kubectl: Kubectl
    pod: str
    container: str

    def python(self, program: str, stdin: str = "") -> Any:
        """What the program prints there."""
        arguments = ("exec", "--stdin", self.pod, f"--container={self.container}", "--", "python3", "-c", program)
        return json.loads(self.kubectl.run(*arguments, stdin=stdin))


@pytest.fixture(scope="module")
def enforcing(environment: ClusterEnvironment) -> ClusterEnvironment:
    """A cluster that enforces NetworkPolicies."""
    if not environment.network_policies:
        reason = "this kernel has no ipset or no rules for bridged packets: the cluster enforces no NetworkPolicies"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return environment


@pytest.fixture(scope="module")
def metadata() -> Iterator[bool]:
    """A server at :data:`METADATA`; False in a kind cluster, whose nodes are not this machine."""
    if not succeeds(["ip", "link", "show", NETWORK.bridge]):
        yield False
        return
    address = f"{METADATA[0]}/32"
    run(["ip", "address", "replace", address, "dev", NETWORK.bridge])
    with socketserver.ThreadingTCPServer(METADATA, socketserver.BaseRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield True
        server.shutdown()
    run(["ip", "address", "delete", address, "dev", NETWORK.bridge])


def listener(name: str, **labels: str) -> dict[str, Any]:
    """A pod that listens at :data:`STRANGERS_PORT`."""
    drop = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    security = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "c", "image": IMAGE_OF["operator"], "imagePullPolicy": "IfNotPresent", "securityContext": drop,
        "command": ["python3", "-m", "http.server", str(STRANGERS_PORT)],
        "readinessProbe": {"tcpSocket": {"port": STRANGERS_PORT}, "periodSeconds": 1},
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
        "spec": {
            "containers": [container], "securityContext": security, "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        },
    }  # fmt: skip


class Matrix:
    """The pods of a job and those around it."""

    def __init__(self, cluster_job: ClusterJob, *, metadata: bool) -> None:
        self.cluster_job = cluster_job
        self.kubectl = cluster_job.kubectl
        self.elsewhere = self.kubectl.within(f"{cluster_job.namespace}-x")
        self.operator = self.kubectl.within(installation.NAMESPACE)
        self.metadata = metadata

    def prepare(self) -> None:
        """Starts a job with two executors, and the pods around it."""
        self.kubectl.ensure_namespace(self.elsewhere.namespace)
        around = [
            listener("other-driver", **{names.LABEL_JOB: OTHER, names.LABEL_ROLE: names.ROLE_DRIVER}),
            listener("other-executor", **{names.LABEL_JOB: OTHER, names.LABEL_ROLE: names.ROLE_EXECUTOR}),
            listener("stranger"),
        ]
        self.kubectl.apply(*around)
        self.elsewhere.apply(listener("stranger"))
        self.cluster_job.load(BATCH)
        self.cluster_job.apply(
            executor={"cores": 1, "memory": "512Mi"}, metrics={"prometheus": {"port": METRICS}},
        )  # fmt: skip
        self.cluster_job.job.wait_ready()
        self.cluster_job.job.wait_executors(2)
        pods = [f"pod/{pod['metadata']['name']}" for pod in around]
        self.kubectl.run("wait", "--for=condition=Ready", *pods, "--timeout=60s")
        self.elsewhere.run("wait", "--for=condition=Ready", "pod/stranger", "--timeout=60s")

    def connections(self) -> dict[str, set[str]]:
        """For each source, the targets to which it can connect at every port."""
        sources, targets = self._sources(), self._targets()
        with ThreadPoolExecutor(4) as pool:
            return dict(zip(sources, pool.map(lambda name: _connects(sources[name], targets), sources), strict=True))

    def _sources(self) -> dict[str, Source]:
        executor, _ = self._executors()
        return {
            "operator": Source(self.operator, self._operator()["metadata"]["name"], "operator"),
            "driver": self._driver(),
            "executor": Source(self.kubectl, executor, names.ROLE_EXECUTOR),
            "driver of another job": Source(self.kubectl, "other-driver", "c"),
            "executor of another job": Source(self.kubectl, "other-executor", "c"),
            "stranger of the namespace": Source(self.kubectl, "stranger", "c"),
            "stranger of another namespace": Source(self.elsewhere, "stranger", "c"),
        }

    def _operator(self) -> Mapping[str, Any]:
        """The pod of the operator. After an upgrade the previous pod may still be terminating."""
        pods = self.operator.list("pods", f"{installation.SELECTOR},app.kubernetes.io/name=kafkaspark-operator")
        (pod,) = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return pod

    def _driver(self) -> Source:
        return Source(self.kubectl, names.driver_pod(NAME, self.cluster_job.job.attempt), names.DRIVER_CONTAINER)

    def _executors(self) -> tuple[str, str]:
        first, second = sorted(pod["metadata"]["name"] for pod in self.cluster_job.job.pods(names.ROLE_EXECUTOR))
        return first, second

    def _targets(self) -> dict[str, list[tuple[str, int]]]:
        driver, (_, executor) = self._driver(), self._executors()
        listens = driver.python(LISTENS)
        assert METRICS in listens
        blocks = self._listens(executor)
        service = self.kubectl.within("default").get("service", "kubernetes")
        assert service is not None
        kafka, _, port = self.cluster_job.environment.bootstrap_pods.rpartition(":")
        targets = {
            "operator": [(self._operator()["status"]["podIP"], 8080)],
            "metrics": [(self._address(driver.pod), METRICS)],
            "driver": [(self._address(driver.pod), each) for each in listens if each != METRICS],
            "executor": [(self._address(executor), each) for each in blocks],
            "stranger": [(self._address("stranger"), STRANGERS_PORT)],
            "API server": [(service["spec"]["clusterIP"], 443)],
            "Kafka": [(kafka, int(port))],
            "metadata": [METADATA],
        }
        assert (len(targets["driver"]), len(targets["executor"])) == (2, 1), "Spark's servers"
        if not self.metadata:
            del targets["metadata"]
        return targets

    def _listens(self, executor: str) -> list[int]:
        """Where an executor serves its blocks. A new executor listens when its JVM has started."""
        deadline = time.monotonic() + PATIENCE
        while not (ports := Source(self.kubectl, executor, names.ROLE_EXECUTOR).python(LISTENS)):
            assert time.monotonic() < deadline, f"{executor} listens nowhere"
            time.sleep(1)
        return list(ports)

    def _address(self, pod: str) -> str:
        found = self.kubectl.get("pod", pod)
        assert found is not None
        return str(found["status"]["podIP"])


def _connects(source: Source, targets: Mapping[str, list[tuple[str, int]]]) -> set[str]:
    addresses = {f"{name} {port}": (host, port) for name, pairs in targets.items() for host, port in pairs}
    answers = dict(zip(addresses, source.python(CONNECTS, json.dumps(addresses)), strict=True))
    some = {name for name, pairs in targets.items() if any(answers[f"{name} {port}"] for _, port in pairs)}
    every = {name for name, pairs in targets.items() if all(answers[f"{name} {port}"] for _, port in pairs)}
    assert some == every, f"{source.pod} reaches a part of the ports: {answers}"
    return every


@pytest.fixture(scope="module")
def matrix(enforcing: ClusterEnvironment, make_cluster_job: MakeClusterJob, metadata: bool) -> Iterator[Matrix]:
    """A job that runs, and the policies in force again afterwards."""
    matrix = Matrix(make_cluster_job("network"), metadata=metadata)
    matrix.prepare()
    yield matrix
    matrix.kubectl.delete("namespace", matrix.elsewhere.namespace, wait=False)
    installation.install(enforcing)


def expected(matrix: Matrix, allowed: Mapping[str, set[str]]) -> dict[str, set[str]]:
    absent = set() if matrix.metadata else {"metadata"}
    return {source: targets - absent for source, targets in allowed.items()}


def assert_becomes(connections: Callable[[], Mapping[str, set[str]]], table: Mapping[str, set[str]]) -> None:
    """Rules and address sets follow policies and pods after a moment."""
    deadline = time.monotonic() + PATIENCE
    while (found := connections()) != table and time.monotonic() < deadline:
        time.sleep(1)
    assert found == table


def test_only_the_connections_of_the_table_are_allowed(matrix: Matrix) -> None:
    assert_becomes(matrix.connections, expected(matrix, ALLOWED))


def test_a_replaced_executor_has_the_same_connections(matrix: Matrix) -> None:
    cluster_job = matrix.cluster_job
    before = cluster_job.job.attempt
    killed = cluster_job.job.kill_executor()
    cluster_job.load(BATCH)
    cluster_job.job.wait_executors(2, without=killed["metadata"]["uid"])
    cluster_job.job.wait_pods(
        "Spark has deleted the pod of the executor that was killed",
        lambda pods: killed["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods.values()},
    )
    assert_becomes(matrix.connections, expected(matrix, ALLOWED))
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))
    assert cluster_job.job.attempt == before


def test_without_the_policies_every_connection_is_possible(matrix: Matrix, environment: ClusterEnvironment) -> None:
    """The policies refuse, and not a port at which nobody listens. The job runs on while they are switched."""
    before = matrix.cluster_job.job.attempt
    installation.install(environment, network_policies=False)
    every = set().union(*ALLOWED.values())
    assert_becomes(matrix.connections, expected(matrix, dict.fromkeys(ALLOWED, every)))
    assert matrix.kubectl.list("networkpolicies") == []
    installation.install(environment)
    assert_becomes(matrix.connections, expected(matrix, ALLOWED))
    assert matrix.cluster_job.job.attempt == before
