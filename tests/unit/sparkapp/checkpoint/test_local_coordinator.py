"""The coordinator of the local pace: what each swap of the document says, and what it does without an answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator, LocalTotals
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import GroupOffset, Mark, mark_of, offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters, LocalPart
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointStoreUnavailable,
    GroupOffsetsMissing,
    InvalidArgument,
)
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.model.job.startup import Stopping, StoppingMode
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.group_evidence import FakeEvidence
from tests.support.fakes.memory_store import LossyStore
from tests.support.jobs.plain_job import plain_spec

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
SPEC = plain_spec(
    source=Source(topics=("a",), group_id="group", stopping=Stopping(mode=StoppingMode.LATEST)), parallelism=2
)
JOB = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=6, spec=SPEC)
CLAIM = CheckpointDocument(
    job_uid="uid", attempt=6, checkpoint_id=9, created_at="then", parallelism=3, prefix="p", slots=SlotBounds(3, 5),
    splits=(KafkaPartitionSplit(A0, 80, 100), KafkaPartitionSplit(A1, 0, 50)), engine="spark", transactional=True,
    counters=Counters(records_in=1000, records_out=900),
)  # fmt: skip
STARTS = (KafkaPartitionSplit(A0, 100, 100), KafkaPartitionSplit(A1, 50, 50))


class Rig:
    """A coordinator of attempt 6 over a claimed document."""

    def __init__(self, claim: CheckpointDocument = CLAIM) -> None:
        self.store, self.group, self.ticks = LossyStore(), FakeEvidence(), 0
        version = self.store.write(encode(claim), expected="0")
        writer = DocumentWriter(self.store, claim, version)
        self.coordinator = LocalCoordinator(JOB, writer=writer, evidence=self.group, now=self.now)

    def now(self) -> str:
        self.ticks += 1
        return f"time {self.ticks}"

    @property
    def written(self) -> CheckpointDocument:
        text = self.store.read().text
        assert text is not None
        return decode(text, job_uid="uid")

    def running(self) -> Rig:
        self.coordinator.grant(STARTS)
        self.coordinator.placed({A0: 100, A1: 50})
        return self


def test_the_grant_has_starts_era_and_bound_and_nothing_is_placed() -> None:
    rig = Rig()
    rig.coordinator.grant(STARTS, {A0: 500}, {"a": "0123456789"})
    found = rig.written
    assert found == rig.coordinator.document
    assert found.local == LocalPart(era=6)
    assert (found.offsets, found.evidence_group, found.topic_ids) == ({A0: 100, A1: 50}, "group", {"a": "0123456789"})
    assert found.slots == SlotBounds(3, 5), "a bound never shrinks"
    assert (found.checkpoint_id, found.engine, found.transactional) == (10, "", False)


def test_a_superseded_attempt_is_not_granted() -> None:
    rig = Rig()
    rig.store.write(encode(replace(CLAIM, attempt=7)), expected=rig.store.read().version)
    with pytest.raises(CheckpointConflict):
        rig.coordinator.grant(STARTS)
    assert rig.written.attempt == 7


def test_marks_name_a_checkpoint_that_is_written() -> None:
    rig = Rig().running()
    assert mark_of(rig.coordinator.mark, "uid") == Mark(6, 10)
    rig.coordinator.record({A0: 101}, LocalTotals(transactions=1))
    assert mark_of(rig.coordinator.mark, "uid") == Mark(6, 11)


def test_ids_are_the_first_slot_of_each_subtask() -> None:
    assert Rig().coordinator.ids_in_use() == ["p-0.0", "p-1.0"]


def test_partitions_are_placed_once_and_new_ones_are_added() -> None:
    rig = Rig().running()
    ticks = rig.ticks
    rig.coordinator.placed({A0: 130})
    assert rig.ticks == ticks, "nothing is written"
    rig.coordinator.placed({A2: 7})
    assert rig.written.offsets == {A0: 100, A1: 50, A2: 7}
    assert rig.written.local == LocalPart(era=6, placed=frozenset({A0, A1, A2}))


def test_partitions_that_are_gone_are_forgotten_with_the_ids_of_their_topics() -> None:
    rig, b0 = Rig(), TopicPartition("b", 0)
    splits = (*STARTS, KafkaPartitionSplit(b0, 7, 7))
    rig.coordinator.grant(splits, {A0: 500, b0: 600}, {"a": "0123456789", "b": "9876543210"})
    rig.coordinator.placed({A0: 100, b0: 7})
    rig.coordinator.forget({b0, A1})
    assert (rig.written.offsets, rig.written.topic_ids) == ({A0: 100}, {"a": "0123456789"})
    assert rig.written.local == LocalPart(era=6, placed=frozenset({A0}), forgot_at=11)
    assert rig.written.checkpoint_id == 11, "every mark of them is older"
    rig.coordinator.forget({b0})
    assert rig.written.local == LocalPart(era=6, placed=frozenset({A0}), forgot_at=12)
    assert rig.written.checkpoint_id == 12, "it may be placed, and no document says so yet"


def test_a_placed_partition_brings_the_id_of_its_own_topic_alone() -> None:
    rig = Rig()
    rig.coordinator.grant(STARTS, None, {"a": "0123456789"})
    rig.coordinator.placed({TopicPartition("b", 0): 0}, {"a": "recreated0", "b": "9876543210"})
    assert rig.written.topic_ids == {"a": "0123456789", "b": "9876543210"}


def test_a_record_is_a_checkpoint() -> None:
    rig = Rig().running()
    completed = rig.coordinator.record(
        {A0: 130, A1: 50}, LocalTotals(records_out=25, skipped=2, dead_lettered=3, transactions=4)
    )
    assert completed is not None
    assert completed.document == rig.written
    assert completed.document.checkpoint_id == rig.coordinator.committed_id == 11
    assert completed.document.splits == (KafkaPartitionSplit(A0, 100, 130), KafkaPartitionSplit(A1, 50, 50))
    assert completed.document.counters == Counters(
        records_in=1030, records_out=925, records_skipped=2, records_dead_lettered=3, transactions_committed=4
    )
    assert completed.document.committables == ()


def test_nothing_new_is_no_checkpoint() -> None:
    rig = Rig().running()
    assert rig.coordinator.record({A0: 100}, LocalTotals()) is None
    rig.coordinator.record({A0: 110}, LocalTotals(transactions=1))
    assert rig.coordinator.record({A0: 110, A1: 50}, LocalTotals(transactions=1)) is None


def test_a_late_report_takes_nothing_back() -> None:
    rig = Rig().running()
    rig.coordinator.record({A0: 130}, LocalTotals(transactions=3))
    rig.coordinator.record({A0: 120, A1: 60}, LocalTotals(transactions=4))
    assert rig.written.offsets == {A0: 130, A1: 60}


def test_a_partition_that_is_not_placed_is_not_recorded() -> None:
    rig = Rig()
    rig.coordinator.grant(STARTS)
    rig.coordinator.placed({A0: 100})
    rig.coordinator.record({A0: 130, A1: 99, A2: 1}, LocalTotals(transactions=2))
    assert rig.written.offsets == {A0: 130, A1: 50}
    assert rig.written.local == LocalPart(era=6, placed=frozenset({A0}))


@pytest.mark.parametrize("writes_first", [True, False])
@pytest.mark.parametrize("silent", [1, 3])
def test_records_without_an_answer_are_in_the_next(writes_first: bool, silent: int) -> None:
    rig = Rig().running()
    rig.store.silent, rig.store.writes_first = silent, writes_first
    number = 0
    while rig.store.silent:
        number += 1
        with pytest.raises(CheckpointStoreUnavailable):
            rig.coordinator.record({A0: 100 + number}, LocalTotals(records_out=number, transactions=number))
    completed = rig.coordinator.record({A0: 140}, LocalTotals(records_out=40, transactions=9))
    assert completed is not None
    assert rig.written == completed.document
    assert (rig.written.checkpoint_id, rig.written.offsets[A0]) == (11, 140)
    assert (rig.written.counters.records_out, rig.written.counters.transactions_committed) == (940, 9)


def test_a_successor_is_not_replaced_after_a_write_without_an_answer() -> None:
    rig = Rig().running()
    rig.store.silent, rig.store.writes_first = 1, False
    with pytest.raises(CheckpointStoreUnavailable):
        rig.coordinator.record({A0: 110}, LocalTotals(transactions=1))
    claimed = replace(rig.written, attempt=7)
    rig.store.write(encode(claimed), expected=rig.store.read().version)
    with pytest.raises(CheckpointConflict):
        rig.coordinator.record({A0: 120}, LocalTotals(transactions=2))
    assert rig.written == claimed


def test_a_new_instance_starts_where_the_group_is() -> None:
    rig = Rig().running()
    rig.group.offsets = {A0: GroupOffset(170, offset_mark("uid", 6, 9)), A1: GroupOffset(50, offset_mark("uid", 6, 9))}
    version = rig.store.read().version
    assert rig.coordinator.grant_again([A0, A2], set) == {A0: 170}
    assert rig.store.read().version != version, "the grant is a swap"
    assert rig.written.offsets == {A0: 100, A1: 50}, "the next record has it"


def test_a_new_instance_places_what_was_not_placed() -> None:
    rig = Rig()
    rig.coordinator.grant(STARTS)
    assert rig.coordinator.grant_again([A0, A1], set) == {A0: 100, A1: 50}


def test_a_new_instance_is_not_granted_without_the_groups_offset() -> None:
    rig = Rig().running()
    with pytest.raises(GroupOffsetsMissing):
        rig.coordinator.grant_again([A0], set)


def test_a_new_instance_of_a_superseded_attempt_is_not_granted() -> None:
    """Also where the group has its successor's offsets."""
    rig = Rig().running()
    rig.store.write(encode(replace(rig.written, attempt=7)), expected=rig.store.read().version)
    rig.group.offsets = {A0: GroupOffset(170, offset_mark("uid", 7, 11))}
    with pytest.raises(CheckpointConflict):
        rig.coordinator.grant_again([A0], set)


def test_an_orderly_stop_is_exact() -> None:
    rig = Rig().running()
    rig.coordinator.drained(finished=True)
    assert (rig.written.drained, rig.written.finished) == (True, True)
    assert rig.written.local == LocalPart(era=6, placed=frozenset({A0, A1}), ended=True)


def test_a_stop_before_the_grant_keeps_what_recovery_found() -> None:
    rig = Rig()
    rig.coordinator.drained()
    assert (rig.written.drained, rig.written.local, rig.written.offsets) == (True, None, CLAIM.offsets)
    with pytest.raises(InvalidArgument, match="no instance has been granted"):
        rig.coordinator.placed({A0: 1})


def test_a_stop_before_the_grant_leaves_the_era_of_an_earlier_attempt_open() -> None:
    """It still decides about a topic that the spec has left, and has not ended in order."""
    era = LocalPart(era=5, placed=frozenset({A1}))
    rig = Rig(replace(CLAIM, local=era, evidence_group="group", engine="", transactional=False))
    rig.coordinator.drained()
    assert (rig.written.local, rig.written.evidence_group, rig.written.drained) == (era, "group", True)
    with pytest.raises(InvalidArgument, match="no instance has been granted"):
        rig.coordinator.placed({A1: 50})
    rig.coordinator.grant(STARTS[:1])
    assert rig.written.local == LocalPart(era=6)


def test_a_topic_id_that_was_not_known_at_placing_is_recorded_once() -> None:
    """A broker that lagged was asked for it. Without it nobody would see that the topic is created again."""
    rig = Rig()
    rig.coordinator.grant(STARTS)
    rig.coordinator.placed({A0: 100, A1: 50}, {})
    assert rig.written.topic_ids == {}
    assert rig.coordinator.record({}, LocalTotals(), None, {"a": "0123456789", "other": "x"}) is not None
    assert rig.written.topic_ids == {"a": "0123456789"}
    assert rig.coordinator.record({}, LocalTotals(), None, {"a": "9876543210"}) is None
    assert rig.coordinator.record({A0: 120}, LocalTotals(records_out=20), None, {"a": "9876543210"}) is not None
    assert rig.written.topic_ids == {"a": "0123456789"}


def test_a_record_has_the_stops_of_what_is_read_and_no_others() -> None:
    rig = Rig()
    rig.coordinator.grant(STARTS, {A0: 500, A1: 600})
    rig.coordinator.placed({A0: 100, A1: 50})
    rig.coordinator.record({A0: 110}, LocalTotals(transactions=1), {A0: 500, A1: 600})
    assert rig.written.stops == {A0: 500, A1: 600}
    rig.coordinator.forget({A1})
    assert rig.coordinator.record({}, LocalTotals(transactions=1), {A0: 500}) is not None
    assert rig.written.stops == {A0: 500}
    assert rig.coordinator.record({}, LocalTotals(transactions=1), {A0: 500}) is None
