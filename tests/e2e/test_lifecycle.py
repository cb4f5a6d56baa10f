"""A job's life as a person steers it, and the operator's own absences, in the order in which they are told here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo import installation
from demo.environment import ClusterEnvironment
from demo.kubectl import Kubectl
from demo.live_job import KIND
from demo.watch import Watch
from sparkapp.model import names
from tests.e2e.conftest import MakeSite
from tests.support.job_site import NAME, JobSite

pytestmark = pytest.mark.timeout(400)

BATCH = 5_000


@pytest.fixture(scope="module")
def site(make_site: MakeSite) -> JobSite:
    """One job that runs, shared by the module: each test leaves it as it found it, up to the last one."""
    site = make_site("life")
    site.load(BATCH)
    site.apply()
    site.job.wait_ready(seconds=180)
    return site


def pod_uids(site: JobSite) -> dict[str, str]:
    """Driver and executors of the current attempt."""
    pods = site.job.pods(names.ROLE_DRIVER) + site.job.pods(names.ROLE_EXECUTOR)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}


@pytest.fixture
def deployment(operator: ClusterEnvironment) -> Iterator[Kubectl]:
    """kubectl in the operator's namespace; the operator is back after the test, whatever happened."""
    kubectl = Kubectl(operator, installation.NAMESPACE)
    yield kubectl
    kubectl.run("scale", "deployment", f"--selector={installation.SELECTOR}", "--replicas=1")
    kubectl.run("rollout", "status", f"--selector={installation.SELECTOR}", "deployment", "--timeout=90s", seconds=100)


def test_conditions_follow_the_conventions(site: JobSite) -> None:
    site.kubectl.run("wait", "--for=condition=Ready", f"{KIND}/{NAME}", "--timeout=10s")
    site.assert_exactly_once(BATCH, seconds=60)
    healthy = dict.fromkeys(
        ("Ready", "ConfigValid", "KafkaReachable", "StateValid", "CheckpointHealthy", "TransactionsHealthy"), "True"
    )
    # The driver looks for open transactions every ten seconds, and none is known before its first look.
    site.job.wait(
        "every condition",
        lambda status: {one["type"]: one["status"] for one in status.get("conditions", ())} == healthy,
        seconds=60,
    )
    assert site.kubectl.run("get", "ksj", NAME, "--output=jsonpath={.status.parallelism}") == "2"


def test_suspend_drains_and_resume_goes_on_where_it_stopped(site: JobSite) -> None:
    before = site.job.attempt
    site.change(suspend=True)
    site.job.wait("Suspended", lambda status: status.get("state") == "Suspended", seconds=90)
    site.job.wait_pods("no pod is left", lambda pods: not pods, seconds=60)
    site.assert_nothing_open()
    state = site.state_text()
    assert state is not None

    records = site.load(BATCH)
    assert site.state_text() == state, "a suspended job reads nothing"
    site.change(suspend=False)
    site.job.wait_ready(attempt_above=before, seconds=120)
    site.assert_exactly_once(records, seconds=60)


def test_a_restarted_operator_adopts_what_runs(site: JobSite, deployment: Kubectl) -> None:
    pods, attempt = pod_uids(site), site.job.attempt
    former = {pod["metadata"]["name"] for pod in deployment.list("pods", installation.SELECTOR)}
    with Watch(deployment, "pods", f"--selector={installation.SELECTOR}") as watch:
        deployment.run("delete", "pods", f"--selector={installation.SELECTOR}", "--wait=false")
        watch.wait(
            "another operator is ready",
            lambda found: any(
                name not in former
                and any(
                    one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", [])
                )
                for name, pod in found.items()
            ),
            seconds=90,
        )
    records = site.load(BATCH)
    site.assert_exactly_once(records, seconds=90)
    assert (pod_uids(site), site.job.attempt) == (pods, attempt)


def test_a_job_needs_no_operator_to_go_on(site: JobSite, deployment: Kubectl) -> None:
    pods, attempt = pod_uids(site), site.job.attempt
    deployment.run("scale", "deployment", f"--selector={installation.SELECTOR}", "--replicas=0")
    with Watch(deployment, "pods", f"--selector={installation.SELECTOR}") as watch:
        watch.wait("no operator is left", lambda found: not found, seconds=90)

    checkpoint = site.job.state.latest.checkpoint
    records = site.load(BATCH)
    site.job.wait_checkpoint(checkpoint + 1, seconds=60)
    deployment.run("scale", "deployment", f"--selector={installation.SELECTOR}", "--replicas=1")
    site.assert_exactly_once(records, seconds=120)
    assert (pod_uids(site), site.job.attempt) == (pods, attempt)


def test_delete_leaves_nothing_behind(site: JobSite) -> None:
    records = site.load(BATCH)
    site.job.wait_checkpoint(site.job.state.latest.checkpoint + 1, seconds=60)
    site.job.delete(seconds=120)
    site.job.wait_pods("no pod is left", lambda pods: not pods, seconds=90)
    site.assert_nothing_open()
    verdict = site.judge()
    assert (verdict.duplicates, verdict.wrong) == (0, 0), verdict.explain()

    owned = "configmaps,serviceaccounts,roles,rolebindings"
    with Watch(site.kubectl, "configmaps", f"--selector={names.LABEL_JOB}={NAME}") as watch:
        watch.wait("no ConfigMap is left", lambda found: not found, seconds=60)
    left = [one["metadata"]["name"] for one in site.kubectl.list(owned, f"{names.LABEL_JOB}={NAME}")]
    assert left == []

    # A job of the same name is a new one: it begins where the group's offsets are, and takes over nothing else.
    site.apply(source={"startup": {"mode": "GROUP_OFFSETS"}})
    site.job.wait_ready(seconds=120)
    site.job.wait("lag 0", lambda status: status.get("source", {}).get("lagRecords", -1) == 0, seconds=90)
    verdict = site.judge()
    assert verdict.exactly_once, verdict.explain()
    assert verdict.records_out == records
    site.job.delete(wait=False)
