"""A job whose sink is on another Kafka cluster, on Kubernetes, through a kill of its driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusterjob.environment import ClusterEnvironment
from clusterjob.kafka.reading import read_committed
from clusterjob.kafka.topics import Topics
from clusterjob.kafka.transactions import open_transactions
from clusterjob.oracle import compare, same
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import ClusterJob
from tests.support.kubernetes.other_broker import beside_another_broker

RECORDS = 5_000


@pytest.fixture(scope="module")
def other(operator: ClusterEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterEnvironment]:
    """The Kubernetes cluster beside another broker."""
    with beside_another_broker(operator, tmp_path_factory.mktemp("other")) as found:
        yield found


@pytest.mark.parametrize("engine", ["MicroBatch", "Continuous"])
def test_a_copy_to_another_cluster_survives_a_kill(
    engine: str, other: ClusterEnvironment, make_cluster_job: MakeClusterJob
) -> None:
    cluster_job = make_cluster_job("copy")
    job, sink = cluster_job.job, Topics(other.bootstrap)
    sink.recreate([cluster_job.sink], partitions=2)
    cluster_job.load(RECORDS)
    kafka = {"bootstrapServers": other.bootstrap_pods}
    cluster_job.apply(engine=engine, sink={"kafka": kafka, "topic": cluster_job.sink})
    job.wait_ready()
    attempt = job.attempt
    job.kill_driver()
    cluster_job.load(RECORDS)
    job.wait_ready(attempt_above=attempt)
    job.wait_read(2 * RECORDS)
    cluster_job.suspend()
    require_each_once(cluster_job, other)


def require_each_once(cluster_job: ClusterJob, other: ClusterEnvironment) -> None:
    here = cluster_job.environment.bootstrap
    copied = read_committed(other.bootstrap, cluster_job.sink)
    verdict = compare(read_committed(here, cluster_job.source), copied, expect=same)
    assert verdict.exactly_once, verdict.explain()
    assert verdict.records_out == 2 * RECORDS
    for bootstrap in (here, other.bootstrap):
        assert open_transactions(bootstrap, cluster_job.prefix) == []
    assert Topics(other.bootstrap).held_back(cluster_job.sink) == 0
    assert read_committed(here, cluster_job.sink) == [], "nothing is written to the cluster of the source"
    print(verdict.explain())
