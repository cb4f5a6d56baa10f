"""The source on the cluster: a bounded job that finishes, topics and partitions that appear, and a way back in time.

The tests share a job, and depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusterjob.live_job import KIND, condition_of
from sparkapp.model import names
from sparkapp.model.checkpoint.retained_codec import decode_retained
from tests.e2e.conftest import MakeClusterJob
from tests.support.kubernetes.cluster_job import NAME, ClusterJob

BATCH = 3_000


@pytest.fixture(scope="module")
def cluster_job(make_cluster_job: MakeClusterJob) -> Iterator[ClusterJob]:
    """A job of every topic whose name begins as that of its source."""
    cluster_job = make_cluster_job("source")
    cluster_job.load(BATCH)
    pattern = cluster_job.source.replace(".", "[.]") + ".*"
    cluster_job.apply(
        source={
            "topics": None, "topicPattern": pattern, "discoveryIntervalSeconds": 1, "stopping": {"mode": "Latest"},
        },
        checkpoint={"retention": {"intervalSeconds": 1, "count": 50}},
    )  # fmt: skip
    yield cluster_job
    cluster_job.job.delete(wait=False)
    cluster_job.topics.delete([second_topic(cluster_job)])


def second_topic(cluster_job: ClusterJob) -> str:
    """The topic that appears."""
    return f"{cluster_job.source}.more"


def test_a_bounded_job_finishes_at_the_ends_of_its_start(cluster_job: ClusterJob) -> None:
    status = cluster_job.job.wait("Finished", lambda status: condition_of(status, "Finished").get("status") == "True")
    cluster_job.kubectl.run("wait", "--for=condition=Finished", f"{KIND}/{NAME}", "--timeout=10s")
    assert (status["state"], status["attempt"]["outcome"]) == ("Finished", "Finished")
    assert cluster_job.job.pods(names.ROLE_EXECUTOR) == []
    verdict = cluster_job.judge()
    assert verdict.exactly_once, verdict.explain()
    assert verdict.records_out == BATCH
    cluster_job.assert_nothing_open()

    cluster_job.load(BATCH)
    cluster_job.change(source={"stopping": {"mode": "Unbounded"}})
    cluster_job.job.wait_ready(attempt_above=1)
    cluster_job.assert_exactly_once(2 * BATCH)


def test_partitions_and_topics_that_appear_are_read_from_their_beginning(cluster_job: ClusterJob) -> None:
    before = cluster_job.job.attempt
    cluster_job.grow(7)
    records = cluster_job.load(BATCH)
    cluster_job.job.wait("seven partitions are known", lambda status: status.get("source", {}).get("partitions") == 7)
    cluster_job.assert_exactly_once(records)

    second = second_topic(cluster_job)
    cluster_job.topics.recreate([second], partitions=2)
    records = cluster_job.load(BATCH, topic=second)
    cluster_job.job.wait("nine partitions are known", lambda status: status.get("source", {}).get("partitions") == 9)
    cluster_job.job.wait_read(records)
    verdict = cluster_job.judge(also=[second])
    assert verdict.exactly_once, verdict.explain()
    assert verdict.records_out == records
    cluster_job.assert_nothing_open()
    assert cluster_job.job.attempt == before


def test_a_job_goes_back_to_a_named_earlier_checkpoint(cluster_job: ClusterJob) -> None:
    """What it names is written once more, and nothing else: also where the driver is killed on the way."""
    before, written = cluster_job.job.attempt, cluster_job.job.status["source"]["recordsIn"]
    kept = (cluster_job.kubectl.get("configmap", names.checkpoints_config_map(NAME)) or {})["data"]
    named = decode_retained(
        min(kept.items())[1], key=min(kept), job_uid=cluster_job.kubectl.get(KIND, NAME)["metadata"]["uid"]
    )
    again = written - sum(named.offsets.values())
    assert again >= BATCH
    cluster_job.change(restore={"checkpoint": named.checkpoint_id, "nonce": 1})
    cluster_job.job.wait_ready(attempt_above=before)
    cluster_job.job.kill_driver()
    cluster_job.job.wait_ready(attempt_above=before + 1)
    (event,) = [each for each in cluster_job.job.events() if each["reason"] == "RestoredFromCheckpoint"]
    assert str(named.checkpoint_id) in event["message"]
    records = cluster_job.load(BATCH)
    cluster_job.job.wait_read(records + again)
    verdict = cluster_job.judge(also=[second_topic(cluster_job)])
    assert (verdict.lost, verdict.duplicates, verdict.wrong) == (0, again, 0), verdict.explain()
    cluster_job.assert_nothing_open()
