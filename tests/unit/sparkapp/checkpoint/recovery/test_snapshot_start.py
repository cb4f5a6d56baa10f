"""A first start at a snapshot, and a restore of a snapshot: steps of recovery, each in one write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointUnusable, ClusterChanged, RestoreRefused
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.state.query_log import EngineState, encode_engine
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.group_evidence import NoMarks
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeControl
from tests.support.jobs.plain_job import plain_spec

FIRST, SECOND = (TopicPartition("in", number) for number in range(2))
SNAPSHOT = RetainedCheckpoint(
    job_uid="another", attempt=9, checkpoint_id=412, created_at="2026-11-21T08:00:00Z",
    offsets={FIRST: 60, SECOND: 50}, cluster_id="kafka-1", topic_ids={"in": "abcdefghij"}, stops={FIRST: 500},
    stopping="Latest",
)  # fmt: skip
SPLITS = (KafkaPartitionSplit(FIRST, 60, 60), KafkaPartitionSplit(SECOND, 50, 50))
CURRENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
    splits=(KafkaPartitionSplit(FIRST, 100, 100),), engine=encode_engine(EngineState(3)), redeploy_nonce=4,
    cluster_id="kafka-1",
)  # fmt: skip


def attempt(
    store: MemoryStore, number: int = 1, *, snapshots: dict[str, RetainedCheckpoint] | None = None,
    cluster_id: str = "kafka-1", settles: bool = False, **fields: Any,
) -> Recovery:  # fmt: skip
    held = {"before": SNAPSHOT} if snapshots is None else snapshots
    job = Job(
        namespace="n", name="job", uid="uid", generation=1, attempt=number, spec=plain_spec(**fields),
        snapshots={name: encode_retained(each) for name, each in held.items()}, settles_only=settles,
    )  # fmt: skip
    return recover(
        job, store=store, control=FakeControl(), now="2026-11-21T10:00:00Z", retained=MemoryRetainedStore(),
        engine=QueryState(), clusters=ClusterIds(cluster_id, cluster_id), marks=NoMarks(),
    )  # fmt: skip


def stored(store: MemoryStore) -> CheckpointDocument:
    text = store.read().text
    assert text is not None
    return decode(text, job_uid="uid")


def test_a_first_start_begins_at_the_offsets_topics_and_stops_of_the_snapshot() -> None:
    store = MemoryStore()
    recovery = attempt(store, start_snapshot="before")
    document = stored(store)
    assert document == recovery.document
    assert (document.checkpoint_id, document.splits, document.stops) == (1, SPLITS, {FIRST: 500})
    assert (document.topic_ids, document.job_uid) == ({"in": "abcdefghij"}, "uid")
    assert not recovery.first_start, "the offsets initializer decides nothing"
    assert recovery.restored is not None
    assert recovery.restored.describe() == (
        "begins at checkpoint 412 of 2026-11-21T08:00:00Z, from snapshot before of the job with UID another: 2"
        " partition(s); what another job has written after that checkpoint is written again"
    )


def test_a_start_that_died_before_its_write_begins_there_and_a_later_start_resumes() -> None:
    claim = CheckpointDocument(
        job_uid="uid", attempt=1, checkpoint_id=0, created_at="", parallelism=1, prefix="p", cluster_id="kafka-1"
    )
    store = MemoryStore(encode(claim))
    assert attempt(store, 2, start_snapshot="before").restored is not None
    moved = replace(stored(store), checkpoint_id=2, splits=(KafkaPartitionSplit(FIRST, 60, 70),))
    later = MemoryStore(encode(moved))
    assert attempt(later, 3, start_snapshot="before").restored is None
    assert stored(later).offsets == {FIRST: 70}


def test_a_job_with_a_checkpoint_needs_no_snapshot_to_resume() -> None:
    store = MemoryStore(encode(CURRENT))
    assert attempt(store, 4, snapshots={}, start_snapshot="deleted").restored is None
    assert stored(store).offsets == CURRENT.offsets


def test_a_restore_of_a_snapshot_happens_once_per_nonce() -> None:
    store = MemoryStore(encode(CURRENT))
    restore = Restore(snapshot="before", nonce=5)
    recovery = attempt(store, 4, restore=restore)
    assert (stored(store).checkpoint_id, stored(store).splits, stored(store).redeploy_nonce) == (41, SPLITS, 5)
    assert recovery.restored is not None
    assert recovery.restored.describe() == (
        "went back to checkpoint 412 of 2026-11-21T08:00:00Z, from snapshot before of the job with UID another: 40"
        " record(s) of 1 partition(s) are read and written again"
    )
    assert attempt(store, 5, restore=restore, snapshots={}).restored is None


def test_a_first_start_serves_the_nonce_of_a_restore_without_the_snapshot() -> None:
    store = MemoryStore()
    recovery = attempt(store, restore=Restore(snapshot="before", nonce=5), snapshots={})
    assert recovery.first_start
    assert stored(store).redeploy_nonce == 5


@pytest.mark.parametrize("restore", [Restore(), Restore(snapshot="before", nonce=5)], ids=["first start", "restore"])
def test_a_job_without_a_volume_does_not_begin_with_state(restore: Restore) -> None:
    engine = encode_engine(EngineState(5, base=9, attempt=9, retained=412))
    store = MemoryStore(encode(CURRENT)) if restore.nonce else MemoryStore()
    with pytest.raises(CheckpointUnusable, match="a volume that the job does not have") as caught:
        attempt(
            store, 4, snapshots={"before": replace(SNAPSHOT, engine=engine)}, start_snapshot="before", restore=restore
        )
    assert "spec.checkpoint.stateVolume.claimName" in caught.value.remedy
    assert stored(store).offsets == (CURRENT.offsets if restore.nonce else {})


def test_operators_state_does_not_go_back_to_a_snapshot() -> None:
    store = MemoryStore(encode(replace(CURRENT, engine_has_state=True)))
    with pytest.raises(RestoreRefused, match="checkpoint 412"):
        attempt(store, 4, restore=Restore(snapshot="before", nonce=5))


@pytest.mark.parametrize("store", [MemoryStore(), MemoryStore(encode(CURRENT))], ids=["first start", "restore"])
def test_a_snapshot_of_another_cluster_is_refused_and_nothing_is_written(store: MemoryStore) -> None:
    before = store.read().text
    elsewhere = {"before": replace(SNAPSHOT, cluster_id="kafka-2")}
    fields = {"start_snapshot": "before", "restore": Restore(snapshot="before", nonce=5)}
    with pytest.raises(ClusterChanged, match="snapshot before is of Kafka cluster kafka-2") as caught:
        attempt(store, 4, snapshots=elsewhere, **fields)
    assert '{"spec":{"kafka":{"clusterId":"kafka-1"}}}' in caught.value.remedy
    assert store.read().text == before
    kafka = KafkaCluster(bootstrap_servers="b:1", cluster_id="kafka-1")
    attempt(store, 4, snapshots=elsewhere, kafka=kafka, **fields)
    assert stored(store).offsets == SNAPSHOT.offsets, "a mirror, as the spec says"
    assert stored(store).topic_ids == {}


@pytest.mark.parametrize("snapshots", [{}, {"another": SNAPSHOT}])
def test_a_description_without_the_snapshot_is_refused_before_anything_is_written(
    snapshots: dict[str, RetainedCheckpoint],
) -> None:
    store = MemoryStore()
    with pytest.raises(CheckpointUnusable, match="no checkpoint of KafkaSparkSnapshot before") as caught:
        attempt(store, start_snapshot="before", snapshots=snapshots)
    assert "SpecificOffsets" in caught.value.remedy
    assert store.read().text is None


def test_an_attempt_that_only_settles_begins_nowhere() -> None:
    store = MemoryStore()
    assert attempt(store, start_snapshot="before", settles=True).restored is None
    assert stored(store).splits == ()
