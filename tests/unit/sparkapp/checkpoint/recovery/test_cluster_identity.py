"""Whose cluster a document is of: what recovery takes it for, and the commands that a refusal offers."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds, on_clusters, refuse_other_cluster
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument, LocalPart
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import ClusterChanged, ConfigurationError
from sparkapp.model.job.sections.kafka import SINK_CLUSTER, KafkaCluster
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.plain_job import plain_spec

DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
    cluster_id="OLD",
)  # fmt: skip
OPEN = KafkaCommittable(
    transactional_id="p-1", producer_id=1, producer_epoch=0, checkpoint_id=40, subtask=0,
    records=0,
)  # fmt: skip


def job(cluster_id: str = "") -> Job:
    spec = plain_spec(kafka=KafkaCluster(bootstrap_servers="b:1", cluster_id=cluster_id))
    return Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=4, spec=spec)


def on_cluster(document: CheckpointDocument, of: Job, cluster_id: str) -> CheckpointDocument:
    """Of a job with one cluster."""
    return on_clusters(document, of, ClusterIds(cluster_id, cluster_id))


def patch_of(remedy: str) -> dict[str, Any]:
    """What the first command of the remedy would merge into the resource."""
    words = shlex.split(next(line for line in remedy.splitlines() if line.startswith("kubectl patch")))
    assert words[:7] == ["kubectl", "patch", "ksj", "orders", "-n", "shop", "--type"]
    spec = json.loads(words[words.index("-p") + 1])["spec"]
    assert isinstance(spec, dict)
    return spec


def test_the_id_is_kept_and_documents_of_earlier_releases_have_none() -> None:
    assert decode(encode(DOCUMENT), job_uid="uid") == DOCUMENT
    assert "clusterId" not in encode(replace(DOCUMENT, cluster_id=""))


@pytest.mark.parametrize("named", ["", "OLD"])
def test_the_same_cluster_changes_nothing(named: str) -> None:
    assert on_cluster(DOCUMENT, job(named), "OLD") == DOCUMENT


def test_a_first_start_on_this_release_records_the_cluster() -> None:
    assert on_cluster(replace(DOCUMENT, cluster_id=""), job(), "NEW") == replace(DOCUMENT, cluster_id="NEW")


@pytest.mark.parametrize("ended", [False, True])
def test_a_job_of_the_local_pace_moves_if_it_has_ended_in_order(ended: bool) -> None:
    """A mirrored group may be behind what is visible on the previous cluster."""
    local = LocalPart(era=3, placed=frozenset({TopicPartition("in", 0)}), ended=ended)
    splits = (KafkaPartitionSplit(TopicPartition("in", 0), 100, 100),)
    document = replace(DOCUMENT, local=local, evidence_group="g", splits=splits)
    if ended:
        expected = replace(document, cluster_id="NEW", local=None, evidence_group="")
        assert on_cluster(document, job("NEW"), "NEW") == expected
        return
    with pytest.raises(ClusterChanged, match="how far its subtasks have committed is known on the previous cluster"):
        on_cluster(document, job("NEW"), "NEW")


def test_brokers_without_topic_ids_are_not_judged() -> None:
    assert on_cluster(DOCUMENT, job("OTHER"), "") == DOCUMENT


def test_another_cluster_is_refused_by_both_ids_and_the_remedy_moves_the_job() -> None:
    with pytest.raises(
        ClusterChanged, match=r"checkpoint 40 is of Kafka cluster OLD.* reaches the cluster NEW"
    ) as caught:
        on_cluster(DOCUMENT, job(), "NEW")
    named = patch_of(caught.value.remedy)["kafka"]["clusterId"]
    assert on_cluster(DOCUMENT, job(named), "NEW") == replace(DOCUMENT, cluster_id="NEW")
    assert "kubectl get ksj orders -n shop -o yaml | kubectl replace --force -f -" in caught.value.remedy


def test_transactions_of_the_previous_cluster_are_settled_there() -> None:
    with pytest.raises(ClusterChanged, match="1 transaction"):
        on_cluster(replace(DOCUMENT, committables=(OPEN,)), job("NEW"), "NEW")


@pytest.mark.parametrize("store", [MemoryStore(), MemoryStore(encode(DOCUMENT))])
def test_a_spec_that_names_a_cluster_runs_on_no_other(store: MemoryStore) -> None:
    with pytest.raises(ClusterChanged, match=r"spec\.kafka\.clusterId is THIRD") as caught:
        refuse_other_cluster(job("THIRD"), store, ClusterIds("OLD", "OLD"))
    refuse_other_cluster(job(patch_of(caught.value.remedy)["kafka"]["clusterId"]), store, ClusterIds("OLD", "OLD"))


TWO = replace(DOCUMENT, sink_cluster_id="SINK")
MOVED = ClusterIds("OLD", "NEW")


def two_clusters(cluster_id: str = "", source_id: str = "") -> Job:
    """A job whose sink has a cluster of its own."""
    sink = KafkaCluster(bootstrap_servers="s:1", cluster_id=cluster_id, field=SINK_CLUSTER)
    each = job(source_id)
    return replace(each, spec=replace(each.spec, sink=replace(each.spec.sink, kafka=sink)))


def test_both_ids_are_kept_and_a_document_of_one_cluster_has_one() -> None:
    assert decode(encode(TWO), job_uid="uid") == TWO
    assert "sinkClusterId" not in encode(DOCUMENT)
    assert on_clusters(TWO, two_clusters(), ClusterIds("OLD", "SINK")) == TWO


def test_a_sink_cluster_that_changed_is_refused_and_the_remedy_moves_the_sink() -> None:
    """From another cluster of the sink, and from the cluster of the source."""
    for document, known in ((TWO, "SINK"), (DOCUMENT, "OLD")):
        refusal = rf"checkpoint 40 writes to Kafka cluster {known}, and spec\.sink\.kafka.* reaches the cluster NEW"
        with pytest.raises(ClusterChanged, match=refusal) as caught:
            on_clusters(document, two_clusters(), MOVED)
        named = patch_of(caught.value.remedy)["sink"]["kafka"]["clusterId"]
        moved = replace(DOCUMENT, sink_cluster_id="NEW")
        assert on_clusters(document, two_clusters(named), MOVED) == moved


def test_the_sink_returns_to_the_cluster_of_the_source_by_its_id() -> None:
    back = ClusterIds("OLD", "OLD")
    with pytest.raises(ClusterChanged, match="is of Kafka cluster SINK") as caught:
        on_clusters(TWO, job(), back)
    assert on_clusters(TWO, job(patch_of(caught.value.remedy)["kafka"]["clusterId"]), back) == DOCUMENT


@pytest.mark.parametrize(
    ("unsettled", "message"),
    [
        ({"committables": (OPEN,)}, "1 transaction"),
        ({"sink_topics": frozenset({"out"})}, "the ends of its transactions can be proven"),
    ],
)
def test_a_sink_moves_only_behind_an_orderly_stop(unsettled: dict[str, Any], message: str) -> None:
    with pytest.raises(ClusterChanged, match=message):
        on_clusters(replace(TWO, **unsettled), two_clusters("NEW"), MOVED)


def test_a_mirrored_source_needs_no_settled_sink_unless_its_group_is_evidence() -> None:
    document, ids = replace(TWO, committables=(OPEN,), topic_ids={"in": "abcdefghij"}), ClusterIds("MIRROR", "SINK")
    mirrored = two_clusters(source_id="MIRROR")
    assert on_clusters(document, mirrored, ids) == replace(document, cluster_id="MIRROR", topic_ids={})
    with pytest.raises(ClusterChanged, match="1 transaction"):
        on_clusters(replace(document, evidence_group="g"), mirrored, ids)


def test_each_cluster_has_an_id_of_its_own_in_the_spec() -> None:
    for spec, field in ((two_clusters("THIRD"), "spec.sink.kafka"), (two_clusters(source_id="THIRD"), "spec.kafka")):
        with pytest.raises(ClusterChanged, match=rf"{field}\.clusterId is THIRD"):
            refuse_other_cluster(spec, MemoryStore(), ClusterIds("OLD", "SINK"))


def test_a_sink_cluster_that_is_the_sources_is_refused() -> None:
    """Its group's offsets belong into the transactions, and a job could read its own output."""
    with pytest.raises(
        ConfigurationError, match=r"spec\.sink\.kafka.* reaches the cluster of spec\.kafka, OLD"
    ) as caught:
        refuse_other_cluster(two_clusters(), MemoryStore(), ClusterIds("OLD", "OLD"))
    assert patch_of(caught.value.remedy) == {"sink": {"kafka": None}}
