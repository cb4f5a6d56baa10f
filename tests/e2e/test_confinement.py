"""Code inside a running driver, with the driver's token: it gets no further than its own executors."""

from __future__ import annotations

import json

import pytest

from clusterjob import installation
from clusterjob.kubectl import CommandFailed
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import ClusterJob
from tests.support.kubernetes.confined_driver import assert_confined, bystander, bystanders

BATCH = 5_000
QUICK = {
    "spark.network.timeout": "20s", "spark.network.timeoutInterval": "5s", "spark.executor.heartbeatInterval": "2s",
}  # fmt: skip
"""Spark gives an executor up after 20 s without a heartbeat, not after two minutes."""


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job that runs, beside a foreign Secret, service account, claim and pod."""
    cluster_job = make_cluster_job("confined")
    cluster_job.kubectl.apply(*bystanders())
    cluster_job.load(BATCH)
    cluster_job.apply(sparkConf=QUICK)
    cluster_job.job.wait_ready()
    cluster_job.job.wait_executors(1)
    return cluster_job


def test_a_running_driver_is_confined(cluster_job: ClusterJob) -> None:
    assert_confined(cluster_job)
    cluster_job.assert_exactly_once(BATCH)


def test_every_namespace_admits_restricted_pods_only(cluster_job: ClusterJob) -> None:
    """Those of the other tests are made by the same function; Kubernetes' own have no operator and no job."""
    there = cluster_job.kubectl.list("namespaces")
    active = [each["metadata"]["name"] for each in there if each["status"]["phase"] == "Active"]
    ours = [name for name in active if name != "default" and not name.startswith("kube-")]
    assert {cluster_job.namespace, installation.NAMESPACE} <= set(ours)
    for name in ours:
        pod = bystander("privileged")
        pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
        with pytest.raises(CommandFailed, match='violates PodSecurity "restricted'):
            cluster_job.kubectl.within(name).run("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))


def test_it_scales_loses_and_replaces_executors_meanwhile(cluster_job: ClusterJob) -> None:
    before = cluster_job.job.attempt
    cluster_job.job.rescale(4)
    cluster_job.load(BATCH)
    cluster_job.job.wait_ready(attempt_above=before)
    cluster_job.job.wait_executors(2)
    attempt = cluster_job.job.attempt
    assert_confined(cluster_job)

    killed = cluster_job.job.kill_executor()
    cluster_job.load(BATCH)
    cluster_job.job.wait_executors(2, without=killed["metadata"]["uid"])
    cluster_job.job.wait_pods(
        "Spark has deleted the pod of the executor that was killed",
        lambda pods: killed["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods.values()},
    )
    assert_confined(cluster_job)
    records = cluster_job.load(BATCH)
    cluster_job.assert_exactly_once(records)
    assert cluster_job.job.attempt == attempt


def test_a_frozen_executor_is_deleted_and_replaced(cluster_job: ClusterJob) -> None:
    """Its pod still runs, so Kubernetes leaves it; Spark deletes executors without a heartbeat by a selector."""
    frozen = cluster_job.job.freeze_executor()
    cluster_job.load(BATCH)
    cluster_job.job.wait_executors(2, without=frozen["metadata"]["uid"])
    cluster_job.job.wait_pods(
        "Spark has deleted the pod of the frozen executor",
        lambda pods: frozen["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in pods.values()},
    )
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))


def test_a_drained_driver_leaves_no_executor(cluster_job: ClusterJob) -> None:
    cluster_job.suspend()
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    cluster_job.assert_nothing_open()
