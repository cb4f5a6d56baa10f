"""The end and the pause of a resource, with the chart's rights and policies, on a real API server."""

from __future__ import annotations

import uuid

import pytest

from kafkasparkjob_operator.identity import ANNOTATION_PAUSE
from tests.support.kubernetes.api_client import ApiClient, ApiError, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import Running


@pytest.fixture
def job(api: ApiClient, running: Running) -> LiveJob:
    return LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")


def test_a_finished_job_is_deleted_after_its_time(job: LiveJob) -> None:
    job.create(source={"stopping": {"mode": "Latest"}}, ttlSecondsAfterFinished=3)
    job.finish()
    await_that("the resource is gone", lambda: job.api.get(job.path) is None)
    assert "TimeToLiveExpired" in [reason for reason, _ in job.events]


def test_a_finished_job_gets_its_time_later_and_does_not_run_again(job: LiveJob) -> None:
    job.create(source={"stopping": {"mode": "Latest"}})
    job.finish()
    job.await_state("Finished")
    job.edit(ttlSecondsAfterFinished=0)
    await_that("the resource is gone", lambda: job.api.get(job.path) is None)
    assert [reason for reason, _ in job.events].count("Submitted") == 1


def test_the_operators_token_deletes_no_other_job(job: LiveJob, running: Running) -> None:
    token = ApiClient(running.place.kubeconfig)
    job.create(source={"stopping": {"mode": "Latest"}}, ttlSecondsAfterFinished=3600)
    job.run(1, hold=False)
    with pytest.raises(ApiError, match="the operator deletes Finished jobs with ttlSecondsAfterFinished only"):
        token.call("DELETE", job.path)
    job.finish()
    job.await_state("Finished")
    job.edit(ttlSecondsAfterFinished=None)
    with pytest.raises(ApiError, match="the operator deletes Finished jobs with ttlSecondsAfterFinished only"):
        token.call("DELETE", job.path)
    job.edit(ttlSecondsAfterFinished=3600)
    token.call("DELETE", job.path)
    await_that("the resource is gone", lambda: job.api.get(job.path) is None)


def test_a_paused_job_is_shown_and_not_touched(job: LiveJob) -> None:
    job.create()
    job.run(1, hold=False)
    pause = {"metadata": {"annotations": {ANNOTATION_PAUSE: "true"}}}
    job.api.merge(job.path, pause)
    await_that("the pause", lambda: job.condition("ReconciliationPaused").get("status") == "True")
    assert job.condition("Ready")["status"] == "True"
    job.edit(suspend=True)
    await_that("the change waits", lambda: job.condition("Ready")["reason"] == "ReconciliationPaused")
    job.report(1, checkpoint_id=77, engine="MicroBatch")
    await_that("the numbers are fresh", lambda: job.status["checkpoint"]["id"] == 77)
    (driver,) = job.pods
    assert "deletionTimestamp" not in driver["metadata"]
    assert job.status["observedGeneration"] == 1
    job.api.merge(job.path, {"metadata": {"annotations": {ANNOTATION_PAUSE: None}}})
    job.await_state("Suspended")
    assert job.condition("ReconciliationPaused") == {}
    assert "ReconciliationResumed" in [reason for reason, _ in job.events]
