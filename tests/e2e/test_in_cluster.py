"""``--in-cluster run``: a command of a laptop runs in a pod, which reaches the brokers by their address for pods."""

from __future__ import annotations

import json

import pytest

from kafkaspark.__main__ import main
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME


def test_the_log_of_the_pod_is_the_answer(
    make_cluster_job: MakeClusterJob, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster_job = make_cluster_job("in-cluster")
    kubeconfig = str(cluster_job.environment.kubeconfig)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", kubeconfig)
    cluster_job.load(100)
    cluster_job.apply()
    cluster_job.job.wait_ready()
    named = ["--job", NAME, "--namespace", cluster_job.namespace, "--in-cluster", "run"]

    capfd.readouterr()
    assert main(["txn", "list", *named, "--output", "json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert all(row["transactionalId"].startswith(cluster_job.prefix) for row in rows)

    # The exit status is the command's, and its refusal is in the log.
    assert main(["txn", "abort", "--all-lingering", *named]) == 1
    assert "Fix: kubectl patch ksj" in capfd.readouterr().out
    jobs = cluster_job.kubectl.list("jobs", "")
    assert all(job["metadata"].get("deletionTimestamp") for job in jobs)
