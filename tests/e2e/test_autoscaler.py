"""The autoscaler on the cluster: four times the load is followed in place within seconds, and every record is once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from clusterjob.kafka.reading import read_committed
from clusterjob.live_job import KIND
from clusterjob.oracle import longest_pause
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

CALM, MORE = 250, 1000
"""Records a second. The function takes a millisecond for each, so a subtask reads somewhat less than 1000.

It gives them on in small parts. Else a pause would be the time that the function takes for a large batch.
"""
FOLLOWED_SECONDS = 10.0
LONGEST_PAUSE = 3.0
"""In seconds, between two records by their own times. A quiet machine has needed 0.5."""
FITS = frozenset({"Balanced", "WaitsToShrink"})
"""Findings of a job with enough subtasks."""
_MODULE = """
import time

def slow(batch):
    batch = batch.drop_columns(["timestamp"])
    for first in range(0, batch.num_rows, 20):
        part = batch.slice(first, 20)
        time.sleep(0.001 * part.num_rows)
        yield part
"""


@pytest.fixture
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """One subtask, in an executor with places for four: a source of four partitions."""
    cluster_job = make_cluster_job("autoscaler")
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"slow.py": _MODULE}}
    cluster_job.kubectl.apply(code)
    cluster_job.load(CALM)
    cluster_job.apply(
        engine="Continuous", parallelism=1, executor={"cores": 4},
        transform={"arrow": {"function": "slow:slow", "configMapRef": {"name": "code"}}},
        autoscaler={
            "maxParallelism": 4, "stabilizationSeconds": 1, "scaleDownDelaySeconds": 20, "catchUpSeconds": 60,
        },
    )  # fmt: skip
    cluster_job.job.wait_ready()
    return cluster_job


@contextmanager
def pouring(cluster_job: ClusterJob, rate: int, seconds: int) -> Iterator[Future[int]]:
    """Records come at that rate meanwhile."""
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(cluster_job.load, rate * seconds, rate=rate)
        yield future
        future.result()


def test_four_times_the_load_is_followed_in_place_within_seconds(cluster_job: ClusterJob) -> None:
    job = cluster_job.job
    with pouring(cluster_job, CALM, 30):
        job.wait("a load that fits", lambda status: finding(status) in FITS, seconds=60)
        assert job.status["parallelism"] == 1
    began, since = time.monotonic(), time.time()
    with pouring(cluster_job, MORE, 40) as loaded:
        job.wait("more subtasks", lambda status: status.get("parallelism", 1) > 1, seconds=60)
        followed = time.monotonic() - began
        job.wait("a load that fits", lambda status: finding(status) in FITS, seconds=60)
        until = time.time()
    cluster_job.assert_exactly_once(loaded.result())
    sink = read_committed(cluster_job.environment.bootstrap, cluster_job.sink)
    pause = longest_pause(sink, since=since, until=until)
    print(f"followed after {followed:.1f} s, {pause:.2f} s without a record: {job.status['autoscaler']}")
    assert job.attempt == 1, "in place"
    found = cluster_job.kubectl.get(KIND, NAME)
    assert found is not None
    assert found["spec"]["parallelism"] == 1, "the spec is its owner's"
    assert followed <= FOLLOWED_SECONDS
    assert pause <= LONGEST_PAUSE

    job.wait("one subtask again", lambda status: status.get("parallelism") == 1, seconds=120)
    cluster_job.assert_exactly_once(cluster_job.load(CALM))
    reasons = [event["reason"] for event in job.events()]
    assert {"ScalingUp", "ScalingDown", "Rescaled"} <= set(reasons)
    assert job.status["restarts"]["total"] == 0


def finding(status: Mapping[str, Any]) -> str:
    return str(status.get("autoscaler", {}).get("reason", ""))
