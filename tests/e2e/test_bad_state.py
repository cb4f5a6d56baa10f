"""A state ConfigMap that is truncated or foreign stops the job; it never starts from nothing.

``tests/integration/kubeapi/test_state_adversaries.py`` has everything else that can become of it.
"""

from __future__ import annotations

import pytest

from clusterjob.live_job import condition_of
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

RECORDS = 5_000
STATE = names.state_config_map(NAME)


@pytest.fixture(scope="module")
def suspended(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job with a checkpoint, at rest."""
    cluster_job = make_cluster_job("state")
    cluster_job.load(RECORDS)
    cluster_job.apply()
    cluster_job.job.wait_read(RECORDS)
    cluster_job.suspend()
    return cluster_job


def write(cluster_job: ClusterJob, text: str) -> None:
    cluster_job.kubectl.patch("configmap", STATE, {"data": {names.CHECKPOINT_KEY: text}})


def test_truncated_state_stops_the_job(suspended: ClusterJob) -> None:
    cluster_job, before = suspended, suspended.job.attempt
    good = cluster_job.state_text()
    assert good is not None
    offsets = cluster_job.committed_offsets()
    bad = good[: len(good) // 2]
    write(cluster_job, bad)
    cluster_job.change(suspend=False)
    status = cluster_job.job.wait(
        "StateCorrupt", lambda status: condition_of(status, "StateValid").get("reason") == "StateCorrupt"
    )
    condition = condition_of(status, "StateValid")
    assert condition["status"] == "False"
    assert condition_of(status, "Ready")["status"] == "False"
    assert condition["message"]
    assert any(each["reason"] == "StateCorrupt" and each["type"] == "Warning" for each in cluster_job.job.events())
    assert cluster_job.state_text() == bad, "nobody writes into a state that nobody understands"
    assert cluster_job.committed_offsets() == offsets
    assert cluster_job.job.attempt <= before + 1, "no crash loop"

    write(cluster_job, good)
    cluster_job.suspend()
    assert condition_of(cluster_job.job.status, "Ready")["status"] == "False"


def test_restored_state_continues_exactly_once(suspended: ClusterJob) -> None:
    records = suspended.load(RECORDS)
    before = suspended.job.attempt
    suspended.change(suspend=False)
    suspended.job.wait_ready(attempt_above=before)
    suspended.assert_exactly_once(records)
    suspended.job.delete(wait=False)


def test_a_state_config_map_of_somebody_else_is_not_taken_over(make_cluster_job: MakeClusterJob) -> None:
    cluster_job = make_cluster_job("foreign")
    cluster_job.load(RECORDS)
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STATE}, "data": {"theirs": "precious"}}
    cluster_job.kubectl.apply(theirs)
    cluster_job.apply()
    status = cluster_job.job.wait(
        "StateForeign", lambda status: condition_of(status, "StateValid").get("status") == "False"
    )
    assert condition_of(status, "StateValid")["reason"] == "StateForeign"
    assert any(each["reason"] == "StateForeign" for each in cluster_job.job.events())
    found = cluster_job.kubectl.get("configmap", STATE)
    assert found is not None
    assert found["data"] == {"theirs": "precious"}
    assert cluster_job.job.pods(names.ROLE_DRIVER) == []
    assert cluster_job.topics.ends(cluster_job.sink) == dict.fromkeys(range(4), 0)
    cluster_job.job.delete(wait=False)
