"""Operators that die, restart and take over from one another, against a real API server."""

from __future__ import annotations

from collections.abc import Callable
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
