"""A quota without room for a second executor: the job runs with one, says why, and is never restarted."""

from __future__ import annotations

import pytest

from clusterjob.live_job import KIND
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 2_000
USERS_LIMIT = 5
"""More refusals than this ended Spark's application."""
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "small"},
    "spec": {"hard": {"pods": "2"}},
}


@pytest.fixture
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job of one executor, in a namespace with room for that and its driver."""
    cluster_job = make_cluster_job("quota")
    cluster_job.kubectl.apply(QUOTA)
    cluster_job.load(BATCH)
    cluster_job.apply(
        engine="Continuous", parallelism=1, executor={"cores": 1},
        sparkConf={"spark.executor.maxNumFailures": str(USERS_LIMIT)},
    )  # fmt: skip
    cluster_job.job.wait_ready()
    return cluster_job


def refusals(cluster_job: ClusterJob, driver: str) -> int:
    """Requests of Spark's that were refused."""
    text = cluster_job.kubectl.run("exec", driver, "--", "sh", "-c", "cat /tmp/kafkaspark-pods-*.log*")
    return text.count("Failed to create executor pod")


def test_a_job_is_scaled_beyond_a_quota_and_back_without_a_restart(cluster_job: ClusterJob) -> None:
    attempt, driver = cluster_job.job.attempt, names.driver_pod(NAME, cluster_job.job.attempt)
    cluster_job.kubectl.run("scale", f"{KIND}/{NAME}", "--replicas=2")
    cluster_job.job.wait(
        "the quota in the status",
        lambda status: status.get("reason") == "ExecutorsPending" and "exceeded quota: small" in status["message"],
        seconds=40,
    )
    await_that("more refusals than failures", lambda: refusals(cluster_job, driver) > 2 * USERS_LIMIT, pause=2)
    cluster_job.kubectl.run("wait", "--for=condition=Ready", f"{KIND}/{NAME}", "--timeout=10s")
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))

    cluster_job.kubectl.run("scale", f"{KIND}/{NAME}", "--replicas=1")
    cluster_job.job.wait("Running", lambda status: status.get("reason") == "Running")
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))
    assert (cluster_job.job.attempt, cluster_job.job.status["restarts"]["total"]) == (attempt, 0)
