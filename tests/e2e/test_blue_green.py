"""A new revision takes over from one that works: readers wait for less than a start, and get every record once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime

import pytest

from clusterjob.kafka.reading import read_committed
from clusterjob.live_job import Status, condition_of
from clusterjob.oracle import longest_pause
from sparkapp.model import names
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

RATE = 200
"""Records a second."""
POUR_SECONDS = 75
"""For a driver to prepare next to a job that works, on two cores, and to take over."""
LONGEST_PAUSE = 3.0
"""In seconds, behind the turn. Before it, a driver that prepares may take the processors of a small machine.

A quiet machine needs less than one; a start with a JVM is beyond it on any."""
# Without the source's timestamp a record has the time at which it is written.
_MODULE = """
def first(batch):
    return batch.drop_columns(["timestamp"])

def second(batch):
    return batch.drop_columns(["timestamp"])

def broken(batch):
    raise ValueError("this revision does not work")
"""


def transform(function: str) -> dict[str, object]:
    return {"arrow": {"function": f"revisions:{function}", "configMapRef": {"name": "code"}}}


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job of the continuous engine whose first revision is stable."""
    made = make_cluster_job("bluegreen")
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"revisions.py": _MODULE}}
    made.kubectl.apply(code)
    made.load(RATE)
    upgrade = {"strategy": "BlueGreen", "stableAfterSeconds": 5}
    made.apply(engine="Continuous", transform=transform("first"), upgrade=upgrade)
    made.job.wait("a stable revision", lambda status: bool(status.get("stable")))
    return made


@contextmanager
def pouring(cluster_job: ClusterJob) -> Iterator[None]:
    """Records come all the time meanwhile."""
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(cluster_job.load, RATE * POUR_SECONDS, rate=RATE)
        yield
        future.result()


def pause_since(cluster_job: ClusterJob, since: float, until: float) -> float:
    sink = read_committed(cluster_job.environment.bootstrap, cluster_job.sink)
    return longest_pause(sink, since=since, until=until)


def test_a_new_revision_takes_over_between_two_records(cluster_job: ClusterJob) -> None:
    job = cluster_job.job
    before, first = job.attempt, job.status["stable"]["revision"]
    with pouring(cluster_job):
        time.sleep(5)
        began = time.time()
        cluster_job.change(transform=transform("second"))
        status = job.wait_ready(attempt_above=before)
        ended = time.time()
    (turn,) = (each for each in job.events() if each["reason"] == "TurnGiven")
    at = datetime.fromisoformat(turn["lastTimestamp"]).timestamp()
    pause, longest = pause_since(cluster_job, at, ended), pause_since(cluster_job, began, ended)
    print(f"{pause:.2f} s without a record from the turn on, {longest:.2f} s in {ended - began:.0f} s of the change")
    cluster_job.assert_exactly_once(cluster_job.load(RATE))
    assert status["attempt"]["revision"] != first
    job.wait("it is stable", lambda status: status["stable"]["revision"] != first)
    assert pause <= LONGEST_PAUSE


def test_a_revision_that_fails_behind_its_takeover_is_taken_back(cluster_job: ClusterJob) -> None:
    job = cluster_job.job
    stable = job.status["stable"]["revision"]

    def is_back(status: Status) -> bool:
        ready = condition_of(status, "Ready")["status"] == "True"
        return ready and status.get("reason") == "RolledBack" and status["attempt"]["revision"] == stable

    with pouring(cluster_job):
        cluster_job.change(transform=transform("broken"))
        status = job.wait("the stable revision is back", is_back)
    refused = next(each for each in status["refused"] if each.get("standing"))
    assert (refused["backTo"], refused["reason"]) == (stable, "TransformFailed")
    assert condition_of(status, "Stalled")["status"] == "True"
    cluster_job.assert_exactly_once(cluster_job.load(RATE))


def test_a_change_is_given_up_while_it_prepares(cluster_job: ClusterJob) -> None:
    job = cluster_job.job
    cluster_job.change(transform=transform("second"))  # the stable revision again
    job.wait("nothing is refused", lambda status: condition_of(status, "Stalled")["status"] == "False")
    attempt = job.attempt
    cluster_job.change(transform=transform("first"))
    job.wait("a driver prepares", lambda status: status["phase"]["name"] == "Preparing")
    cluster_job.change(transform=transform("second"))
    job.wait("the attempt stays", lambda status: status["phase"]["name"] == "Running")
    prepared = names.driver_pod(NAME, attempt + 1)
    job.wait_pods("the driver that prepared is gone", lambda pods: prepared not in pods)
    assert job.attempt == attempt
    cluster_job.assert_exactly_once(cluster_job.load(RATE))
