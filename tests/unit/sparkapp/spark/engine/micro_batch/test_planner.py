"""The planner's answers when Spark asks for the next offset: one plan for every reader, and a batch that is owed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointConflict, TransactionError
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.spark.engine.micro_batch.planner import MicroBatchPlanner
from sparkapp.spark.engine.micro_batch.stream_state import StreamState
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.state.query_log import EngineState, encode_engine, restored_engine
from tests.support.clock import FakeClock
from tests.support.fakes.coordinators import FakeCoordinator
from tests.support.fakes.limited_source import LimitedSource
from tests.support.jobs.plain_job import plain_spec

PARTITION = TopicPartition("in", 0)
DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix="p", engine_has_state=True,
    engine=encode_engine(EngineState(5, '{"batchWatermarkMs":1000}', watermark=1000)),
)  # fmt: skip
JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=2,
    spec=plain_spec(checkpoint_interval_seconds=1),
)  # fmt: skip
OWING = replace(DOCUMENT, engine=encode_engine(EngineState(5, '{"batchWatermarkMs":1000}', watermark=2000)))


class Enumerator:
    """A source of one partition with ``waiting`` records."""

    finished = False

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting

    def discover_if_due(self) -> None: ...

    def plan(self) -> tuple[KafkaPartitionSplit, ...]:
        return (KafkaPartitionSplit(PARTITION, 0, self.waiting),)

    def unplanned(self) -> tuple[KafkaPartitionSplit, ...]:
        return (KafkaPartitionSplit(PARTITION, 0, 0),)


class RunningClock(FakeClock):
    """Each look at it takes a tenth of a second."""

    def __call__(self) -> float:
        self.now += 0.1
        return super().__call__()


class Planned:
    """A planner with the stream's state that the engine gives it, and what the checkpoint runner would do."""

    def __init__(
        self,
        document: CheckpointDocument,
        enumerator: Enumerator | KafkaSourceEnumerator,
        *,
        job: Job = JOB,
        coordinator: FakeCoordinator | None = None,
        clock: FakeClock | None = None,
    ) -> None:
        self.stream = StreamState(document.checkpoint_id)
        self.clock = clock or FakeClock()
        fakes: Any = {"enumerator": enumerator, "coordinator": coordinator or FakeCoordinator(document, JOB)}
        self.planner = MicroBatchPlanner(
            job, stream=self.stream, restored=restored_engine(document), liveness=StreamLiveness(), clock=self.clock,
            **fakes,
        )  # fmt: skip

    def latest(self, start: int, reader: int = 0) -> int:
        """The answer when the next checkpoint is due."""
        self.clock.now += 1
        return self.planner.latest(start, reader)

    def latest_at(self, now: float) -> int:
        self.clock.now = now
        return self.planner.latest(self.planner.plan, 0)

    def complete(self) -> None:
        self.planner.complete()
        self.stream.complete(self.stream.settled + 1)


@pytest.fixture
def enumerator() -> Enumerator:
    return Enumerator(10)


def test_every_reader_of_a_round_gets_the_plan_of_the_first(enumerator: Enumerator) -> None:
    planned = Planned(DOCUMENT, enumerator)
    assert planned.planner.initial() == 5
    assert [planned.latest(5, reader) for reader in (3, 4, 9)] == [6, 6, 6]
    for _ in range(3):
        works, _columns = planned.planner.partitions(5, 6)
        assert [work.splits for work in works] == [(KafkaPartitionSplit(PARTITION, 0, 10),)]


def test_records_that_come_in_the_middle_of_a_round_are_in_the_next_plan_of_all(enumerator: Enumerator) -> None:
    enumerator.waiting = 0
    planned = Planned(DOCUMENT, enumerator)
    assert planned.latest(5, 0) == 5
    enumerator.waiting = 10
    assert planned.latest(5, 1) == 5, "the first reader learned that there is nothing"
    assert [planned.latest(5, reader) for reader in (0, 1)] == [6, 6]


def test_plans_that_the_rate_leaves_without_records_are_followed_by_others() -> None:
    clock = FakeClock()
    source = LimitedSource(3, interval_millis=100, clock=clock)
    planned = Planned(DOCUMENT, source.enumerator, job=source.job, clock=clock)
    for _ in range(6000):  # Spark asks every 10 ms
        start = planned.planner.plan
        if planned.latest_at(clock.now + 0.01) != start:
            source.complete(planned.planner.splits)
            planned.complete()
    assert source.read == pytest.approx(3 * 60, abs=4)


def test_another_plan_than_the_newest_is_refused(enumerator: Enumerator) -> None:
    planned = Planned(DOCUMENT, enumerator)
    with pytest.raises(TransactionError, match="between plans 5 and 6: the newest plan is 5"):
        planned.planner.partitions(5, 6)


@pytest.mark.parametrize(("document", "after"), [(DOCUMENT, 5), (OWING, 6)])
def test_a_batch_without_records_is_owed_where_the_watermark_has_moved(
    enumerator: Enumerator, document: CheckpointDocument, after: int
) -> None:
    enumerator.waiting = 0
    planned = Planned(document, enumerator)
    assert [planned.latest(5, reader) for reader in (0, 1)] == [after, after]
    if after == 6:
        assert planned.planner.partitions(5, 6)[0] == []
        planned.complete()
        assert planned.latest(6, 0) == 6, "once"


def test_nothing_is_owed_where_operators_keep_no_state(enumerator: Enumerator) -> None:
    enumerator.waiting = 0
    assert Planned(replace(OWING, engine_has_state=False), enumerator).latest(5) == 5


def test_a_bounded_job_ends_after_the_batch_that_it_owes(enumerator: Enumerator) -> None:
    enumerator.waiting, enumerator.finished = 0, True
    planned = Planned(OWING, enumerator)
    assert planned.latest(5) == 6
    planned.stream.drain()
    assert not planned.stream.stop_between_checkpoints()
    planned.complete()  # a stop in between is not the end
    assert planned.stream.stop_between_checkpoints()
    assert not planned.planner.finished
    again = Planned(DOCUMENT, enumerator)
    assert [again.latest(5), again.latest(5)] == [5, 5]
    assert again.stream.stop_between_checkpoints()
    assert again.planner.finished


def test_a_job_with_timers_has_a_checkpoint_whenever_it_is_due_and_none_before(enumerator: Enumerator) -> None:
    """Spark runs a batch after each answer, so that a timer may expire."""
    enumerator.waiting = 0
    planned = Planned(DOCUMENT, enumerator, clock=RunningClock())
    planned.planner.has_timers = True
    assert planned.planner.latest(5, 0) == 6
    planned.complete()
    before = planned.clock.now
    assert planned.planner.latest(6, 0) == 7
    assert planned.clock.now - before >= JOB.spec.checkpoint_interval
    planned.complete()
    planned.stream.drain()
    assert planned.planner.latest(7, 0) == 7


def test_a_bounded_job_with_timers_ends_after_a_batch_behind_its_last_records(enumerator: Enumerator) -> None:
    planned = Planned(DOCUMENT, enumerator, clock=RunningClock())
    planned.planner.has_timers = True
    assert planned.planner.latest(5, 0) == 6
    planned.complete()
    enumerator.waiting, enumerator.finished = 0, True
    assert planned.planner.latest(6, 0) == 7
    planned.complete()
    assert planned.planner.latest(7, 0) == 7
    assert planned.stream.stop_between_checkpoints()
    assert planned.planner.finished


def test_what_is_settled_is_forgotten_when_there_is_nothing_to_do(enumerator: Enumerator) -> None:
    coordinator = FakeCoordinator(DOCUMENT, JOB)
    planned = Planned(DOCUMENT, enumerator, coordinator=coordinator)

    def forgotten_at(now: float) -> int:
        planned.latest_at(now)
        return coordinator.forgotten

    assert planned.latest_at(0) == 6
    planned.complete()
    enumerator.waiting = 0
    assert [forgotten_at(now) for now in (1, 5, 9.9)] == [0, 0, 0], "a pause between records is not idle"
    assert [forgotten_at(now) for now in (10.1, 11)] == [1, 2], "the coordinator knows whether it has to write"
    enumerator.waiting = 10
    assert forgotten_at(12) == 2
    planned.complete()
    enumerator.waiting = 0
    assert [forgotten_at(now) for now in (13, 21)] == [2, 2], "counted from the last checkpoint on"
    assert forgotten_at(22.1) == 3
    assert coordinator.renewed == 3, "the coordinator knows when an hour has passed"


def test_an_idle_driver_that_drains_writes_nothing_more(enumerator: Enumerator) -> None:
    coordinator = FakeCoordinator(DOCUMENT, JOB)
    enumerator.waiting = 0
    planned = Planned(DOCUMENT, enumerator, coordinator=coordinator)

    def plan() -> tuple[KafkaPartitionSplit, ...]:
        planned.stream.drain()
        assert planned.stream.stop_between_checkpoints(), "the last document is another thread's from here on"
        return (KafkaPartitionSplit(PARTITION, 0, 0),)

    enumerator.plan = plan  # type: ignore[method-assign]
    assert planned.latest_at(60) == 5
    assert coordinator.forgotten == 0


def test_a_stop_waits_for_the_document_that_is_being_written(enumerator: Enumerator) -> None:
    coordinator = FakeCoordinator(DOCUMENT, JOB)
    enumerator.waiting = 0
    planned = Planned(DOCUMENT, enumerator, coordinator=coordinator)
    stops: list[bool] = []

    def forget() -> None:
        planned.stream.drain()
        stops.append(planned.stream.stop_between_checkpoints())

    coordinator.forget_settled = forget  # type: ignore[method-assign]
    planned.latest_at(60)
    assert [*stops, planned.stream.stop_between_checkpoints()] == [False, True]


def test_a_driver_that_was_superseded_while_it_was_idle_ends(enumerator: Enumerator) -> None:
    coordinator = FakeCoordinator(DOCUMENT, JOB)
    enumerator.waiting = 0
    planned = Planned(DOCUMENT, enumerator, coordinator=coordinator)
    coordinator.failure = CheckpointConflict("superseded")
    with pytest.raises(CheckpointConflict):
        planned.latest_at(60)
    assert isinstance(planned.stream.failure, CheckpointConflict)
    assert planned.stream.stop_between_checkpoints(), "nothing is under way"
