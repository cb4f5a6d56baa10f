"""Attempts that come up beside the one that runs: no record is lost or twice, and nobody waits for a start."""

from __future__ import annotations

import pytest

from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 5_000


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job with an attempt that stands by."""
    cluster_job = make_cluster_job("successor")
    cluster_job.load(BATCH)
    cluster_job.apply(restartPolicy={"successor": "Standby"})
    cluster_job.job.wait_ready()
    return cluster_job


def test_the_standby_follows_a_frozen_driver_which_is_harmless_when_it_thaws(
    cluster_job: ClusterJob,
) -> None:
    before = cluster_job.job.attempt
    cluster_job.await_prepared(before + 1)
    standby = cluster_job.kubectl.get("pod", names.driver_pod(NAME, before + 1))
    assert standby is not None
    frozen = cluster_job.job.freeze_driver()
    cluster_job.load(BATCH)
    status = cluster_job.job.wait_ready(attempt_above=before)
    assert status["lastFailure"]["reason"] == "HeartbeatTimeout"
    # Within its pod's grace period it resumes next to its successor, and drains.
    cluster_job.job.thaw(frozen)
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))
    driver = cluster_job.kubectl.get("pod", names.driver_pod(NAME, cluster_job.job.attempt))
    assert driver is not None
    assert driver["metadata"]["uid"] == standby["metadata"]["uid"], "the one that stood by, not a new one"


def test_a_rescale_goes_to_an_attempt_that_is_prepared(cluster_job: ClusterJob) -> None:
    before = cluster_job.job.attempt
    cluster_job.job.rescale(3)
    cluster_job.job.wait_ready(attempt_above=before)
    assert cluster_job.job.status["parallelism"] == 3
    records = cluster_job.load(BATCH)
    cluster_job.assert_exactly_once(records)
    reasons = {each["reason"] for each in cluster_job.job.events()}
    assert {"SuccessorStarted", "RescaleStarted", "TurnGiven", "Rescaled"} <= reasons


def test_a_job_that_is_suspended_keeps_nobody(cluster_job: ClusterJob) -> None:
    cluster_job.suspend()
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    cluster_job.assert_nothing_open()
