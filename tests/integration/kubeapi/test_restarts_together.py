"""An outage ends the attempts of several jobs at once: they come back a few at a time, on a real API server (O10)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import pytest

from sparkapp.model import names
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place

LIMIT = 2
COUNT = 4
WAITS = "the job restarts when some of the other jobs"


@pytest.fixture
def jobs(api: ApiClient, place: Place, start_operator: Callable[..., OperatorProcess]) -> list[LiveJob]:
    """They run, and an operator lets some of them restart at a time."""
    start_operator(concurrent_restarts=str(LIMIT)).await_leading()
    jobs = [LiveJob(api, place.namespace, f"orders-{uuid.uuid4().hex[:6]}") for _ in range(COUNT)]
    for job in jobs:
        job.create(restartPolicy={"backoff": {"initialSeconds": 1}})
    for job in jobs:
        job.run(1, hold=False)
    return jobs


def test_jobs_that_fail_together_come_back_a_few_at_a_time(jobs: list[LiveJob]) -> None:
    for job in jobs:
        job.ends(1, None)
    left = list(jobs)
    while left:
        await_that("the next drivers, and the wait of the others", partial(_are_limited, left))
        for job in _with_driver(left):
            job.run(2, hold=False)
            left.remove(job)
    assert [job.status["restarts"]["total"] for job in jobs] == [1] * COUNT


def _are_limited(jobs: list[LiveJob]) -> bool:
    """Whether as many jobs as may are on their way, and each other has found no room."""
    started = _with_driver(jobs)
    assert len(started) <= LIMIT, "no more than the limit are on their way"
    waiting = [job.status["message"] for job in jobs if job not in started]
    return len(started) == min(LIMIT, len(jobs)) and all(WAITS in each for each in waiting)


def _with_driver(jobs: list[LiveJob]) -> list[LiveJob]:
    """The jobs that have a driver of the second attempt."""
    return [job for job in jobs if job.api.get(f"{job.pods_path}/{names.driver_pod(job.name, 2)}") is not None]
