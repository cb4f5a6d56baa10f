"""Operators that die, restart and take over from one another, against a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubernetes.api_client import JOBS, ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place

Start = Callable[..., OperatorProcess]


@pytest.fixture
def job(api: ApiClient, place: Place) -> LiveJob:
    return LiveJob(api, place.namespace)


def test_restarting_the_operator_touches_nothing(job: LiveJob, start_operator: Start) -> None:
    first = start_operator()
    job.create()
    job.run(1)
    for number in (1, 2):
        job.add_executor(1, number, running=True)
    with job.beating(1, checkpoint_id=10, engine="MicroBatch", engine_message="set by spec.engine"):
        await_that("the executors are seen", lambda: job.status["executors"]["running"] == 2)
        first.kill()
        before, status = versions(job), job.status
        second = start_operator()
        second.await_leading()
        await_that("it has looked at the job", lambda: 'job_attempt{job="orders"' in second.read("/metrics"))
        await_that(
            "it has reconciled", lambda: 'reconcile_duration_seconds_count{result="ok"}' in second.read("/metrics")
        )
        assert job.status == status
        assert versions(job) == before


def versions(job: LiveJob) -> list[tuple[str, str, str]]:
    meta = [body["metadata"] for body in (job.body, *job.pods)]
    return [(each["name"], each["uid"], each["resourceVersion"]) for each in meta]


READS = frozenset({"get", "list", "watch"})


def writes(kubeconfig: Path, place: Place) -> list[str]:
    """Verb and name of each object that the namespace's operators wrote, by the API server's audit log."""
    found = []
    for line in (kubeconfig.parent / "audit.log").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        what = event.get("objectRef", {})
        mine = event["user"]["username"] == f"system:serviceaccount:{place.namespace}:operator"
        if mine and event["verb"] not in READS and what.get("resource") != "leases":
            found.append(f"{event['verb']} {what.get('resource')} {what.get('name')}")
    return found


def test_an_adoption_writes_nothing(api: ApiClient, place: Place, kubeconfig: Path, start_operator: Start) -> None:
    """Jobs that run, that start and that rest."""
    first = start_operator()
    jobs = {state: LiveJob(api, place.namespace, state.lower()) for state in ("Running", "Starting", "Suspended")}
    for state, each in jobs.items():
        each.create(suspend=state == "Suspended")
    runs = jobs["Running"]
    runs.run(1)
    for number in (1, 2):
        runs.add_executor(1, number, running=True)
    jobs["Starting"].await_driver(1)
    with runs.beating(1, checkpoint_id=10, engine="MicroBatch", engine_message="set by spec.engine"):
        await_that("the executors are seen", lambda: runs.status["executors"]["running"] == 2)
        for state, each in jobs.items():
            each.await_state(state)
        known: list[str] = []

        def rests() -> bool:
            before, known[:] = [*known], writes(kubeconfig, place)
            return known == before

        await_that("nothing is left to write", rests, pause=3)
        first.kill()
        second = start_operator()
        second.await_leading()
        await_that("it has looked at each job", lambda: reconciled(second) >= len(jobs))
        await_that("nothing is left to do", lambda: "queue_depth 0.0" in second.read("/metrics"), pause=1)
    assert writes(kubeconfig, place) == known


def reconciled(operator: OperatorProcess) -> float:
    """Looks of the operator that have ended well."""
    lines = operator.read("/metrics").splitlines()
    return sum(float(each.rpartition(" ")[2]) for each in lines if 'duration_seconds_count{result="ok"}' in each)


def test_the_standby_takes_over_from_a_dead_leader_without_touching_a_pod(job: LiveJob, start_operator: Start) -> None:
    leader = start_operator()
    leader.await_leading()
    standby = start_operator()
    job.create()
    job.run(1)
    before = [(pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for pod in job.pods]
    assert "kafkaspark_operator_leader 0.0" in await_that("it answers", lambda: standby.read("/metrics"))
    series = f'kafkaspark_job_ready{{job="{job.name}"'
    await_that("the leader reports the job", lambda: series in leader.read("/metrics"))
    await_that("the standby knows the job", lambda: "kafkaspark_operator_jobs 1.0" in standby.read("/metrics"))
    assert series not in standby.read("/metrics")
    leader.kill()
    standby.await_leading()
    assert series in standby.read("/metrics")
    assert [(pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for pod in job.pods] == before
    job.edit(suspend=True)
    job.await_state("Suspending")


def test_an_orderly_stop_hands_the_lease_over_at_once(job: LiveJob, start_operator: Start) -> None:
    leader = start_operator()
    leader.await_leading()
    standby = start_operator()
    await_that("the standby watches", lambda: standby.read("/readyz") == "ok")
    assert leader.stop() == 0
    standby.await_leading()


def test_two_operators_start_one_attempt(api: ApiClient, place: Place, start_operator: Start) -> None:
    """Both act, as two that are cut off from each other would if leases did not exist."""
    for lease in ("one", "two"):
        start_operator(leader_election="false", lease_name=lease)
    jobs = [LiveJob(api, place.namespace, f"job-{number}") for number in range(8)]
    for each in jobs:
        each.create()
    for each in jobs:
        await_that("an attempt has started", lambda each=each: each.status.get("attempt"))
    for each in jobs:
        pods: list[dict[str, Any]] = each.pods
        assert len(pods) == 1, [pod["metadata"]["name"] for pod in pods]
    assert len(api.items(JOBS.format(place.namespace))) == len(jobs)
