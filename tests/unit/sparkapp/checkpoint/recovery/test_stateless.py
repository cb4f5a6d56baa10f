"""A start without the checkpoint, as a step of recovery: once a request, in one write (ADR 97)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters, LocalPart, StatelessStart
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointCorrupt
from sparkapp.model.job.sections.retention import Restore, due_snapshot, is_first_start
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.spark.state.query_log import EngineState, encode_engine
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeControl
from tests.support.jobs.plain_job import plain_spec

FIRST, SECOND = (TopicPartition("in", number) for number in range(2))
CURRENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
    hint=TransactionalIdHint(2, 20), engine=encode_engine(EngineState(3, base=30)), engine_has_state=True, drained=True,
    splits=(KafkaPartitionSplit(FIRST, 60, 100), KafkaPartitionSplit(SECOND, 50, 50)), finished=True,
    stops={FIRST: 900}, stopping="Latest", topic_ids={"in": "abcdefghij"}, sink_topics=frozenset({"out"}),
    cluster_id="kafka-1", redeploy_nonce=4, counters=Counters(records_in=150, records_out=120),
)  # fmt: skip
BEGUN = replace(
    CURRENT, attempt=4, checkpoint_id=41, created_at="2026-11-21T10:00:00Z", engine="", engine_has_state=False,
    splits=(), finished=False, drained=False, stops={}, stopping="", topic_ids={},
    stateless=StatelessStart(asked_by=4, checkpoint_id=41),
)  # fmt: skip
CLAIMED = CheckpointDocument(
    job_uid="uid", attempt=1, checkpoint_id=0, created_at="", parallelism=2, prefix="p", cluster_id="kafka-1"
)
"""By an attempt that has fixed no starting offsets."""
SNAPSHOT = RetainedCheckpoint(
    job_uid="another", attempt=9, checkpoint_id=412, created_at="2026-11-21T08:00:00Z", offsets={FIRST: 20},
    cluster_id="kafka-1", topic_ids={}, stops={}, stopping="",
)  # fmt: skip


class Marks:
    """The metadata of the group's offsets, and what the group answers about a local pace."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def of(self, _: CheckpointDocument | None) -> tuple[str, ...]:
        return self.texts

    def final(self, _: CheckpointDocument) -> dict[TopicPartition, None]:
        return {FIRST: None, SECOND: None}


def attempt(
    store: MemoryStore, number: int, *, stateless: int, marks: Marks | None = None, kept: bool = True, **fields: Any
) -> Recovery:
    job = Job(
        namespace="n", name="job", uid="uid", generation=1, attempt=number, spec=plain_spec(**fields),
        stateless=stateless, snapshots={"before": encode_retained(SNAPSHOT)},
    )  # fmt: skip
    earlier = replace(CURRENT, checkpoint_id=12, engine="", engine_has_state=False)
    return recover(
        job, store=store, control=FakeControl(), now="2026-11-21T10:00:00Z", engine=QueryState(),
        retained=MemoryRetainedStore({retained_key(12): encode_retained(retained(earlier))} if kept else {}),
        clusters=ClusterIds("kafka-1", "kafka-1"), marks=marks or Marks(),
    )  # fmt: skip


def stored(store: MemoryStore) -> CheckpointDocument:
    text = store.read().text
    assert text is not None
    return decode(text, job_uid="uid")


def test_what_belongs_to_records_is_left_and_what_settles_transactions_stays() -> None:
    store = MemoryStore(encode(CURRENT))
    recovery = attempt(store, 4, stateless=4)
    assert stored(store) == recovery.document == BEGUN
    assert recovery.first_start
    assert recovery.left is not None
    assert recovery.left.describe({FIRST: 70, SECOND: 55, TopicPartition("in", 2): 0}) == (
        "begins without checkpoint 40 of 2026-11-21T10:00:00Z (spec.upgrade.mode Stateless): 30 record(s) are read and"
        " written again, 5 record(s) are skipped; operators begin with empty state"
    )


def test_a_request_is_served_once_and_another_request_again() -> None:
    store = MemoryStore(encode(CURRENT))
    attempt(store, 4, stateless=4)
    assert attempt(store, 5, stateless=4).first_start, "attempt 4 has not fixed starting offsets"
    assert stored(store).checkpoint_id == 41
    placed = replace(stored(store), splits=(KafkaPartitionSplit(FIRST, 0, 0),))
    store = MemoryStore(encode(placed))
    later = attempt(store, 6, stateless=4)
    assert (later.first_start, later.left, later.document.offsets) == (False, None, {FIRST: 0})
    assert attempt(store, 7, stateless=0).left is None
    again = attempt(store, 8, stateless=8)
    assert again.left is not None
    assert (stored(store).checkpoint_id, stored(store).stateless) == (42, StatelessStart(asked_by=8, checkpoint_id=42))


def test_a_later_document_without_partitions_is_no_first_start() -> None:
    """All topics of a pattern were deleted: what comes back is read from its beginning, wherever a start begins."""
    assert is_first_start(BEGUN)
    assert not is_first_start(replace(BEGUN, checkpoint_id=42))
    assert not is_first_start(replace(CURRENT, splits=()))


@pytest.mark.parametrize("text", [None, encode(CLAIMED)])
def test_a_first_start_serves_the_request(text: str | None) -> None:
    store = MemoryStore(text)
    recovery = attempt(store, 2, stateless=2, kept=False)
    assert (recovery.first_start, recovery.left, stored(store).checkpoint_id) == (True, None, 0)
    moved = replace(stored(store), checkpoint_id=9, splits=(KafkaPartitionSplit(FIRST, 0, 70),))
    store = MemoryStore(encode(moved))
    assert attempt(store, 3, stateless=2).left is None, "attempt 2 was the start that was asked for"
    assert stored(store).offsets == {FIRST: 70}


def test_it_begins_at_the_snapshot_of_start_from_in_the_same_write() -> None:
    store = MemoryStore(encode(CURRENT))
    recovery = attempt(store, 4, stateless=4, start_snapshot="before")
    assert recovery.restored is not None
    assert recovery.left is not None
    assert (stored(store).offsets, recovery.first_start) == ({FIRST: 20}, False)
    assert stored(store).checkpoint_id == 42
    assert attempt(store, 5, stateless=4, start_snapshot="before").restored is None


def test_a_restore_that_names_a_checkpoint_decides_and_serves_the_request() -> None:
    store = MemoryStore(encode(replace(CURRENT, engine="", engine_has_state=False)))
    recovery = attempt(store, 4, stateless=4, restore=Restore(checkpoint=12, nonce=5), start_snapshot="before")
    assert recovery.restored is not None
    assert recovery.restored.checkpoint.checkpoint_id == 12
    assert recovery.left is None
    assert attempt(store, 5, stateless=4, restore=Restore(checkpoint=12, nonce=5)).left is None
    assert stored(store).offsets == CURRENT.offsets


def test_a_restore_without_a_target_is_served_by_it() -> None:
    store = MemoryStore(encode(CURRENT))
    assert attempt(store, 4, stateless=4, restore=Restore(nonce=5)).left is not None
    assert stored(store).redeploy_nonce == 5


def test_its_number_is_above_that_of_every_mark() -> None:
    store = MemoryStore(encode(replace(CURRENT, engine="", engine_has_state=False)))
    mark = offset_mark("uid", 40, 3)
    assert attempt(store, 4, stateless=4, marks=Marks(mark)).document.checkpoint_id == 41
    assert attempt(store, 5, stateless=4, marks=Marks(mark)).first_start, "the state is not older than the mark"


def test_a_group_that_was_moved_does_not_hold_back_a_start_that_leaves_it() -> None:
    local = replace(
        CURRENT, engine="", engine_has_state=False, evidence_group="g", slots=SlotBounds(2, 1),
        local=LocalPart(era=3, placed=frozenset({FIRST, SECOND})),
    )  # fmt: skip
    store = MemoryStore(encode(local))
    attempt(store, 4, stateless=4)
    assert (stored(store).local, stored(store).evidence_group, stored(store).splits) == (None, "", ())


def test_operator_and_driver_choose_the_same_snapshot() -> None:
    named = Restore(snapshot="kept", nonce=5)
    assert due_snapshot("before", Restore(), CURRENT, stateless=4) == "before"
    assert due_snapshot("before", Restore(), BEGUN, stateless=4) == "before", "a start that died behind its write"
    assert due_snapshot("before", Restore(nonce=5), CURRENT, stateless=4) == "before"
    assert due_snapshot("before", named, CURRENT, stateless=4) == "kept"
    assert due_snapshot("before", Restore(), CURRENT) == ""


def test_a_stateless_start_of_a_later_checkpoint_is_no_document() -> None:
    text = encode(replace(CURRENT, stateless=StatelessStart(asked_by=3, checkpoint_id=41)))
    with pytest.raises(CheckpointCorrupt, match=r"stateless\.checkpointId 41 is after checkpoint 40"):
        decode(text, job_uid="uid")
