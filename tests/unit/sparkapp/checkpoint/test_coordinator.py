"""What the coordinator does to the group's offsets outside its transactions, and when; which ids it records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument, LocalPart
from sparkapp.model.checkpoint.naming import NO_SLOTS, SlotBounds, TransactionNaming
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.errors import CheckpointConflict, KafkaUnreachable, TransactionFenced
from sparkapp.model.job.group_membership import MembershipMode, MembershipOptions
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.job.startup import Stopping
from sparkapp.model.partition import TopicPartition
from sparkapp.model.protocol import ProtocolStep
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint
from sparkapp.sink.checkpoint_commits import CheckpointCommits
from tests.support.fakes.closed_logs import ClosedEnds
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeTransactions
from tests.support.jobs.plain_job import plain_spec

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
SPLITS = (KafkaPartitionSplit(A0, 0, 10), KafkaPartitionSplit(A1, 5, 5))
SPEC = plain_spec(source=Source(topics=("a",), group_id="g", stopping=Stopping(predicate="value = 'END'")))
DOCUMENT = CheckpointDocument(job_uid="uid", attempt=1, checkpoint_id=0, created_at="", parallelism=1, prefix="p")
COMMITTABLE = KafkaCommittable(
    transactional_id="p-0", producer_id=1, producer_epoch=0, checkpoint_id=1, subtask=0,
    records=6, ranges=SPLITS[:1],
)  # fmt: skip


class Recorder:
    """Committer and group offsets in one, which note what is asked of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.is_over = True

    def place(self, offsets: Mapping[TopicPartition, int], mark: str) -> None:
        self.calls.append(("place", dict(offsets), mark))

    def withdraw(self, partitions: Collection[TopicPartition], timeout: float) -> bool:
        self.calls.append(("withdraw", list(partitions)))
        return self.is_over


class Group(Recorder):
    def commit(self, offsets: Mapping[TopicPartition, int], mark: str = "") -> None:
        self.calls.append(("commit", dict(offsets), mark))


def coordinator(
    group: Group,
    spec: JobSpec = SPEC,
    document: CheckpointDocument = DOCUMENT,
    *,
    store: MemoryStore | None = None,
    transactions: FakeTransactions | None = None,
) -> CheckpointCoordinator:
    asked = transactions or FakeTransactions()
    return CheckpointCoordinator(
        Job(namespace="ns", name="j", uid="uid", generation=1, attempt=1, spec=spec),
        writer=DocumentWriter(store or MemoryStore(encode(document)), document, "0"),
        commits=CheckpointCommits(asked, asked, ClosedEnds()), group_offsets=group, now=lambda: "",
        clock=asked.clock,
    )  # fmt: skip


@pytest.mark.parametrize("delivery_guarantee", DeliveryGuarantee)
def test_an_attempt_of_the_two_phase_pace_leaves_the_era_of_the_local_pace(
    delivery_guarantee: DeliveryGuarantee,
) -> None:
    """Recovery keeps the era for partitions that the job reads no more, and this document leaves them out."""
    before = replace(
        DOCUMENT, splits=SPLITS, evidence_group="g", slots=SlotBounds(1, 1),
        local=LocalPart(era=1, placed=frozenset({A1})),
    )  # fmt: skip
    store = MemoryStore(encode(before))
    spec = replace(SPEC, sink=replace(SPEC.sink, delivery_guarantee=delivery_guarantee))
    coordinator(Group(), spec, before, store=store).begin(SPLITS[:1])
    text = store.read().text
    assert text is not None
    written = decode(text, job_uid="uid")
    assert (written.local, written.splits) == (None, SPLITS[:1])


def test_previous_commits_are_over_before_a_transaction_takes_newer_offsets() -> None:
    group = Group()
    each = coordinator(group)
    each.prepare(SPLITS)
    each.prepare((KafkaPartitionSplit(A0, 10, 20), KafkaPartitionSplit(A1, 5, 6)))
    assert group.calls == [
        ("withdraw", [A0]), ("place", {A0: 0, A1: 5}, "uid/1/0"), ("withdraw", [A0, A1]),
    ]  # fmt: skip


def test_an_end_is_in_the_document_that_makes_its_checkpoint_final_and_in_the_group() -> None:
    group = Group()
    each = coordinator(group)
    each.begin((KafkaPartitionSplit(A0, 0, 0), SPLITS[1]), {A1: 5})
    cut = (KafkaPartitionSplit(A0, 0, 7), SPLITS[1])
    completed = each.complete(
        PreCommitted(
            checkpoint_id=1, splits=cut, stops={A0: 7, A1: 5}, aligned=True, committables=(COMMITTABLE,), records_out=6
        )
    )
    assert completed is not None
    assert completed.document.offsets == completed.document.stops == {A0: 7, A1: 5}
    assert completed.document.counters.records_in == 7
    assert group.calls == [("commit", {A0: 7}, "uid/1/1")], "the transaction moved the group to 10"
    group.calls.clear()
    each.commit_ends()
    assert group.calls == [("commit", {A0: 7, A1: 5}, "uid/1/1")], "once more, for a driver that died before"


def test_a_partition_that_is_gone_leaves_no_stop_in_the_document() -> None:
    """A topic may be created again under its name, and would end there."""
    each = coordinator(Group())
    each.begin((KafkaPartitionSplit(A0, 0, 0), SPLITS[1]), {A0: 10, A1: 5})
    completed = each.complete(
        PreCommitted(
            checkpoint_id=1, splits=SPLITS[:1], stops={A0: 10}, aligned=True, committables=(), records_out=0
        )
    )  # fmt: skip
    assert completed is not None
    assert completed.document.offsets == completed.document.stops == {A0: 10}


def test_ends_are_committed_once_and_only_where_records_end_partitions() -> None:
    group = Group()
    coordinator(group, document=replace(DOCUMENT, finished=True, splits=SPLITS)).commit_ends()
    plain = replace(SPEC, source=replace(SPEC.source, stopping=Stopping()))
    coordinator(group, plain, replace(DOCUMENT, splits=SPLITS)).commit_ends()
    assert group.calls == []


@pytest.mark.parametrize(
    ("naming", "delivery_guarantee", "slots", "hint"),
    [
        (
            TransactionNaming.SUBTASK_AND_SLOT,
            DeliveryGuarantee.EXACTLY_ONCE,
            SlotBounds(4, 5),
            TransactionalIdHint(2, 10),
        ),
        (TransactionNaming.HINT, DeliveryGuarantee.EXACTLY_ONCE, SlotBounds(2, 5), TransactionalIdHint(4, 22)),
        # H16, T10: recovery has looked for all that they named.
        (TransactionNaming.SUBTASK_AND_SLOT, DeliveryGuarantee.AT_LEAST_ONCE, NO_SLOTS, FIRST_HINT),
        (TransactionNaming.HINT, DeliveryGuarantee.NONE, NO_SLOTS, FIRST_HINT),
    ],
)
def test_an_attempt_records_the_ids_of_its_own_naming_and_keeps_those_of_the_other(
    naming: TransactionNaming, delivery_guarantee: DeliveryGuarantee, slots: SlotBounds, hint: TransactionalIdHint
) -> None:
    sink = replace(SPEC.sink, transaction_naming=naming, delivery_guarantee=delivery_guarantee, producers_pool_size=3)
    restored = replace(DOCUMENT, hint=TransactionalIdHint(2, 10), slots=SlotBounds(2, 5))
    each = coordinator(Group(), replace(SPEC, sink=sink, parallelism=4), restored)
    each.begin(SPLITS)
    assert each.document.slots == slots, "before anything is written under them"
    assert not each.document.transactional, "hint or slots show it"
    completed = each.complete(
        PreCommitted(checkpoint_id=1, splits=SPLITS, aligned=False, committables=(), records_out=0)
    )
    assert completed is not None
    each.drained()
    for document in (completed.document, each.document):
        assert (document.slots, document.hint) == (slots, hint)


def test_an_orderly_stop_keeps_the_time_of_its_checkpoint() -> None:
    """By number and time its retained checkpoint is known again, which tells an edited document."""
    each = coordinator(Group(), document=replace(DOCUMENT, created_at="then"))
    each.drained()
    assert (each.document.drained, each.document.created_at) == (True, "then")


@pytest.mark.parametrize(
    ("naming", "delivery_guarantee", "word"),
    [
        (TransactionNaming.HINT, DeliveryGuarantee.EXACTLY_ONCE, True),
        (TransactionNaming.SUBTASK_AND_SLOT, DeliveryGuarantee.EXACTLY_ONCE, False),
        (TransactionNaming.HINT, DeliveryGuarantee.AT_LEAST_ONCE, False),
    ],
)
def test_T10_an_attempt_without_a_checkpoint_records_that_it_may_have_transactions(
    naming: TransactionNaming, delivery_guarantee: DeliveryGuarantee, word: bool
) -> None:
    """By the first hint alone an attempt of another guarantee would take it for a job without transactions."""
    sink = replace(SPEC.sink, transaction_naming=naming, delivery_guarantee=delivery_guarantee)
    each = coordinator(Group(), replace(SPEC, sink=sink))
    each.begin(SPLITS)
    assert each.document.transactional is word
    assert decode(encode(each.document), job_uid="uid") == each.document
    each.complete(PreCommitted(checkpoint_id=1, splits=SPLITS, aligned=False, committables=(), records_out=0))
    assert not each.document.transactional


def test_a_job_by_hint_never_names_ids_by_subtask_and_slot() -> None:
    each = coordinator(Group())
    each.begin(SPLITS)
    assert each.document.slots == NO_SLOTS


def pre_committed(*committables: KafkaCommittable, checkpoint_id: int = 1) -> PreCommitted:
    return PreCommitted(
        checkpoint_id=checkpoint_id, splits=SPLITS, aligned=True, committables=committables, records_out=6
    )


def test_a_transaction_that_has_ended_since_its_pre_commit_is_never_named() -> None:
    store, transactions = MemoryStore(), FakeTransactions()
    each = coordinator(Group(), store=store, transactions=transactions)
    each.begin(SPLITS)
    before = store.read()
    transactions.ended = True
    with pytest.raises(TransactionFenced):
        each.complete(pre_committed(COMMITTABLE))
    assert store.read() == before, "nothing is final"
    assert transactions.calls == ["require"]
    transactions.ended = False
    assert each.complete(pre_committed(COMMITTABLE)) is not None
    assert transactions.calls == ["require", "require", "commit"]


class TimedStore(MemoryStore):
    """Notes what a write may take, and takes what the test says."""

    def __init__(self, transactions: FakeTransactions) -> None:
        super().__init__(encode(DOCUMENT))
        self.transactions = transactions
        self.given: list[float | None] = []
        self.takes = 0.0

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        self.given.append(None if deadline is None else deadline.remaining)
        self.transactions.now += self.takes
        return super().write(text, expected=expected, deadline=deadline)


def test_C8_the_write_of_a_document_is_bounded_by_what_its_transactions_have_left() -> None:
    transactions = FakeTransactions()
    store = TimedStore(transactions)
    each = coordinator(Group(), store=store, transactions=transactions)
    transactions.now = 5.0
    each.prepare(SPLITS)
    transactions.now = 12.0
    assert each.complete(pre_committed(COMMITTABLE)) is not None
    assert transactions.began == 5.0, "no transaction of it is older than that"
    each.forget_settled()
    assert store.given == [18.0, None]


def test_C8_a_driver_that_stood_still_after_the_write_commits_nothing() -> None:
    """Some of its transactions may have reached their time-out; the next attempt settles them as a whole."""
    transactions = FakeTransactions()
    store = TimedStore(transactions)
    each = coordinator(Group(), store=store, transactions=transactions)
    store.takes = 41.0
    with pytest.raises(TransactionFenced, match="checkpoint 1 is final, but"):
        each.complete(pre_committed(COMMITTABLE))
    assert decode(store.read().text or "", job_uid="uid").checkpoint_id == 1
    assert transactions.calls == ["require"], "nothing was committed"


HOUR = 3600.0
SUBSCRIBED = replace(
    SPEC.source, offset_commit=OffsetCommit.ON_CHECKPOINT,
    group_membership=MembershipOptions(mode=MembershipMode.SUBSCRIBE),
)  # fmt: skip
BOTH = (KafkaPartitionSplit(A0, 0, 10), KafkaPartitionSplit(A1, 0, 5))


def read_both(each: CheckpointCoordinator, group: Group) -> None:
    """A checkpoint that has read both partitions; the second one is quiet from then on."""
    each.prepare(BOTH)
    inside = replace(COMMITTABLE, ranges=(BOTH[0],))
    assert each.complete(replace(pre_committed(inside), splits=BOTH)) is not None
    group.calls.clear()


def patient() -> FakeTransactions:
    transactions = FakeTransactions()
    transactions.write_by = transactions.commit_by = 100 * HOUR
    return transactions


def test_D14_what_the_group_has_of_quiet_partitions_is_committed_again_each_hour() -> None:
    """Brokers forget a partition's offset and its mark a week after their last commit, while others move on."""
    group, transactions = Group(), patient()
    each = coordinator(group, transactions=transactions)
    read_both(each, group)
    for hours, checkpoint in enumerate((2, 3, 4), start=1):
        transactions.now = hours * (HOUR + 1)
        moved = KafkaPartitionSplit(A0, 8 + checkpoint, 9 + checkpoint)
        inside = replace(COMMITTABLE, checkpoint_id=checkpoint, ranges=(moved,))
        splits = (moved, KafkaPartitionSplit(A1, 5, 5))
        each.complete(replace(pre_committed(inside, checkpoint_id=checkpoint), splits=splits))
    assert group.calls == [("commit", {A1: 5}, "uid/1/3"), ("commit", {A1: 5}, "uid/1/4")], (
        "not within the hour of its own commit, and never the partition that moved with its transaction"
    )


def test_D14_an_idle_job_keeps_its_groups_offsets() -> None:
    group, transactions = Group(), patient()
    each = coordinator(group, transactions=transactions)
    read_both(each, group)
    each.renew()
    transactions.now = HOUR + 1
    for _ in range(3):
        each.renew()
    assert group.calls == [], "both were committed within the hour"
    transactions.now = 2 * HOUR + 2
    for _ in range(3):
        each.renew()
    assert group.calls == [("commit", {A0: 10, A1: 5}, "uid/1/1")]
    transactions.now = 3 * HOUR + 3
    each.renew()
    assert len(group.calls) == 2


def test_D14_a_restored_job_keeps_what_the_attempt_before_it_committed() -> None:
    group, transactions = Group(), patient()
    each = coordinator(group, document=replace(DOCUMENT, checkpoint_id=7, splits=BOTH), transactions=transactions)
    transactions.now = HOUR + 1
    each.renew()
    assert group.calls == [("commit", {A0: 10, A1: 5}, "uid/1/7")]


def test_D14_a_job_without_a_checkpoint_leaves_its_group_alone() -> None:
    group, transactions = Group(), patient()
    each = coordinator(group, transactions=transactions)
    each.begin(BOTH)
    transactions.now = HOUR + 1
    each.renew()
    assert group.calls == []


@pytest.mark.parametrize(
    "kept", [replace(SPEC.source, offset_commit=OffsetCommit.DISABLED), SUBSCRIBED], ids=["disabled", "subscribe"]
)
def test_D14_a_group_that_is_not_the_jobs_to_keep_is_left_alone(kept: Source) -> None:
    """Disabled: nobody asked for offsets. Subscribe: Kafka keeps the offsets of a group that has members (KIP-211)."""
    group, transactions = Group(), patient()
    document = replace(DOCUMENT, checkpoint_id=7, splits=BOTH)
    sink = replace(SPEC.sink, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE)
    each = coordinator(group, replace(SPEC, source=kept, sink=sink), document, transactions=transactions)
    transactions.now = HOUR + 1
    each.renew()
    assert group.calls == []


def test_D14_a_checkpoint_that_is_not_committed_vouches_for_no_offset() -> None:
    group, transactions = Group(), patient()
    each = coordinator(group, transactions=transactions)
    read_both(each, group)
    transactions.commit_by = 0.0
    with pytest.raises(TransactionFenced):
        each.complete(pre_committed(replace(COMMITTABLE, checkpoint_id=2), checkpoint_id=2))
    transactions.now = 2 * HOUR + 2
    each.renew()
    assert group.calls == []


def test_a_checkpoint_without_transactions_asks_nobody() -> None:
    transactions = FakeTransactions()
    coordinator(Group(), transactions=transactions).complete(pre_committed())
    assert transactions.calls == []


def test_what_is_settled_is_taken_out_of_the_document_once_and_nothing_else() -> None:
    store = MemoryStore()
    each = coordinator(Group(), store=store)
    each.begin(SPLITS)
    for _ in range(2):
        each.forget_settled()
    before = store.read().version
    completed = each.complete(pre_committed(COMMITTABLE))
    assert completed is not None
    for _ in range(3):
        each.forget_settled()
    assert int(store.read().version) == int(before) + 2, "the checkpoint and one more, however often it is asked"
    assert each.document == replace(completed.document, committables=())
    assert decode(store.read().text or "", job_uid="uid") == each.document
    again = each.complete(pre_committed(replace(COMMITTABLE, checkpoint_id=2), checkpoint_id=2))
    assert again is not None, "the next write knows the version"


def test_a_driver_that_was_superseded_while_it_was_idle_learns_it() -> None:
    store = MemoryStore()
    each = coordinator(Group(), store=store)
    each.complete(pre_committed(COMMITTABLE))
    store.write("of a newer attempt", expected=store.read().version)
    with pytest.raises(CheckpointConflict):
        each.forget_settled()
    assert store.read().text == "of a newer attempt"


def test_A4_a_superseded_attempt_begins_no_checkpoint() -> None:
    group, store = Group(), MemoryStore(encode(DOCUMENT))
    each = coordinator(group, store=store)
    each.begin(SPLITS)
    store.write(encode(replace(each.document, attempt=2)), expected="1")
    with pytest.raises(CheckpointConflict, match="attempt 2 has claimed"):
        each.prepare(SPLITS)
    assert group.calls == [], "nothing is asked of the group"


def test_nothing_is_written_while_an_older_commit_may_still_reach_the_group() -> None:
    group = Group()
    each = coordinator(group)
    group.is_over = False
    with pytest.raises(KafkaUnreachable, match="had no answer within 30 s"):
        each.prepare(SPLITS)
    assert group.calls == [("withdraw", [A0])], "no mark either"
    group.is_over = True
    each.prepare(SPLITS)
    assert group.calls[-1] == ("place", {A0: 0, A1: 5}, "uid/1/0")


def test_two_checkpoints_run_and_the_ids_of_both_are_in_use() -> None:
    sink = replace(SPEC.sink, producers_pool_size=3)
    each = coordinator(Group(), replace(SPEC, sink=sink, parallelism=2))
    assert each.ids_in_use() == []
    assert [each.prepare(SPLITS), each.prepare(SPLITS)] == [1, 2]
    assert sorted(each.ids_in_use()) == ["p-1", "p-2", "p-4", "p-5"]
    assert each.complete(pre_committed(), next_runs=True) is not None
    assert each.committed_id == 1
    assert sorted(each.ids_in_use()) == ["p-2", "p-5"], "the others are committed"
    assert each.prepare(SPLITS) == 3


def test_a_producer_may_be_used_again_once_its_transaction_is_committed() -> None:
    transactions = patient()
    each = coordinator(
        Group(), replace(SPEC, sink=replace(SPEC.sink, producers_pool_size=3)), transactions=transactions
    )
    assert each.reusable.of_subtask(0) == {}
    each.prepare(SPLITS)
    each.complete(pre_committed(COMMITTABLE))
    assert each.reusable.of_subtask(0) == {"p-0": (1, 1, 0)}
    assert each.reusable.of_subtask(1) == {}
    transactions.at_once = False
    each.prepare(SPLITS)
    each.complete(pre_committed(replace(COMMITTABLE, checkpoint_id=2, transactional_id="p-1"), checkpoint_id=2))
    assert each.reusable.of_subtask(0) == {"p-0": (1, 1, 0)}, "a request for p-1 may come late"
    each.reusable.retire([("p-0", 1, 0), ("p-7", 1, 0)])
    assert each.reusable.of_subtask(0) == {}
    transactions.at_once = True
    for epoch, names in ((0, {}), (1, {"p-0": (3 + 1, 1, 1)})):
        each.prepare(SPLITS)
        checkpoint_id = 3 + epoch
        committable = replace(COMMITTABLE, checkpoint_id=checkpoint_id, producer_epoch=epoch)
        each.complete(pre_committed(committable, checkpoint_id=checkpoint_id))
        assert each.reusable.of_subtask(0) == names, "for good, but not the next producer of the id"


def test_a_rescale_in_place_leaves_no_producer_to_be_used_again() -> None:
    each = coordinator(Group(), transactions=patient())
    each.prepare(SPLITS)
    each.complete(pre_committed(COMMITTABLE))
    each.rescale(2)
    assert each.reusable.of_subtask(0) == {}


def test_the_ids_of_subtasks_without_work_are_not_in_use() -> None:
    """The sweep would spare an orphan of theirs."""
    sink = replace(SPEC.sink, producers_pool_size=3)
    each = coordinator(Group(), replace(SPEC, sink=sink, parallelism=3))
    each.prepare(SPLITS, writers={2})
    each.prepare(SPLITS, writers=())
    assert each.ids_in_use() == ["p-7"]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.NONE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_job_without_transactions_has_no_ids(guarantee: DeliveryGuarantee) -> None:
    """The engine would fence them for a lost subtask."""
    each = coordinator(Group(), replace(SPEC, sink=replace(SPEC.sink, delivery_guarantee=guarantee)))
    each.prepare(SPLITS)
    assert each.ids_in_use() == []


def test_each_checkpoint_has_its_own_begin() -> None:
    transactions = patient()
    each = coordinator(Group(), transactions=transactions)
    for now in (5.0, 7.0):
        transactions.now = now
        each.prepare(SPLITS)
    each.complete(pre_committed(COMMITTABLE), next_runs=True)
    assert transactions.began == 5.0
    each.complete(pre_committed(replace(COMMITTABLE, checkpoint_id=2), checkpoint_id=2))
    assert transactions.began == 7.0


def test_offsets_outside_the_transactions_forbid_a_next_checkpoint_beside_it() -> None:
    """They would reach the group behind those of the next checkpoint's transactions, and replace them."""
    each = coordinator(Group(), transactions=patient())
    assert each.allows_next(pre_committed(COMMITTABLE))
    assert not each.allows_next(pre_committed()), "a subtask that wrote nothing"
    assert not each.allows_next(replace(pre_committed(COMMITTABLE), aligned=False)), "a partition that was cut"
    plain = replace(SPEC, sink=replace(SPEC.sink, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE))
    assert coordinator(Group(), plain).allows_next(pre_committed()), "no transaction has offsets"


def test_offsets_are_renewed_only_while_no_next_checkpoint_runs() -> None:
    group, transactions = Group(), patient()
    each = coordinator(group, transactions=transactions)
    read_both(each, group)
    second = pre_committed(replace(COMMITTABLE, checkpoint_id=2), checkpoint_id=2)
    transactions.now = HOUR + 1
    each.renew()
    assert each.allows_next(second)
    transactions.now = 2 * HOUR + 2
    assert not each.allows_next(second), "the renewal is due"
    assert each.complete(second, next_runs=True) is not None
    assert group.calls == [], "it was not due when the next checkpoint began"
    third = pre_committed(replace(COMMITTABLE, checkpoint_id=3), checkpoint_id=3)
    assert each.complete(third) is not None
    assert group.calls == [("commit", {A1: 5}, "uid/1/3")]


def test_a_busy_job_without_offsets_in_transactions_renews_them_too() -> None:
    """It is never idle: unless a checkpoint ends alone, brokers forget the offsets of quiet partitions."""
    group, transactions = Group(), patient()
    spec = replace(SPEC, sink=replace(SPEC.sink, delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE))
    each = coordinator(group, spec, replace(DOCUMENT, checkpoint_id=1, splits=SPLITS), transactions=transactions)
    for number in (2, 3, 4):
        transactions.now += HOUR + 1
        only_a0 = (KafkaPartitionSplit(A0, 10 * number, 10 * number + 10), SPLITS[1])
        busy = PreCommitted(checkpoint_id=number, splits=only_a0, aligned=True, committables=(), records_out=10)
        each.complete(busy, next_runs=each.allows_next(busy))
    assert any(call[1].get(A1) == 5 for call in group.calls), group.calls


def rescaled(naming: TransactionNaming, *steps: int) -> list[tuple[CheckpointDocument, list[str]]]:
    """Each document that a rescale writes, and the ids of the checkpoint behind it."""
    spec = replace(SPEC, parallelism=2, sink=replace(SPEC.sink, transaction_naming=naming, producers_pool_size=3))
    store = MemoryStore(encode(DOCUMENT))
    each = coordinator(Group(), spec, store=store)
    found = []
    for parallelism in steps:
        each.rescale(parallelism)
        text = store.read().text
        assert text is not None
        number = each.prepare(SPLITS)
        found.append((decode(text, job_uid="uid"), each.ids_in_use()))
        each.complete(PreCommitted(checkpoint_id=number, splits=SPLITS, aligned=True, committables=(), records_out=0))
    return found


def test_H12_a_rescale_in_place_moves_ids_as_new_attempts_do() -> None:
    """Checkpoint n uses slot n mod 3; the first numbers are 6 because two subtasks have used 0 to 5."""
    (wide, first), (narrow, second), (again, third) = rescaled(TransactionNaming.HINT, 4, 1, 2)
    assert (wide.hint, first) == (TransactionalIdHint(4, 18), ["p-7", "p-10", "p-13", "p-16"])
    assert (narrow.hint, second) == (TransactionalIdHint(1, 18), ["p-20"])
    assert (again.hint, third) == (TransactionalIdHint(2, 24), ["p-18", "p-21"])
    assert [document.parallelism for document in (wide, narrow, again)] == [4, 1, 2]
    assert not wide.transactional, "the hint says so"


def test_a_rescale_in_place_keeps_ids_and_records_the_widest_parallelism() -> None:
    (wide, first), (narrow, second) = rescaled(TransactionNaming.SUBTASK_AND_SLOT, 4, 1)
    assert (wide.slots, first) == (SlotBounds(4, 3), ["p-0.1", "p-1.1", "p-2.1", "p-3.1"])
    assert (narrow.slots, second) == (SlotBounds(4, 3), ["p-0.2"])


def test_a_rescale_in_place_leaves_the_offsets_and_names_no_committed_transaction() -> None:
    store = MemoryStore(encode(DOCUMENT))
    each = coordinator(Group(), store=store)
    each.prepare(SPLITS)
    each.complete(
        PreCommitted(checkpoint_id=1, splits=SPLITS, aligned=True, committables=(COMMITTABLE,), records_out=6)
    )
    before = each.document
    each.rescale(2)
    assert each.document == replace(before, parallelism=2, committables=(), hint=each.document.hint)
    assert each.job.spec.parallelism == 2


def test_a_superseded_attempt_is_not_rescaled() -> None:
    store = MemoryStore(encode(DOCUMENT))
    each = coordinator(Group(), store=store)
    store.write(encode(replace(DOCUMENT, attempt=2)), expected="0")
    with pytest.raises(CheckpointConflict):
        each.rescale(2)
    assert each.document.parallelism == each.job.spec.parallelism == 1


def test_a_repartition_is_a_checkpoint_without_records_and_the_next_one_follows_it() -> None:
    group, steps = Group(), []
    splits = (KafkaPartitionSplit(A0, 10, 10), KafkaPartitionSplit(A1, 5, 5))
    before = replace(DOCUMENT, checkpoint_id=7, splits=splits, engine="previous", engine_has_state=True)
    store, asked = MemoryStore(encode(before)), FakeTransactions()
    each = CheckpointCoordinator(
        Job(namespace="ns", name="j", uid="uid", generation=1, attempt=1, spec=SPEC),
        writer=DocumentWriter(store, before, "0"),
        commits=CheckpointCommits(asked, asked, ClosedEnds()), group_offsets=group, now=lambda: "now",
        hook=lambda step, number: steps.append((step, number, store.read().text == encode(before))),
    )  # fmt: skip
    completed = each.complete_repartition("repartitioned")
    assert completed.document == each.document
    assert completed.document == replace(before, checkpoint_id=8, engine="repartitioned", created_at="now")
    assert steps == [(ProtocolStep.AFTER_FLUSH, 8, True), (ProtocolStep.AFTER_WRITE, 8, False)]
    assert store.read().text == encode(completed.document)
    assert each.prepare(splits) == 9
    assert each.committed_id == 8, "nothing is left to commit"


def test_a_superseded_driver_names_no_repartitioned_state() -> None:
    store = MemoryStore(encode(DOCUMENT))
    each = coordinator(Group(), store=store)
    store.write(encode(replace(DOCUMENT, attempt=2)), expected="0")
    with pytest.raises(CheckpointConflict):
        each.complete_repartition("of attempt 1")
    text = store.read().text
    assert text is not None
    assert decode(text, job_uid="uid") == replace(DOCUMENT, attempt=2)
