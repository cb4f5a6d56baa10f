"""Group A: which transactions a start aborts, and which it must not touch."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer

from sparkapp.clients.transactions.states import TransactionState
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, EndTxnAnswer
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.naming import SlotBounds, TransactionNaming, offsets_id
from sparkapp.model.errors import AuthorizationFailed, ListingUnsupported
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint, number_of
from sparkapp.sink.ending.lingering import abort_lingering, select
from sparkapp.sink.ending.used_ids import UsedIds, bounded_ids
from tests.support.jobs.sink_harness import State, merged
from tests.support.kafka.walking import Walking

OPEN = TransactionState.ONGOING
DONE = TransactionState.COMPLETE_COMMIT


def row(number):
    return pa.RecordBatch.from_pydict({"value": [str(number).encode()]})


def test_A01_downscale_from_4_to_2(harness, topic_scope):
    """Committables of any subtask are committed; what four subtasks had open on their next slots is aborted."""
    wide = [harness(subtask, 4).open() for subtask in range(4)]
    states = []
    for subtask, writer in enumerate(wide):
        writer.write(subtask)
        states.append(writer.snapshot(1))
        writer.write(100 + subtask)
    narrow = harness(0, 2).restore(merged(states))
    assert {each.outcome for each in narrow.settled} == {CommitOutcome.COMMITTED}
    assert set(narrow.aborted) == {f"{topic_scope.prefix}-{subtask * 5 + 2}" for subtask in range(4)}
    assert topic_scope.open_transactions() == []
    assert sorted(topic_scope.numbers()) == [0, 1, 2, 3]


def test_A02_ids_of_other_subtasks_are_aborted_by_the_one_that_starts_the_job(harness, topic_scope):
    """Ours has one abort for the job, by the driver, so no subtask can be missed and none can hit another's new one."""
    previous = harness(3, 4).open()
    previous.write(1)
    previous.snapshot(1)
    others = harness(1, 2).open()
    assert others.aborted == ()
    assert len(topic_scope.open_transactions()) == 1
    assert len(harness(0, 2).open().aborted) == 1
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


@pytest.mark.parametrize("naming", TransactionNaming)
@pytest.mark.parametrize("sizes", [(4, 7, 2), (2, 6, 4)], ids=["A03", "A05"])
def test_A03_A05_an_upscale_in_between_that_no_checkpoint_names(harness, topic_scope, naming, sizes):
    """testDownscaleWithIntermediateUpscale, testUpscaleWithIntermediateUpscale: an attempt with more subtasks than the
    checkpoint and the restart died without a checkpoint. Flink's subtasks abort its ids modulo that parallelism,
    each those that it owns; here the driver aborts them all."""
    named, between, now = sizes
    states = []
    for subtask in range(named):
        writer = harness(subtask, named, naming=naming).open()
        writer.write(subtask)
        states.append(writer.snapshot(1))
    state = merged(states)
    wide = [harness(subtask, between, naming=naming) for subtask in range(between)]
    wide[0].restore(state)
    for subtask, writer in enumerate(wide):
        if subtask:
            writer.restore(replace(state, pending=()))
        writer.write(100 + subtask)
    left = topic_scope.open_transactions()
    assert len(left) == between
    started = harness(0, now, naming=naming).restore(state)
    assert {each.outcome for each in started.settled} == {CommitOutcome.COMMITTED}
    assert sorted(started.aborted) == sorted(left)
    assert topic_scope.open_transactions() == []
    assert sorted(topic_scope.numbers()) == list(range(named))


def test_A04_upscale(harness, topic_scope):
    narrow = [harness(subtask, 2).open() for subtask in range(2)]
    states = []
    for subtask, writer in enumerate(narrow):
        writer.write(subtask)
        states.append(writer.snapshot(1))
        writer.write(100 + subtask)
    wide = harness(0, 4).restore(merged(states))
    assert set(wide.aborted) == {f"{topic_scope.prefix}-2", f"{topic_scope.prefix}-7"}
    wide.write(7)
    state = wide.snapshot(2)
    assert state.hint == TransactionalIdHint(4, 30), "10 ids of two subtasks, then 20 for four"
    assert number_of(state.pending[0].transactional_id, topic_scope.prefix) >= 10, "never an id of the previous attempt"
    wide.notify(2)
    topic_scope.await_ended()
    assert sorted(topic_scope.numbers()) == [0, 1, 7]
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("naming", TransactionNaming)
@pytest.mark.parametrize("foreign", ["other-0", "{}-1", "{}.b", "x{}", "{}-", "{}-0.1"])
def test_A07_foreign_prefixes_are_untouched(harness, topic_scope, foreign, naming):
    """`a.b-1-7` belongs to the prefix `a.b-1`, not to `a.b`."""
    name = foreign.format(topic_scope.prefix) if "{}" in foreign else f"{foreign}.{topic_scope.prefix}"
    other = harness(prefix=name, naming=naming).open()
    other.write(1)
    state = other.snapshot(1)
    for own in TransactionNaming:
        assert harness(naming=own).open().aborted == ()
    settled = other.notify(1)
    assert [each.outcome for each in settled] == [CommitOutcome.COMMITTED], state
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []


@pytest.mark.parametrize("error", [AuthorizationFailed, ListingUnsupported])
def test_A08_A09_walking_describes_the_bounded_ids_and_does_not_probe(harness, topic_scope, error):
    previous = harness(1, 2).open()
    previous.write(1)
    state = previous.snapshot(1)
    previous.write(2)
    previous.notify(1)
    walking = Walking({"bootstrap.servers": topic_scope.bootstrap})
    walking.error = error
    before = topic_scope.client.describe([f"{topic_scope.prefix}-{number}" for number in range(200)])
    ids = UsedIds(prefixes=[topic_scope.prefix], hint=TransactionalIdHint(2, 10), parallelism=2, pool_size=5)
    aborted = abort_lingering(walking, ids)
    walking.close()
    assert aborted == (f"{topic_scope.prefix}-7",)
    after = topic_scope.client.describe([f"{topic_scope.prefix}-{number}" for number in range(200)])
    assert set(after) == set(before), "ids that nobody used are not initialised, so the search does not grow"
    committed = state.pending[0].transactional_id
    assert after[committed].producer_epoch == before[committed].producer_epoch, (
        "a committable's triple keeps its meaning"
    )
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1]
    assert topic_scope.open_transactions() == []


def test_A09_a_restart_loop_does_not_grow_the_search(harness, topic_scope):
    state = State(checkpoint_id=1, hint=TransactionalIdHint(1, 5), prefix=topic_scope.prefix)
    known = []
    for _ in range(4):
        attempt = harness().restore(state)
        attempt.write(1)
        known.append(len(topic_scope.client.list_transactions(topic_scope.prefix)))
    assert known == [1, 1, 1, 1]
    assert harness().restore(state).aborted != ()
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_A18_a_newer_epoch_under_a_committables_id_is_aborted(harness, topic_scope):
    """A checkpoint's id was used again after its commit; the job goes back to that checkpoint with fewer subtasks."""
    wide = harness(1, 2, pool_size=2).open()
    wide.write(1)
    state = wide.snapshot(1)
    wide.notify(1)
    wide.write(2)
    wide.snapshot(2)
    wide.notify(2)
    committed = state.pending[0]
    # Another process takes the id over, as a retried task does: the epoch moves on.
    zombie = harness(1, 2, pool_size=2)
    zombie.open()
    zombie.pool.begin(committed.transactional_id)
    zombie.pool.drop(committed.transactional_id)
    entry = zombie.pool.begin(committed.transactional_id)
    entry.producer.produce(pa.RecordBatch.from_pydict({"value": [b"3"]}), topic=topic_scope.topic)
    assert entry.producer.flush(30) == 1
    assert entry.producer_epoch > committed.producer_epoch
    assert topic_scope.open_transactions() == [committed.transactional_id]
    narrow = harness(0, 1, pool_size=2).restore(state)
    assert narrow.aborted == (committed.transactional_id,)
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1, 2], "the reader is not held back, and 3 is not seen"


@pytest.mark.parametrize("flushed", [True, False])
def test_A18_T15_a_later_transaction_of_the_same_producer_is_aborted(harness, topic_scope, flushed):
    """Word for word: committed at checkpoint 1, used again at 3 and open, checkpoint 1 restored.

    Releases before ADR 28 kept their producers, so producer id and epoch are those of the committable: only the start
    differs.
    """
    reused = f"{topic_scope.prefix}-0"
    kept = Producer({"bootstrap.servers": topic_scope.bootstrap, "transactional.id": reused})
    kept.init_transactions(30)
    kept.begin_transaction()
    kept.produce(topic_scope.topic, "1")
    assert kept.flush(30) == 0
    found = topic_scope.client.describe([reused])[reused]
    each = KafkaCommittable(
        transactional_id=reused, producer_id=found.producer_id, producer_epoch=found.producer_epoch,
        checkpoint_id=1, subtask=0, records=1, start_time_ms=found.start_time_ms,
    )  # fmt: skip
    kept.commit_transaction(30)
    kept.begin_transaction()
    kept.produce(topic_scope.topic, "3")
    if flushed:
        assert kept.flush(30) == 0
    topic_scope.await_written(2)
    again = harness(pool_size=2).restore(State(checkpoint_id=1, pending=(each,), prefix=topic_scope.prefix))
    assert [(each.outcome, each.answer) for each in again.settled] == [
        (CommitOutcome.COMMITTED, EndTxnAnswer.LATER_TRANSACTION)
    ]
    assert again.aborted == (reused,)
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == [1], "the reader is not held back, and 3 is not seen"


def test_A18_a_document_of_a_previous_release_does_not_have_the_start(harness, topic_scope):
    """It is settled by the triple alone, as that release did."""
    first = harness(pool_size=2).open()
    first.write(1)
    state = first.snapshot(1)
    previous = replace(state, pending=tuple(replace(each, start_time_ms=0) for each in state.pending))
    second = harness(pool_size=2).restore(previous)
    assert [(each.outcome, each.answer) for each in second.settled] == [(CommitOutcome.COMMITTED, EndTxnAnswer.NONE)]
    assert topic_scope.numbers() == [1]


def test_A19_previous_prefixes_are_aborted_too(harness, topic_scope):
    old = harness(prefix=f"{topic_scope.prefix}.old").open()
    old.write(1)
    state = old.snapshot(1)
    old.write(2)
    renamed = harness().restore(state)
    assert renamed.aborted == (f"{topic_scope.prefix}.old-2",)
    topic_scope.await_ended()
    assert renamed.client.describe([f"{topic_scope.prefix}.old-1"])[f"{topic_scope.prefix}.old-1"].state is DONE
    assert topic_scope.numbers() == [1]


def test_an_idle_id_of_a_prefix_that_nobody_looks_for_any_more_is_fenced(topic_scope):
    """Its producer belongs to a node that was paused, and would begin a transaction that no sweep finds."""
    old, prefix = f"{topic_scope.prefix}.old", topic_scope.prefix
    idle = Producer({"bootstrap.servers": topic_scope.bootstrap, "transactional.id": f"{old}-0.0"})
    idle.init_transactions(30)
    kept = Producer({"bootstrap.servers": topic_scope.bootstrap, "transactional.id": f"{prefix}-0.0"})
    kept.init_transactions(30)
    ids = UsedIds(prefixes=[prefix, old], hint=FIRST_HINT, slots=SlotBounds(1, 1), parallelism=1, pool_size=1)
    assert abort_lingering(topic_scope.client, ids) == ()
    idle.begin_transaction()
    idle.produce(topic_scope.topic, b"1")
    idle.commit_transaction(30)
    assert abort_lingering(topic_scope.client, ids, retired=[old]) == ()
    idle.begin_transaction()
    idle.produce(topic_scope.topic, b"2")
    with pytest.raises(KafkaException):
        idle.commit_transaction(30)
    kept.begin_transaction()
    kept.produce(topic_scope.topic, b"3")
    kept.commit_transaction(30)
    topic_scope.await_ended()
    assert topic_scope.numbers() == [1, 3]
    assert topic_scope.open_transactions() == []


def test_select_fences_idle_ids_of_retired_prefixes():
    found = dict.fromkeys(("old-0", "old-0.0", offsets_id("old"), "older-0", "p-0"), TransactionState.COMPLETE_COMMIT)
    found |= {"old-1": TransactionState.PREPARE_COMMIT, "old-2": TransactionState.ONGOING}
    chosen = select(found, first_start=False, retired=["old"])
    assert (chosen.abort, chosen.idle, chosen.wait) == (("old-2",), ("old-0", "old-0.0", offsets_id("old")), ("old-1",))


def test_select_waits_for_what_is_ending_and_fences_idle_ids_only_on_a_first_start():
    found = {
        "p-0": TransactionState.PREPARE_COMMIT,
        "p-1": TransactionState.PREPARE_ABORT,
        "p-2": TransactionState.EMPTY,
        "p-3": TransactionState.PREPARE_EPOCH_FENCE,
        "p-4": TransactionState.UNKNOWN,
    }
    later = select(found, first_start=False)
    assert (later.abort, later.idle, later.wait) == (("p-3",), (), ("p-0", "p-1"))
    first = select(found, first_start=True)
    assert (first.abort, first.idle, first.wait) == (("p-3",), ("p-2", "p-4"), ("p-0", "p-1"))


def test_bounded_ids_with_a_hint_cover_previous_attempts_and_a_scale_out():
    numbers = [
        number_of(each, "p") for each in bounded_ids("p", hint=TransactionalIdHint(4, 25), parallelism=4, pool_size=5)
    ]
    assert numbers == list(range(125))
