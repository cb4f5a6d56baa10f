"""Periodic snapshots on the cluster: a new job begins at one, and writes each later record once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from clusterjob.kafka.reading import ReadRecord, read_committed
from clusterjob.live_job import LiveJob, Status
from clusterjob.oracle import compare, same
from sparkapp.model import names
from sparkapp.model.checkpoint.retained_codec import decode_snapshot
from sparkapp.model.partition import TopicPartition
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob, merged

RECORDS = 2_000
AGAIN = "again"


def kept(status: Status) -> bool:
    return "ready" in status.get("snapshots", {})


def behind(offsets: Mapping[TopicPartition, int], records: Iterable[ReadRecord]) -> list[ReadRecord]:
    """The records behind the offsets. The source has no transactions, so a record's place is its offset."""
    left = {partition.partition: offset for partition, offset in offsets.items()}
    found = []
    for record in records:
        left[record.partition] = left.get(record.partition, 0) - 1
        if left[record.partition] < 0:
            found.append(record)
    return found


@pytest.fixture
def cluster_job(make_cluster_job: MakeClusterJob) -> ClusterJob:
    """A job of which the operator has made a snapshot."""
    made = make_cluster_job("snapshots")
    made.load(RECORDS)
    made.apply(snapshots={"intervalSeconds": 60, "count": 2})
    made.job.wait("a snapshot", kept)
    return made


def test_a_new_job_begins_at_a_periodic_snapshot_of_a_deleted_job(cluster_job: ClusterJob) -> None:
    cluster_job.assert_exactly_once(cluster_job.load(RECORDS))
    before = cluster_job.job.status["snapshots"]["checkpoint"]
    status = cluster_job.job.wait(
        "a snapshot of a later checkpoint", lambda status: status["snapshots"].get("checkpoint", 0) > before
    )
    name = status["snapshots"]["ready"]
    cluster_job.kubectl.delete("ksj", NAME, wait=True)
    snapshot = cluster_job.kubectl.get("kss", name)
    assert snapshot is not None, "it outlives the job"
    config_map = cluster_job.kubectl.get("configmap", snapshot["status"]["configMap"]["name"])
    assert config_map is not None
    offsets = decode_snapshot(config_map["data"][names.SNAPSHOT_KEY]).offsets
    total = cluster_job.load(RECORDS)
    later = total - sum(offsets.values())

    sink = f"{cluster_job.sink}.{AGAIN}"
    cluster_job.topics.recreate([sink], partitions=4)
    second = cluster_job.resource(sink={"topic": sink}, startFrom={"snapshot": name}, source={"groupId": sink})
    cluster_job.kubectl.apply(merged(second, {"metadata": {"name": AGAIN}}))
    with LiveJob(cluster_job.kubectl, AGAIN) as job:
        job.wait_read(later)
        expected = behind(offsets, read_committed(cluster_job.environment.bootstrap, cluster_job.source))
        verdict = compare(expected, read_committed(cluster_job.environment.bootstrap, sink), expect=same)
        assert verdict.exactly_once, verdict.explain()
        assert verdict.records_out == later
