"""``helm upgrade`` from a previous release: running jobs continue, and the new operator takes them over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterjob import installation
from clusterjob.environment import ClusterEnvironment
from clusterjob.kubectl import Kubectl
from clusterjob.live_job import KIND
from clusterjob.watch import Watch
from sparkapp.model import names
from tests.support.kubernetes.cluster_job import NAME, ClusterJob
from tests.support.kubernetes.previous_chart import FIELDS, VERSION, previous_chart

BATCH = 5_000


@pytest.fixture
def cluster_job(environment: ClusterEnvironment, tmp_path: Path) -> Iterator[ClusterJob]:
    """A job that the operator of a previous release has started."""
    chart = previous_chart(installation.chart(), tmp_path)
    installation.install(environment, folder=chart, network_policies=False)
    # Helm keeps the drivers' policies of the release that ran here before.
    kept = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    Kubectl(environment).run("delete", kept, "-l", installation.SELECTOR)
    cluster_job = ClusterJob.make(environment, "upgrade")
    try:
        cluster_job.load(BATCH)
        cluster_job.apply(restartPolicy=None)
        cluster_job.job.wait_ready()
        cluster_job.job.wait_executors(1)
        yield cluster_job
    finally:
        cluster_job.close()
        installation.install(environment)


def running_pods(cluster_job: ClusterJob) -> dict[str, tuple[str, list[int]]]:
    """UID, and restarts of each container, of every pod of the job."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"], [container["restartCount"] for container in pod["status"]["containerStatuses"]]
        )
        for pod in cluster_job.kubectl.list("pods", f"{names.LABEL_JOB}={NAME}")
    }  # fmt: skip


def await_leader(operators: Kubectl, *, previous: bool) -> None:
    """Blocks until a pod of the previous release, or of another release, holds the Lease."""
    version = f"app.kubernetes.io/version{'=' if previous else '!='}{VERSION}"
    pods = [pod["metadata"]["name"] for pod in operators.list("pods", f"{installation.SELECTOR},{version}")]
    with Watch(operators, "leases", "--field-selector=metadata.name=kafkaspark-operator") as leases:
        leases.wait(
            "an operator of the release leads",
            lambda found: any(
                str(lease["spec"].get("holderIdentity", "")).startswith(pod) for lease in found.values() for pod in pods
            ),
        )


def known_fields(cluster_job: ClusterJob) -> list[bool]:
    """Whether the resource, as the API server gives it, has each of the fields that the previous release lacks."""
    found: list[bool] = []
    for path in FIELDS:
        part: Any = (cluster_job.kubectl.get(KIND, NAME) or {})["spec"]
        for name in path:
            part = part.get(name) if part is not None else None
        found.append(part is not None)
    return found


def test_an_upgrade_leaves_running_pods_and_takes_them_over(
    environment: ClusterEnvironment, cluster_job: ClusterJob
) -> None:
    operators = Kubectl(environment, installation.NAMESPACE)
    policies = "validatingadmissionpolicies,networkpolicies"
    before, attempt = running_pods(cluster_job), cluster_job.job.attempt
    await_leader(operators, previous=True)
    assert not any(known_fields(cluster_job))
    assert operators.list(policies, installation.SELECTOR) == []

    installation.install(environment)
    assert all(known_fields(cluster_job)), "the API server fills in new defaults"
    assert operators.list(policies, installation.SELECTOR) != []
    await_leader(operators, previous=False)
    # Only the new operator writes the status now, so it has looked at the job when the status has these records.
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))
    assert running_pods(cluster_job) == before

    # Under the policies that it was started without, the attempt replaces an executor.
    killed = cluster_job.job.kill_executor()
    cluster_job.job.wait_executors(1, without=killed["metadata"]["uid"])
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))
    driver = names.driver_pod(NAME, attempt)
    assert running_pods(cluster_job)[driver] == before[driver]

    cluster_job.job.rescale(3)
    cluster_job.job.wait_ready(attempt_above=attempt)
    cluster_job.assert_exactly_once(cluster_job.load(BATCH))
    assert cluster_job.job.attempt == attempt + 1
    assert cluster_job.job.status["restarts"]["total"] == 0
    assert cluster_job.job.status["parallelism"] == 3
