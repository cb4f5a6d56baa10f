"""Group H: the arithmetic of transactional-id hints, with the catalogue's numbers; and what it is for, on a broker."""

from __future__ import annotations

import json

import pytest

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.recovery import recover
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import NO_SLOTS
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import CheckpointCorrupt, InvalidArgument
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.spec import Job
from sparkapp.model.transactional_id import (
    FIRST_HINT,
    TransactionalIdGenerator,
    TransactionalIdHint,
)
from sparkapp.sink.checkpoint_commits import CheckpointCommits
from sparkapp.sink.ending.used_ids import bounded_ids
from sparkapp.spark.state.retained_state import QueryState
from tests.support.fakes.closed_logs import ClosedEnds
from tests.support.fakes.group_evidence import NoMarks
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.fakes.transactions import FakeControl, FakeTransactions
from tests.support.jobs.plain_job import plain_spec
from tests.support.jobs.sink_harness import State


def generator(subtask: int, parallelism: int, pool_size: int = 5, **more: int) -> TransactionalIdGenerator:
    return TransactionalIdGenerator(prefix="p", subtask=subtask, parallelism=parallelism, pool_size=pool_size, **more)


def ids(*ranges: range) -> list[str]:
    return [f"p-{number}" for each in ranges for number in each]


def attempt(
    store: CheckpointStore,
    *,
    number: int = 1,
    parallelism: int = 4,
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE,
) -> CheckpointCoordinator:
    """One attempt of a job as the driver starts it: recovery, then the coordinator, which has begun."""
    spec = plain_spec(parallelism=parallelism, sink=Sink(
            topic="out", transactional_id_prefix="p", delivery_guarantee=delivery_guarantee, producers_pool_size=5
        ))  # fmt: skip
    job = Job(namespace="ns", name="j", uid="uid", generation=1, attempt=number, spec=spec)
    sink = FakeTransactions()
    found = recover(
        job, store=store, control=FakeControl(), now="", retained=MemoryRetainedStore(), engine=QueryState(),
        clusters=ClusterIds("", ""), marks=NoMarks(),
    )  # fmt: skip
    coordinator = CheckpointCoordinator(
        job, writer=DocumentWriter(store, found.document, found.version),
        commits=CheckpointCommits(sink, sink, ClosedEnds()), group_offsets=None, now=lambda: "",
    )  # fmt: skip
    coordinator.begin(())
    return coordinator


def complete(coordinator: CheckpointCoordinator, *subtasks: int) -> None:
    """The next checkpoint, of which these subtasks have written something."""
    number = coordinator.document.checkpoint_id + 1
    committables = tuple(
        KafkaCommittable(
            transactional_id=f"p-{each}", producer_id=each, producer_epoch=0,
            checkpoint_id=number, subtask=each, records=1,
        )
        for each in subtasks
    )  # fmt: skip
    coordinator.complete(
        PreCommitted(checkpoint_id=number, splits=(), aligned=False, committables=committables, records_out=1)
    )


def written(store: CheckpointStore) -> CheckpointDocument:
    """The document as the next attempt will read it."""
    text = store.read().text
    assert text is not None
    return decode(text, job_uid="uid")


def test_H01_first_subtask_uses_the_first_pool():
    assert generator(0, 2).ids_to_use(next_free=0) == ids(range(5))


def test_H02_second_subtask_uses_the_second_pool():
    assert generator(1, 2).ids_to_use(next_free=0) == ids(range(5, 10))


def test_H03_ids_start_at_the_next_free_one():
    assert generator(1, 2).ids_to_use(next_free=20) == ids(range(25, 30))


def test_H05_first_subtask_aborts_its_pool_of_five_attempts():
    wanted = ids(range(5), range(10, 15), range(20, 25), range(30, 35), range(40, 45))
    assert generator(0, 2).ids_to_abort() == wanted


def test_H06_second_subtask_aborts_the_others():
    wanted = ids(range(5, 10), range(15, 20), range(25, 30), range(35, 40), range(45, 50))
    assert generator(1, 2).ids_to_abort() == wanted


def test_H09_without_a_hint_the_first_one_is_restored():
    store = MemoryStore()
    coordinator = attempt(store)
    assert written(store).hint == TransactionalIdHint(0, 0)
    assert coordinator.next_free == 0


def test_H09_ids_of_an_unknown_previous_attempt_are_fenced_before_writing(harness, topic_scope):
    previous = harness(1, 2).open()
    previous.write(1)
    previous.snapshot(0)
    previous.write(2)
    before = topic_scope.client.describe([f"{topic_scope.prefix}-6", f"{topic_scope.prefix}-7"])
    assert [each.state.open for each in before.values()] == [True, True]
    first = harness(0, 2).open()
    assert first.restored_hint == TransactionalIdHint(0, 0)
    assert set(first.aborted) == {f"{topic_scope.prefix}-6", f"{topic_scope.prefix}-7"}
    after = topic_scope.client.describe(before)
    assert all(after[each].producer_epoch > before[each].producer_epoch for each in before), "fenced, not only aborted"
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_H10_repeated_checkpoints_of_one_attempt_write_the_same_hint():
    store = MemoryStore()
    coordinator = attempt(store)
    for _ in range(2):
        complete(coordinator, 0, 1)
        assert written(store).hint == TransactionalIdHint(4, 20)
    assert attempt(store, number=2).next_free == 20, "what the next attempt restores"


def test_H14_two_hints_in_the_state_are_an_error():
    """Flink: "There should be at most one next transactional id hint written by the first subtask"."""
    text = encode(
        CheckpointDocument(job_uid="uid", attempt=1, checkpoint_id=1, created_at="", parallelism=2, prefix="p")
    )
    each = '"hint":{"lastParallelism":0,"nextFreeTransactionalId":0}'
    assert each in text
    body = json.loads(text)
    listed = json.dumps({**body, "hint": [body["hint"], {"lastParallelism": 2, "nextFreeTransactionalId": 10}]})
    for two in (text.replace(each, f"{each},{each}"), listed):
        store = MemoryStore(two)
        with pytest.raises(CheckpointCorrupt):
            attempt(store, number=2)
        assert store.read().text == two, "nothing is claimed, and nothing starts from the first hint"


@pytest.mark.parametrize("subtask", [1, 2, 3])
def test_H15_no_subtask_but_the_driver_writes_a_hint(subtask):
    """Whichever subtask has written, and whether any has: the job has one hint, and a committable has none."""
    store = MemoryStore()
    coordinator = attempt(store)
    for subtasks in ((subtask,), (), (0, 1, 2, 3)):
        complete(coordinator, *subtasks)
        assert written(store).hint == TransactionalIdHint(4, 20)
        body = json.loads(store.read().text)
        assert len(body["committables"]) == len(subtasks)
        assert not any("hint" in each for each in body["committables"])


@pytest.mark.parametrize("delivery_guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
def test_H16_other_semantics_write_no_hint(delivery_guarantee):
    store = MemoryStore()
    coordinator = attempt(store, delivery_guarantee=delivery_guarantee)
    complete(coordinator)
    assert (written(store).hint, written(store).slots) == (FIRST_HINT, NO_SLOTS)
    assert not written(store).transactional
    complete(attempt(store, number=2))
    assert written(store).hint == TransactionalIdHint(4, 20)
    complete(attempt(store, number=3, delivery_guarantee=delivery_guarantee))
    assert (written(store).hint, written(store).slots) == (FIRST_HINT, NO_SLOTS), "the restored hint is forgotten"


@pytest.mark.parametrize(
    ("subtask", "parallelism", "pool_size", "factor"),
    [(2, 2, 5, 5), (5, 2, 5, 5), (-1, 2, 5, 5), (0, 0, 5, 5), (0, 2, 0, 5), (0, 2, -1, 5), (0, 2, 5, 0), (0, 2, 5, -3)],
)
def test_H17_bad_arguments(subtask, parallelism, pool_size, factor):
    with pytest.raises(ValueError, match="must be") as caught:
        generator(subtask, parallelism, pool_size, safe_scale_down_factor=factor)
    assert isinstance(caught.value, InvalidArgument)


@pytest.mark.parametrize("prefix", ["", None])
def test_H17_no_prefix_is_no_argument(prefix):
    with pytest.raises(InvalidArgument, match="prefix must not be empty"):
        TransactionalIdGenerator(prefix=prefix, subtask=0, parallelism=1, pool_size=5)


def test_H17_bad_arguments_of_a_hint():
    for last, next_free in ((-1, 0), (0, -1)):
        with pytest.raises(InvalidArgument):
            TransactionalIdHint(last, next_free)
    for parallelism, pool_size in ((0, 5), (1, 0), (-1, 5)):
        with pytest.raises(InvalidArgument):
            FIRST_HINT.advance(parallelism=parallelism, pool_size=pool_size)
    with pytest.raises(InvalidArgument):
        generator(0, 1).ids_to_use(next_free=-1)


def test_H18_a_previous_attempt_more_than_five_times_as_wide_leaves_nothing_open(harness, topic_scope):
    """Flink's first hole: ids beyond five times today's parallelism. Listing finds them."""
    wide = harness(29, 30).open()
    wide.write(1)
    wide.snapshot(0)
    beyond = f"{topic_scope.prefix}-146"
    assert topic_scope.open_transactions() == [beyond]
    assert beyond not in bounded_ids(topic_scope.prefix, hint=FIRST_HINT, parallelism=1, pool_size=5)
    narrow = harness(0, 1).open()
    assert narrow.aborted == (beyond,)
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []


def test_H19_a_scale_out_that_died_before_its_first_checkpoint_leaves_nothing_open(harness, topic_scope):
    """Flink's second hole. Checkpoint at (4, 25); P=10 writes p-25 to p-74 and dies; P=4 starts again."""
    state = State(checkpoint_id=4, hint=TransactionalIdHint(4, 25), prefix=topic_scope.prefix)
    for subtask in (1, 4, 9):
        wide = harness(subtask, 10).open(state)
        wide.write(subtask)
        wide.snapshot(5)
    lingering = [f"{topic_scope.prefix}-{25 + subtask * 5}" for subtask in (1, 4, 9)]
    assert topic_scope.open_transactions() == lingering
    narrow = harness(0, 4).restore(state)
    assert sorted(narrow.aborted) == sorted(lingering)
    assert topic_scope.open_transactions() == []
    assert topic_scope.numbers() == []
    bounded = bounded_ids(topic_scope.prefix, hint=TransactionalIdHint(4, 25), parallelism=4, pool_size=5)
    assert {f"{topic_scope.prefix}-{number}" for number in range(45, 75)} <= set(bounded), (
        "also where listing is not allowed"
    )
