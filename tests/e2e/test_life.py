"""The life of a job on the cluster, in one test: crash, rescale, hostile code, suspend, upgrade, and deletion.

This is what ``make test`` knows of the cluster. The other files look at each of these in detail, in ``make test-all``.
"""

from __future__ import annotations

from clusterjob.watch import Watch
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob
from tests.support.kubernetes.confined_driver import assert_confined, bystanders

BATCH = 5_000


def test_a_job_through_crash_rescale_suspend_upgrade_and_deletion(make_cluster_job: MakeClusterJob) -> None:
    cluster_job = make_cluster_job("life")
    cluster_job.kubectl.apply(*bystanders())
    job = cluster_job.job
    cluster_job.load(BATCH)
    cluster_job.apply()
    cluster_job.assert_exactly_once(BATCH)
    assert job.attempt == 1

    job.kill_driver()
    crashed = cluster_job.load(BATCH)
    job.wait_ready(attempt_above=1)
    cluster_job.assert_exactly_once(crashed)
    assert job.status["restarts"]["total"] == 1
    assert job.status["lastFailure"]["reason"] == "DriverKilled"

    job.rescale(3)
    rescaled = cluster_job.load(BATCH)
    job.wait_ready(attempt_above=2, parallelism=3)
    cluster_job.assert_exactly_once(rescaled)
    assert_confined(cluster_job)

    cluster_job.suspend()
    job.wait_pods("no pod is left", lambda pods: not pods)
    cluster_job.assert_nothing_open()
    suspended = cluster_job.load(BATCH)

    # The resumed job runs another version of its description.
    cluster_job.change(suspend=False, checkpoint={"intervalSeconds": 2}, driver={"env": [{"name": "V", "value": "2"}]})
    job.wait_ready(attempt_above=3)
    cluster_job.assert_exactly_once(suspended)
    assert job.status["restarts"]["total"] == 1

    assert_deleted(cluster_job)


def assert_deleted(cluster_job: ClusterJob) -> None:
    """Deletes the job; nothing of it is left in the cluster, and nothing is open in Kafka."""
    cluster_job.job.delete()
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    cluster_job.assert_nothing_open()
    for kind in ("configmaps", "secrets", "serviceaccounts", "roles", "rolebindings", "networkpolicies"):
        with Watch(cluster_job.kubectl, kind, f"--selector={names.LABEL_JOB}={NAME}") as watch:
            watch.wait(f"no object of {kind} is left", lambda found: not found)
