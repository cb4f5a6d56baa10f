"""Two Kubernetes clusters with one Kafka cluster: jobs of the same names work next to one another (ADR 99)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model import names
from sparkapp.model.job.codec import decode_job
from tests.integration.kubeapi.conftest import operators
from tests.support.jobs.engine_host import EngineHost
from tests.support.jobs.local_job import LocalJob
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_server import api_server, programs
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place

RECORDS = 500


@pytest.fixture
def other(tmp_path: Path, place: Place) -> Iterator[Place]:
    """The same namespace of another cluster, as its administrator."""
    folder = tmp_path / "other"
    folder.mkdir()
    with api_server(folder, programs(folder / "bin")) as kubeconfig:
        client = ApiClient(kubeconfig)
        client.install_definition()
        client.call("POST", "/api/v1/namespaces", {"metadata": {"name": place.namespace}})
        yield Place(place.namespace, kubeconfig)


def description(job: LiveJob, folder: Path) -> LocalJob:
    """The job as the operator describes its first attempt to the driver, to be run on this machine."""
    job.await_driver(1, hold=False)
    folder.mkdir()
    described = decode_job(job.record(1)["data"][names.JOB_KEY])
    return LocalJob(folder=folder, spec=described.spec, uid=described.uid, host=EngineHost(folder))


@pytest.mark.broker
def test_jobs_of_the_same_names_fence_nobody(
    *, api: ApiClient, place: Place, other: Place, start_operator: Callable[..., OperatorProcess], tmp_path: Path,
    broker: str, make_topic: Callable[..., str], client: TransactionClient,
) -> None:  # fmt: skip
    source, sink = make_topic(4, "in"), make_topic(4, "out")
    spec = {
        "kafka": {"bootstrapServers": broker}, "engine": "Continuous", "checkpoint": {"intervalSeconds": 1},
        "source": {"topics": [source], "startup": {"mode": "Earliest"}}, "sink": {"topic": sink},
    }  # fmt: skip
    start_operator(cluster_id="eu1")
    with operators(other, tmp_path / "other") as start_there:
        start_there(cluster_id="us1")
        jobs = []
        for name, at in (("here", api), ("there", ApiClient(other.kubeconfig))):
            job = LiveJob(at, place.namespace)
            job.create(**spec)
            jobs.append(description(job, tmp_path / name))
    own = [{each.spec.source.group_id, each.spec.sink.transactional_id_prefix} for each in jobs]
    assert own == [{f"{place.namespace}.orders.eu1"}, {f"{place.namespace}.orders.us1"}]

    producer = idempotent_producer(broker)
    try:
        for each in jobs:
            each.start(alone=True)
        for round_number in range(1, 4):
            for number in range((round_number - 1) * RECORDS, round_number * RECORDS):
                producer.produce(source, str(number), partition=number % 4)
            assert producer.flush(30) == 0
            for each in jobs:
                each.await_records_in(round_number * RECORDS)
        assert [each.drain() for each in jobs] == [0, 0]
    finally:
        for each in jobs:
            each.kill()
    assert Counter(visibility.numbers(broker, sink)) == Counter(dict.fromkeys(range(3 * RECORDS), 2))
    prefixes = [each.spec.sink.transactional_id_prefix for each in jobs]
    assert visibility.open_transactions(client, *prefixes) == []
