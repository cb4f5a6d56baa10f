"""A change that fails on the cluster is taken back, and every record is there once."""

from __future__ import annotations

import pytest

from clusterjob.live_job import KIND, Status, condition_of
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

RECORDS = 2_000
STABLE_SECONDS = 3
GOOD = "def same(source):\n    return source\n"
BAD = "import nowhere\n"
CODE = {"python": {"function": "enrich:same", "configMapRef": {"name": "code"}}}


def put_code(cluster_job: ClusterJob, text: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"enrich.py": text}}
    cluster_job.kubectl.apply(body)


def rolled_back(status: Status) -> bool:
    return bool(condition_of(status, "Ready")["status"] == "True" and status.get("reason") == "RolledBack")


@pytest.fixture
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job whose first revision is stable."""
    made = make_cluster_job("rollback")
    put_code(made, GOOD)
    made.load(RECORDS)
    upgrade = {"rollback": "Auto", "stableAfterSeconds": STABLE_SECONDS, "progressDeadlineSeconds": 300}
    made.apply(transform=CODE, upgrade=upgrade)
    made.job.wait("a stable revision", lambda status: bool(status.get("stable")))
    return made


@pytest.mark.parametrize("fault", ["image", "code"])
def test_a_change_that_fails_is_taken_back(cluster_job: ClusterJob, fault: str) -> None:
    before = cluster_job.job.status
    first = before["stable"]["revision"]
    if fault == "image":
        cluster_job.kubectl.patch(KIND, NAME, {"spec": {"image": "localhost:1/kafkaspark/no-such-image:1"}})
    else:
        put_code(cluster_job, BAD)
    status = cluster_job.job.wait("the stable revision runs again", rolled_back)
    assert status["attempt"]["revision"] == first
    assert status["target"]["cause"] == "RolledBack"
    refused = next(each for each in status["refused"] if each.get("standing"))
    assert refused["backTo"] == first != refused["revision"]
    stalled = condition_of(status, "Stalled")
    assert stalled["status"] == "True"
    assert first in stalled["message"]
    assert refused["revision"] in stalled["message"]
    cluster_job.assert_exactly_once(cluster_job.load(RECORDS))


def test_a_change_by_the_last_checkpoint_loses_and_repeats_nothing(cluster_job: ClusterJob) -> None:
    attempt, first = cluster_job.job.attempt, cluster_job.job.status["stable"]["revision"]
    cluster_job.load(RECORDS)
    change = {"upgrade": {"mode": "LastCheckpoint"}, "driver": {"env": [{"name": "REGION", "value": "eu"}]}}
    cluster_job.kubectl.patch(KIND, NAME, {"spec": change})
    cluster_job.job.wait_ready(attempt_above=attempt)
    cluster_job.assert_exactly_once(cluster_job.load(RECORDS))
    status = cluster_job.job.wait("the new revision is stable", lambda status: status["stable"]["revision"] != first)
    second = status["stable"]["revision"]
    found = cluster_job.kubectl.list("configmaps", f"{names.LABEL_JOB}={NAME},{names.LABEL_ROLE}=revision")
    assert second in {body["metadata"]["name"] for body in found}
