"""``upgrade.mode: Stateless``: a new revision begins as a new job does, once, and leaves nothing open behind it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from clusterjob.kafka.reading import read_committed
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import ClusterJob

RECORDS = 1_000
# What a revision has written is known by its key.
_MODULE = """
import pyarrow as pa

def first(batch):
    return marked(batch, b"first")

def second(batch):
    return marked(batch, b"second")

def third(batch):
    return marked(batch, b"third")

def marked(batch, revision):
    key = pa.array([revision] * batch.num_rows, pa.binary())
    return pa.RecordBatch.from_arrays([key, batch.column("value")], names=["key", "value"])
"""


def transform(function: str) -> dict[str, object]:
    return {"arrow": {"function": f"revisions:{function}", "configMapRef": {"name": "code"}}}


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job whose first revision has read everything."""
    made = make_cluster_job("stateless")
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}, "data": {"revisions.py": _MODULE}}
    made.kubectl.apply(code)
    made.load(RECORDS)
    made.apply(engine="Continuous", transform=transform("first"), upgrade={"mode": "Stateless"})
    made.job.wait_read(RECORDS)
    return made


def written(cluster_job: ClusterJob) -> dict[str, Counter[int]]:
    """What readers get: how often each number is there, by the revision that wrote it."""
    found: dict[str, Counter[int]] = {}
    for record in read_committed(cluster_job.environment.bootstrap, cluster_job.sink):
        assert record.key is not None
        assert record.value is not None
        found.setdefault(record.key.decode(), Counter())[json.loads(record.value)["id"]] += 1
    return found


def started_stateless(cluster_job: ClusterJob) -> list[str]:
    """The messages of its events, oldest first."""
    found = [event for event in cluster_job.job.events() if event["reason"] == "StartedStateless"]
    return [event["message"] for event in sorted(found, key=lambda event: event["metadata"]["creationTimestamp"])]


def test_a_new_revision_reads_everything_again_once(cluster_job: ClusterJob) -> None:
    job, first = cluster_job.job, cluster_job.job.attempt
    cluster_job.change(transform=transform("second"))
    job.wait_ready(attempt_above=first)
    job.wait_read(2 * RECORDS)
    everything = Counter(range(RECORDS))
    assert written(cluster_job) == {"first": everything, "second": everything}
    (message,) = started_stateless(cluster_job)
    assert f"{RECORDS} record(s) are read and written again" in message
    cluster_job.assert_nothing_open()

    # The attempts that follow resume: a crash begins nothing again.
    attempt = job.attempt
    job.kill_driver()
    job.wait_ready(attempt_above=attempt)
    cluster_job.load(RECORDS)
    job.wait_read(3 * RECORDS)
    assert written(cluster_job) == {"first": everything, "second": Counter(range(2 * RECORDS))}
    assert len(started_stateless(cluster_job)) == 1
    cluster_job.assert_nothing_open()


def test_a_new_revision_begins_at_the_newest_records(cluster_job: ClusterJob) -> None:
    """What is written while nothing runs is skipped, as by a new job with ``startup.mode: Latest``."""
    job = cluster_job.job
    before = written(cluster_job)
    cluster_job.suspend()
    skipped = cluster_job.load(RECORDS)
    attempt = job.attempt
    startup = {"startup": {"mode": "Latest"}}
    cluster_job.change(transform=transform("third"), source=startup, suspend=False)
    job.wait_ready(attempt_above=attempt)
    messages = started_stateless(cluster_job)
    assert f"{RECORDS} record(s) are skipped" in messages[-1], messages
    read = job.status["source"]["recordsIn"]
    count = cluster_job.load(RECORDS)
    job.wait_read(read + RECORDS)
    assert written(cluster_job) == {**before, "third": Counter(range(skipped, count))}
    cluster_job.assert_nothing_open()
