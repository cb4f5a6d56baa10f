"""A job goes while its operator is away, or with its namespace: nothing waits for ever, and readers are free again."""

from __future__ import annotations

import time

import pytest

from clusterjob.kafka.transactions import open_transactions
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import KIND
from clusterjob.watch import PATIENCE
from tests.e2e.conftest import MakeClusterJob, start_operator, stop_operator
from tests.support.kubernetes.api_client import await_that
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

RECORDS = 2_000
TRANSACTION_SECONDS = 30
"""The brokers end what nobody else ends."""
NAMESPACE_SECONDS = 240.0
"""Its pods have a grace period of 120 s."""


def running(make_cluster_job: MakeClusterJob, word: str, **spec: object) -> ClusterJob:
    """A job that works on records."""
    made = make_cluster_job(word)
    made.load(RECORDS)
    made.apply(sink={"transactions": {"timeoutSeconds": TRANSACTION_SECONDS}}, **spec)
    made.job.wait_read(RECORDS)
    return made


def await_free(cluster_job: ClusterJob) -> None:
    """Readers wait for no transaction of the job, and what they get is there once."""
    bootstrap, prefix = cluster_job.environment.bootstrap, cluster_job.prefix
    await_that("no transaction is open", lambda: open_transactions(bootstrap, prefix) == [], pause=1)
    await_that("readers are free", lambda: cluster_job.topics.held_back(cluster_job.sink) == 0, pause=1)
    verdict = cluster_job.judge()
    assert (verdict.duplicates, verdict.wrong) == (0, 0), verdict.explain()
    print(verdict.explain())


def test_a_deletion_needs_no_operator(make_cluster_job: MakeClusterJob, deployment: Kubectl) -> None:
    cluster_job = running(make_cluster_job, "away")
    stop_operator(deployment)
    cluster_job.load(RECORDS)
    cluster_job.job.delete(seconds=30)
    cluster_job.job.wait_pods("no pod is left", lambda pods: not pods)
    await_free(cluster_job)


@pytest.mark.parametrize("policy", ["Drain", "Cancel"])
def test_a_deletion_in_order_follows_when_the_operator_is_back(
    make_cluster_job: MakeClusterJob, deployment: Kubectl, policy: str
) -> None:
    cluster_job = running(make_cluster_job, "back", deletion={"policy": policy, "deadlineSeconds": 120})
    stop_operator(deployment)
    records = cluster_job.load(RECORDS)
    cluster_job.job.delete(wait=False)
    await_that("the job works on", lambda: cluster_job.judge().records_out == records, pause=1)
    assert cluster_job.kubectl.get(KIND, NAME) is not None
    start_operator(deployment)
    cluster_job.job.delete()
    cluster_job.assert_nothing_open()
    verdict = cluster_job.judge()
    assert verdict.exactly_once, verdict.explain()


@pytest.mark.parametrize("deletion", [None, {"policy": "Drain", "deadlineSeconds": 60}], ids=["plain", "in-order"])
def test_a_namespace_goes_with_its_job(make_cluster_job: MakeClusterJob, deletion: object) -> None:
    cluster_job = running(make_cluster_job, "namespace", **({"deletion": deletion} if deletion else {}))
    cluster_job.load(RECORDS)
    began = time.monotonic()
    cluster_job.kubectl.delete("namespace", cluster_job.namespace, seconds=PATIENCE)
    seconds = time.monotonic() - began
    print(f"the namespace was gone after {seconds:.0f} s")
    assert seconds <= NAMESPACE_SECONDS
    await_free(cluster_job)


def test_a_namespace_goes_while_the_operator_is_away(make_cluster_job: MakeClusterJob, deployment: Kubectl) -> None:
    cluster_job = running(make_cluster_job, "both")
    stop_operator(deployment)
    cluster_job.kubectl.delete("namespace", cluster_job.namespace, seconds=NAMESPACE_SECONDS)
    await_free(cluster_job)
