"""kubectl scale with the continuous engine: the driver stays, executors come and go, every record is counted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 5_000


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    cluster_job = make_cluster_job("in-place")
    cluster_job.load(BATCH)
    cluster_job.apply(engine="Continuous", executor={"cores": 1})
    cluster_job.job.wait_ready()
    return cluster_job


def runs_with(parallelism: int, status: Mapping[str, Any]) -> bool:
    runs, executors = status.get("reason") == "Running", status.get("executors", {})
    return runs and status.get("parallelism") == executors.get("running") == parallelism


def test_up_and_down_in_one_attempt(cluster_job: ClusterJob) -> None:
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
