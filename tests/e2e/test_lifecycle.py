"""A job as a person steers it, and absences of the operator; the tests depend on their order.

Its pods run with a user and group as OpenShift chooses them: without an entry in /etc/passwd, in group 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import KIND
from clusterjob.watch import Watch
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob, start_operator, stop_operator
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 5_000
USER = 1000670000


@pytest.fixture(scope="module")
def cluster_job(operator: ClusterEnvironment, make_cluster_job: MakeClusterJob) -> Iterator[ClusterJob]:
    """One job that runs, shared by the module: each test leaves it as it found it, up to the last one."""
    chosen = {"runAsUser": USER, "runAsGroup": None, "fsGroup": USER}
    installation.install(operator, values={f"job.podSecurityContext.{name}": id_ for name, id_ in chosen.items()})
    cluster_job = make_cluster_job("life")
    cluster_job.load(BATCH)
    cluster_job.apply()
    cluster_job.job.wait_ready()
    yield cluster_job
    cluster_job.job.delete()
    installation.install(operator)


def pod_uids(cluster_job: ClusterJob) -> dict[str, str]:
    """Driver and executors of the current attempt."""
    pods = cluster_job.job.pods(names.ROLE_DRIVER) + cluster_job.job.pods(names.ROLE_EXECUTOR)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


def test_conditions_follow_the_conventions(cluster_job: ClusterJob) -> None:
    cluster_job.kubectl.run("wait", "--for=condition=Ready", f"{KIND}/{NAME}", "--timeout=10s")
    cluster_job.assert_exactly_once(BATCH)
    healthy = {
        **dict.fromkeys(("Ready", "ConfigValid", "KafkaReachable", "StateValid"), "True"),
        **dict.fromkeys(("CheckpointHealthy", "TransactionsHealthy", "ExecutorsAvailable"), "True"),
        **dict.fromkeys(("Reconciling", "Stalled"), "False"),
        # The cluster's only broker has one copy of every topic.
        "TransactionsDurable": "False",
    }
    # The driver looks for open transactions every ten seconds, and none is known before its first look.
    cluster_job.job.wait(
        "every condition",
        lambda status: {each["type"]: each["status"] for each in status.get("conditions", ())} == healthy,
    )
    assert cluster_job.kubectl.run("get", "ksj", NAME, "--output=jsonpath={.status.parallelism}") == "2"
    described = cluster_job.kubectl.run("describe", "ksj", NAME)
    assert "topic __consumer_offsets has one copy" in described
    assert "kafka-reassign-partitions.sh" in described


def test_a_user_without_a_name_completes_checkpoints(cluster_job: ClusterJob) -> None:
    cluster_job.assert_exactly_once(BATCH)
    driver = names.driver_pod(NAME, cluster_job.job.attempt)
    (executor, *_) = cluster_job.job.pods(names.ROLE_EXECUTOR)
    for pod in (driver, executor["metadata"]["name"]):
        assert cluster_job.kubectl.run("exec", pod, "--", "id").startswith(
            f"uid={USER} gid=0(root) groups=0(root),{USER}"
        )
        # The image's allocator stays, next to the library that gives the user a name.
        loaded = cluster_job.kubectl.run("exec", pod, "--", "cat", "/proc/1/maps")
        assert "/libjemalloc.so.2" in loaded
        assert "/libnss_wrapper.so" in loaded


def test_suspend_drains_and_resume_continues_where_it_stopped(cluster_job: ClusterJob) -> None:
    before = cluster_job.job.attempt
    cluster_job.suspend()
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    cluster_job.assert_nothing_open()
    state = cluster_job.state_text()
    assert state is not None

    records = cluster_job.load(BATCH)
    assert cluster_job.state_text() == state, "a suspended job reads nothing"
    cluster_job.change(suspend=False)
    cluster_job.job.wait_ready(attempt_above=before)
    cluster_job.assert_exactly_once(records)
    attempt, uid = cluster_job.job.attempt, (cluster_job.kubectl.get(KIND, NAME) or {})["metadata"]["uid"]
    kept = {names.spark_secret(NAME, uid, number) for number in (attempt - 1, attempt)}
    with Watch(cluster_job.kubectl, "secrets", f"--selector={names.LABEL_JOB}={NAME}") as watch:
        watch.wait("Secrets of earlier attempts are gone", lambda found: set(found) == kept)


def test_a_restarted_operator_adopts_what_runs(cluster_job: ClusterJob, deployment: Kubectl) -> None:
    pods, attempt = pod_uids(cluster_job), cluster_job.job.attempt
    previous = {pod["metadata"]["name"] for pod in deployment.list("pods", installation.SELECTOR)}
    with Watch(deployment, "pods", f"--selector={installation.SELECTOR}") as watch:
        deployment.run("delete", "pods", f"--selector={installation.SELECTOR}", "--wait=false")
        watch.wait(
            "another operator is ready",
            lambda found: any(
                name not in previous
                and any(
                    each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", [])
                )
                for name, pod in found.items()
            ),
        )
    records = cluster_job.load(BATCH)
    cluster_job.assert_exactly_once(records)
    assert (pod_uids(cluster_job), cluster_job.job.attempt) == (pods, attempt)


def test_a_job_needs_no_operator_to_continue(cluster_job: ClusterJob, deployment: Kubectl) -> None:
    pods, attempt = pod_uids(cluster_job), cluster_job.job.attempt
    stop_operator(deployment)

    checkpoint = cluster_job.job.state.latest.checkpoint
    records = cluster_job.load(BATCH)
    cluster_job.job.wait_checkpoint(checkpoint + 1)
    start_operator(deployment)
    cluster_job.assert_exactly_once(records)
    assert (pod_uids(cluster_job), cluster_job.job.attempt) == (pods, attempt)


def test_delete_leaves_nothing_behind(cluster_job: ClusterJob) -> None:
    cluster_job.load(BATCH)
    cluster_job.job.wait_checkpoint(cluster_job.job.state.latest.checkpoint + 1)
    cluster_job.job.delete()
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    cluster_job.assert_nothing_open()
    verdict = cluster_job.judge()
    assert (verdict.duplicates, verdict.wrong) == (0, 0), verdict.explain()

    owned = "configmaps,serviceaccounts,roles,rolebindings,networkpolicies"
    for kind in ("configmaps", "secrets"):
        with Watch(cluster_job.kubectl, kind, f"--selector={names.LABEL_JOB}={NAME}") as watch:
            watch.wait(f"no object of {kind} is left", lambda found: not found)
    left = [each["metadata"]["name"] for each in cluster_job.kubectl.list(owned, f"{names.LABEL_JOB}={NAME}")]
    assert left == []
