"""A Secret that is changed with kubectl: the kubelet writes the files, and the job drains once for it."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.kubernetes.pki import Certificate
from localcluster.settings import NETWORK
from sparkapp.clients.transactions.client import TransactionClient
from tests.e2e.conftest import MakeClusterJob
from tests.support.jobs.local_job import produce
from tests.support.kafka import visibility
from tests.support.kafka.secured_broker import grant, rights_of_job
from tests.support.kafka.tls.broker import USER, TlsBroker
from tests.support.kafka.topics import create_topics
from tests.support.kubernetes.cluster_job import ClusterJob

KUBELET_SECONDS = 240.0
"""The kubelet looks at a pod's Secrets about every minute."""


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[TlsBroker]:
    """A broker that pods reach at the node's address."""
    with TlsBroker(tmp_path / "tls", host=NETWORK.node_ip) as broker:
        yield broker


def secret(name: str, **files: bytes) -> dict[str, Any]:
    data = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in files.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def user_secret(pair: Certificate) -> dict[str, Any]:
    return secret(USER, user_crt=pair.certificate.read_bytes(), user_key=pair.key.read_bytes())


class Load:
    """Numbers that keep coming until :meth:`stop`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap, topic), daemon=True)
        self._thread.start()

    def _run(self, bootstrap: str, topic: str) -> None:
        while not self._stop.wait(0.5):
            produce(bootstrap, topic, self.count, 20)
            self.count += 20

    def stop(self) -> int:
        self._stop.set()
        self._thread.join(60)
        return self.count


def prepared(broker: TlsBroker, cluster_job: ClusterJob) -> None:
    """Topics, rights and Secrets of the job."""
    create_topics(broker.bootstrap, NewTopic(cluster_job.source, 4, 1), NewTopic(cluster_job.sink, 4, 1))
    grant(broker.bootstrap, *rights_of_job(cluster_job.namespace), admin={})
    cluster_job.kubectl.apply(
        secret("cluster-ca", ca_crt=broker.authority.certificate.read_bytes()), user_secret(broker.user)
    )


def test_a_new_client_certificate_is_used_after_one_drain(make_cluster_job: MakeClusterJob, secured: TlsBroker) -> None:
    cluster_job = make_cluster_job("rotation")
    prepared(secured, cluster_job)
    load = Load(secured.bootstrap, cluster_job.source)
    cluster_job.apply(kafka=secured.spec("mtls"), source={"groupId": f"{cluster_job.namespace}.group"})
    cluster_job.job.wait_ready()
    cluster_job.kubectl.apply(user_secret(secured.authority.issue(USER)))
    status = cluster_job.job.wait_ready(attempt_above=1, seconds=KUBELET_SECONDS)
    assert (status["attempt"]["id"], status["attempt"]["startReason"]) == (2, "Restarted")
    assert (status["restarts"]["total"], status["restarts"]["lastReason"]) == (1, "CredentialsChanged")
    assert cluster_job.job.failures == []
    assert "CredentialsChanged" in {event["reason"] for event in cluster_job.job.events()}
    records = load.stop()
    cluster_job.job.wait_read(records)
    assert sorted(visibility.numbers(secured.bootstrap, cluster_job.sink)) == list(range(records))
    client = TransactionClient({"bootstrap.servers": secured.bootstrap})
    assert visibility.open_transactions(client, cluster_job.prefix) == []
    client.close()
