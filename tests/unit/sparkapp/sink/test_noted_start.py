"""The start of an open checkpoint's transaction is asked for before the barrier, and not behind the flush."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import KafkaUnreachable, TransactionFenced
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.spec import Job
from sparkapp.sink import exactly_once_writer
from sparkapp.sink.delivery import writer_of
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.writer import KafkaWriter
from sparkapp.spark.tasks import write_task
from tests.support.fakes.closed_logs import NO_TOPICS
from tests.support.fakes.transaction_client import FakeTransactionClient
from tests.support.jobs.plain_job import plain_spec

SINK = Sink(topic="out", transactional_id_prefix="p")
JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=1,
    spec=plain_spec(sink=SINK),
)  # fmt: skip
ORDER = write_task.WriteOrder(
    checkpoint_id=1, subtask=0, next_free=0, settled=0, writes_what_it_reads=True, ranges=(), group_id=None
)
FIRST, SECOND = "p-1", "p-2"
"""The ids of the first two checkpoints."""
RECORDS = pa.RecordBatch.from_pydict({"value": [1, 2]})


class Coordinator(FakeTransactionClient):
    """Whose clock is the test's. A transaction is open once its first records have come."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.clock_ms = lambda: int(self.now * 1000)

    @property
    def questions(self) -> int:
        return self.calls.count("describe")


class Rig:
    def __init__(self, coordinator: Coordinator) -> None:
        client: Any = coordinator
        opened: Any = coordinator.open_producer
        self.pool = ProducerPool(open_producer=opened, client=client, config={}, scope=NO_TOPICS)
        self.writer: KafkaWriter = writer_of(SINK, pool=self.pool, subtask=0, next_free=0)

    def begin(self, checkpoint_id: int) -> None:
        self.writer.notify_committed(checkpoint_id - 1)
        self.writer.begin(checkpoint_id)

    def pre_commit(self) -> KafkaCommittable:
        committable = self.writer.pre_commit((), group_id=None)
        assert committable is not None
        return committable


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    made = Coordinator()
    monkeypatch.setattr(exactly_once_writer.time, "monotonic", lambda: made.now)
    return made


@pytest.fixture
def rig(coordinator: Coordinator) -> Rig:
    return Rig(coordinator)


def test_a_noted_start_spares_the_question_behind_the_flush(rig: Rig, coordinator: Coordinator) -> None:
    rig.begin(1)
    rig.writer.note_start()
    rig.writer.write(RECORDS)
    asked = coordinator.questions
    coordinator.begin(FIRST)
    rig.writer.note_start()
    rig.writer.note_start()
    rig.writer.write(RECORDS)
    assert rig.pre_commit().start_time_ms == 1_000_000
    assert coordinator.questions == asked + 1


def test_a_transaction_that_its_coordinator_does_not_know_yet_is_asked_about_again(
    rig: Rig, coordinator: Coordinator
) -> None:
    rig.begin(1)
    rig.writer.write(RECORDS)
    rig.writer.note_start()
    coordinator.now += 0.5
    assert rig.pre_commit().start_time_ms == 1_000_500


def test_a_process_that_was_frozen_asks_again(rig: Rig, coordinator: Coordinator) -> None:
    rig.begin(1)
    rig.writer.write(RECORDS)
    coordinator.begin(FIRST)
    rig.writer.note_start()
    coordinator.now += 10
    coordinator.initialise(FIRST)  # by the adopter of its work
    with pytest.raises(TransactionFenced):
        rig.pre_commit()


def test_a_start_is_that_of_its_transaction_only(rig: Rig, coordinator: Coordinator) -> None:
    rig.begin(1)
    rig.writer.write(RECORDS)
    coordinator.begin(FIRST)
    rig.writer.note_start()
    assert rig.pre_commit().start_time_ms == 1_000_000
    coordinator.now += 0.1
    rig.begin(2)
    rig.writer.write(RECORDS)
    coordinator.begin(SECOND)
    assert rig.pre_commit().start_time_ms == 1_000_100


def test_a_question_that_fails_leaves_no_producer(rig: Rig, coordinator: Coordinator) -> None:
    rig.begin(1)
    rig.writer.write(RECORDS)
    coordinator.fail["describe"] = KafkaUnreachable("no coordinator")
    with pytest.raises(KafkaUnreachable):
        rig.writer.note_start()
    assert rig.pool.live == 0


@pytest.mark.parametrize("awaits_barrier", [True, False])
def test_a_write_task_notes_the_start_while_it_awaits_the_barrier(
    rig: Rig, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, awaits_barrier: bool
) -> None:
    monkeypatch.setattr(write_task, "writer_for", lambda job, order: rig.writer)
    asked_at_the_end: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield RECORDS
        coordinator.begin(FIRST)
        yield RECORDS
        asked_at_the_end.append(coordinator.questions)

    result = write_task.write_batches(JOB, ORDER, batches(), index=0, awaits_barrier=lambda: awaits_barrier)
    assert result.committable is not None
    assert result.committable.start_time_ms == 1_000_000
    (asked,) = asked_at_the_end
    behind = coordinator.questions - asked
    assert (asked - 2, behind) == ((1, 0) if awaits_barrier else (0, 1)), "the first two are the new producer's"
