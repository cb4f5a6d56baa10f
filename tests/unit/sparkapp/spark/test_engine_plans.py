"""What the engine answers when Spark asks for the next batch's end: one plan for every reader, and a batch it owes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import CheckpointConflict, KafkaSparkJobError, OffsetsOvertaken, OffsetsWentBackwards
from sparkapp.model.job import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.spark.engine import MicroBatchEngine
from sparkapp.spark.query_log import EngineState, encode_engine

PARTITION = TopicPartition("in", 0)
DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=2, checkpoint_id=7, created_at="", parallelism=1, prefix="p", engine_has_state=True,
    engine=encode_engine(EngineState(5, '{"batchWatermarkMs":1000}', watermark=1000)),
)  # fmt: skip
OWING = replace(DOCUMENT, engine=encode_engine(EngineState(5, '{"batchWatermarkMs":1000}', watermark=2000)))


class Enumerator:
    """A source of one partition with so many records."""

    finished = False

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting

    def discover_if_due(self) -> None: ...

    def plan(self) -> tuple[KafkaPartitionSplit, ...]:
        return (KafkaPartitionSplit(PARTITION, 0, self.waiting),)

    def explain(self, error: OffsetsWentBackwards) -> OffsetsWentBackwards:
        return OffsetsOvertaken(f"explained: {error.message}")


class Coordinator:
    def __init__(self, document: CheckpointDocument) -> None:
        self.document = document
        self.forgotten = self.renewed = 0
        self.failure: KafkaSparkJobError | None = None

    def forget_settled(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.forgotten += 1

    def renew(self) -> None:
        self.renewed += 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def engine_of(
    document: CheckpointDocument,
    enumerator: Enumerator,
    *,
    coordinator: Coordinator | None = None,
    clock: Clock | None = None,
) -> MicroBatchEngine:
    spec = JobSpec(
        kafka=KafkaCluster(bootstrap_servers="b:1"), source=Source(topics=("in",), group_id="g"),
        transform=Transform(), sink=Sink(topic="out", transactional_id_prefix="p"),
    )  # fmt: skip
    nothing: Any = None
    fakes: Any = {"enumerator": enumerator, "coordinator": coordinator or Coordinator(document)}
    return MicroBatchEngine(
        Job(namespace="n", name="job", uid="uid", generation=1, attempt=2, spec=spec), spark=nothing, function=None,
        folder=Path(), stateful_allowed=True, step=lambda *_: None, hold=lambda _: 0.0, completed=lambda *_: None,
        clock=clock or Clock(), **fakes,
    )  # fmt: skip


@pytest.fixture
def enumerator() -> Enumerator:
    return Enumerator(10)


def test_every_reader_of_a_round_gets_the_plan_of_the_first(enumerator: Enumerator) -> None:
    engine = engine_of(DOCUMENT, enumerator)
    assert engine.initial() == 5
    assert [engine.latest(5, reader) for reader in (3, 4, 9)] == [6, 6, 6]
    for _ in range(3):
        works, _columns = engine.partitions(5, 6)
        assert [one.splits for one in works] == [(KafkaPartitionSplit(PARTITION, 0, 10),)]


def test_records_that_come_in_the_middle_of_a_round_are_in_the_next_plan_of_all(enumerator: Enumerator) -> None:
    enumerator.waiting = 0
    engine = engine_of(DOCUMENT, enumerator)
    assert engine.latest(5, 0) == 5
    enumerator.waiting = 10
    engine._due = 0.0
    assert engine.latest(5, 1) == 5, "the first one has been told that there is nothing"
    assert [engine.latest(5, reader) for reader in (0, 1)] == [6, 6]


@pytest.mark.parametrize(("document", "after"), [(DOCUMENT, 5), (OWING, 6)])
def test_a_batch_without_records_is_owed_where_the_watermark_has_moved(
    enumerator: Enumerator, document: CheckpointDocument, after: int
) -> None:
    enumerator.waiting = 0
    engine = engine_of(document, enumerator)
    assert [engine.latest(5, reader) for reader in (0, 1)] == [after, after]
    if after == 6:
        assert engine.partitions(5, 6)[0] == []
        engine._pending, engine._due = None, 0.0
        assert engine.latest(6, 0) == 6, "once"


def test_nothing_is_owed_where_operators_keep_no_state(enumerator: Enumerator) -> None:
    enumerator.waiting = 0
    assert engine_of(replace(OWING, engine_has_state=False), enumerator).latest(5, 0) == 5


def test_a_reader_that_did_not_find_its_offsets_is_explained_by_the_source(enumerator: Enumerator) -> None:
    """Spark carries the error as text; what it means is the enumerator's to say."""
    engine = engine_of(DOCUMENT, enumerator)
    ended: Any = SimpleNamespace(
        isActive=False, exception=lambda: "sparkapp.model.errors.OffsetsWentBackwards: reading in-0 at 0 of 9: gone"
    )
    closed: Any = SimpleNamespace(close=lambda: None)
    engine._query, engine._server = ended, closed
    with pytest.raises(OffsetsOvertaken, match="explained: reading in-0 at 0 of 9") as caught:
        engine.await_end()
    assert not caught.value.fatal


def test_a_bounded_job_ends_after_the_batch_that_it_owes(enumerator: Enumerator) -> None:
    enumerator.waiting, enumerator.finished = 0, True
    engine = engine_of(OWING, enumerator)
    assert engine.latest(5, 0) == 6
    engine.drain()
    assert not engine._stop_between_checkpoints()
    # Completed; a stop in between is not the end.
    engine._pending, engine._settled = None, 8
    assert engine._stop_between_checkpoints()
    assert not engine.finished
    again = engine_of(DOCUMENT, enumerator)
    assert [again.latest(5, 0), again.latest(5, 0)] == [5, 5]
    assert again._stop_between_checkpoints()
    assert again.finished


def test_what_is_settled_is_forgotten_when_there_is_nothing_to_do(enumerator: Enumerator) -> None:
    coordinator, clock = Coordinator(DOCUMENT), Clock()
    engine = engine_of(DOCUMENT, enumerator, coordinator=coordinator, clock=clock)

    def round_at(now: float) -> int:
        clock.now = engine._due = now
        return engine.latest(engine._plan, 0) and coordinator.forgotten

    assert engine.latest(5, 0) == 6
    engine._pending, enumerator.waiting = None, 0  # completed
    assert [round_at(now) for now in (1, 5, 9.9)] == [0, 0, 0], "a pause between records is none of the job"
    assert [round_at(now) for now in (10.1, 11)] == [1, 2], "the coordinator writes once: it knows whether it has to"
    enumerator.waiting = 10
    assert round_at(12) == 2
    engine._pending, enumerator.waiting = None, 0
    assert [round_at(now) for now in (13, 21)] == [2, 2], "counted from the last checkpoint on"
    assert round_at(22.1) == 3
    assert coordinator.renewed == 3, "the coordinator knows when an hour has passed"


def test_an_idle_driver_that_drains_writes_nothing_more(enumerator: Enumerator) -> None:
    coordinator, clock = Coordinator(DOCUMENT), Clock()
    enumerator.waiting = 0
    engine = engine_of(DOCUMENT, enumerator, coordinator=coordinator, clock=clock)
    clock.now = engine._due = 60.0

    def plan() -> tuple[KafkaPartitionSplit, ...]:
        engine.drain()
        assert engine._stop_between_checkpoints(), "the last document is another thread's from here on"
        return (KafkaPartitionSplit(PARTITION, 0, 0),)

    enumerator.plan = plan  # type: ignore[method-assign]
    assert engine.latest(5, 0) == 5
    assert coordinator.forgotten == 0


def test_a_stop_waits_for_the_document_that_is_being_written(enumerator: Enumerator) -> None:
    coordinator, clock = Coordinator(DOCUMENT), Clock()
    enumerator.waiting = 0
    engine = engine_of(DOCUMENT, enumerator, coordinator=coordinator, clock=clock)
    clock.now = engine._due = 60.0
    stops: list[bool] = []

    def forget() -> None:
        engine.drain()
        stops.append(engine._stop_between_checkpoints())

    coordinator.forget_settled = forget  # type: ignore[method-assign]
    engine.latest(5, 0)
    assert [*stops, engine._stop_between_checkpoints()] == [False, True]


def test_a_driver_that_was_superseded_while_it_was_idle_ends(enumerator: Enumerator) -> None:
    coordinator, clock = Coordinator(DOCUMENT), Clock()
    enumerator.waiting = 0
    engine = engine_of(DOCUMENT, enumerator, coordinator=coordinator, clock=clock)
    clock.now = engine._due = 60.0
    coordinator.failure = CheckpointConflict("another one")
    with pytest.raises(CheckpointConflict):
        engine.latest(5, 0)
    assert isinstance(engine._failure, CheckpointConflict)
    assert not engine._in_batch
