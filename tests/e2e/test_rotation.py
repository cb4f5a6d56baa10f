"""A job of the continuous engine with a client certificate: rescaled in its attempt, drained for another certificate.

The tests share a job, and depend on their order. Every record is counted.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from clusterjob.environment import ClusterEnvironment
from localcluster.kubernetes.pki import Certificate
from localcluster.settings import NETWORK
from sparkapp.model import names
from tests.support.kafka.secured_broker import grant, rights_of_job
from tests.support.kafka.tls.broker import USER, TlsBroker
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 5_000
KUBELET_SECONDS = 240.0
"""The kubelet looks at a pod's Secrets about every minute, and when the pod changes."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """A broker that pods reach at the node's address."""
    with TlsBroker(tmp_path_factory.mktemp("tls"), host=NETWORK.node_ip) as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster_job(operator: ClusterEnvironment, secured: TlsBroker) -> Iterator[ClusterJob]:
    """A job that runs, on that broker."""
    cluster_job = ClusterJob.make(replace(operator, bootstrap=secured.bootstrap), "rotation")
    grant(secured.bootstrap, *rights_of_job(cluster_job.namespace), admin={})
    cluster_job.kubectl.apply(
        secret("cluster-ca", ca_crt=secured.authority.certificate.read_bytes()), user_secret(secured.user)
    )
    cluster_job.load(BATCH)
    cluster_job.apply(
        engine="Continuous", executor={"cores": 1}, kafka=secured.spec("mtls"),
        source={"groupId": f"{cluster_job.namespace}.group"},
    )  # fmt: skip
    cluster_job.job.wait_ready()
    yield cluster_job
    cluster_job.close()


def secret(name: str, **files: bytes) -> dict[str, Any]:
    data = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in files.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def user_secret(pair: Certificate) -> dict[str, Any]:
    return secret(USER, user_crt=pair.certificate.read_bytes(), user_key=pair.key.read_bytes())


class Load:
    """Records that keep coming until :meth:`stop`."""

    def __init__(self, cluster_job: ClusterJob) -> None:
        self._cluster_job = cluster_job
        self._count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            self._count = self._cluster_job.load(20)

    def stop(self) -> int:
        """The number of all records of the source."""
        self._stop.set()
        self._thread.join(60)
        return self._count


def runs_with(parallelism: int, status: Mapping[str, Any]) -> bool:
    runs, executors = status.get("reason") == "Running", status.get("executors", {})
    return runs and status.get("parallelism") == executors.get("running") == parallelism


def test_up_and_down_in_one_attempt(cluster_job: ClusterJob) -> None:
    """kubectl scale: the driver stays, executors come and go."""
    job = cluster_job.job
    driver = cluster_job.kubectl.get("pod", names.driver_pod(NAME, job.attempt))
    assert driver is not None
    for parallelism in (3, 1, 2):
        job.rescale(parallelism)
        cluster_job.load(BATCH)
        job.wait(f"parallelism {parallelism}", partial(runs_with, parallelism))
        cluster_job.load(BATCH)
    records = cluster_job.load(BATCH)
    cluster_job.assert_exactly_once(records)
    assert job.attempt == 1
    stays = cluster_job.kubectl.get("pod", names.driver_pod(NAME, job.attempt))
    assert stays is not None
    assert stays["metadata"]["uid"] == driver["metadata"]["uid"]
    events = [event for event in job.events() if event["reason"] == "Rescaled"]
    assert len(events) == 3
    assert "ExecutorFailed" not in {event["reason"] for event in job.events()}


def test_a_new_client_certificate_is_used_after_one_drain(cluster_job: ClusterJob, secured: TlsBroker) -> None:
    """The Secret is changed with kubectl. The kubelet writes the files, and the job drains once for them."""
    load = Load(cluster_job)
    cluster_job.kubectl.apply(user_secret(secured.authority.issue(USER)))
    # The kubelet writes a pod's files at once when the pod has changed.
    cluster_job.kubectl.run("annotate", "pods", f"--selector={names.LABEL_JOB}={NAME}", "example.com/changed=yes")
    status = cluster_job.job.wait_ready(attempt_above=1, seconds=KUBELET_SECONDS)
    assert (status["attempt"]["id"], status["attempt"]["startReason"]) == (2, "Restarted")
    assert (status["restarts"]["total"], status["restarts"]["lastReason"]) == (1, "CredentialsChanged")
    assert cluster_job.job.failures == []
    assert "CredentialsChanged" in {event["reason"] for event in cluster_job.job.events()}
    records = load.stop()
    cluster_job.assert_exactly_once(records)
    assert cluster_job.job.attempt == 2
