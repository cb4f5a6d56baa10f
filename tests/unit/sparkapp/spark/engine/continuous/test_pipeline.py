"""Two checkpoints over the same subtasks: one is written while the other becomes final."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointMissing,
    ConfigurationError,
    InvalidArgument,
    KafkaUnreachable,
    OffsetsWentBackwards,
    PreCommitFailed,
    SubtaskDisconnected,
    SubtaskMissing,
)
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.source.watermarks.job_watermarks import JobWatermarks
from sparkapp.source.watermarks.subtask_watermark import NO_WATERMARK, ReachedWatermarks
from sparkapp.spark.engine.continuous import pipeline as module
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.engine.continuous.pipeline import CheckpointPipeline
from sparkapp.spark.failures import printed
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.tasks.control_frames import Answer, Work
from sparkapp.spark.tasks.write_task import WriteResult, encode_result
from tests.support.fakes.control_server import FakeControlServer
from tests.support.fakes.coordinators import FakeCoordinator
from tests.support.jobs.plain_job import plain_spec
from tests.support.patience import PATIENCE, until

PARALLELISM = 2
SPLITS = tuple(KafkaPartitionSplit(TopicPartition("in", number), 10, 20 + number) for number in range(4))
STOPS = {split.partition: 90 for split in SPLITS}
LATER = tuple(KafkaPartitionSplit(split.partition, split.stop, split.stop + 5) for split in SPLITS)
JOB = Job(
    namespace="n", name="job", uid="uid", generation=1, attempt=2,
    spec=plain_spec(parallelism=PARALLELISM, engine=Engine.CONTINUOUS),
)  # fmt: skip


class Server(FakeControlServer):
    """Subtasks that answer at once; each takes its next failure from ``failures``."""

    def __init__(self, **failures: list[str]) -> None:
        super().__init__(PARALLELISM)
        self.failures = {int(name.removeprefix("subtask_")): texts for name, texts in failures.items()}
        self.result = WriteResult(index=0, records=1, dead_letters=1, skipped=2, committable=None)
        self.reads_beyond = 0

    def give(self, work: dict[int, Work]) -> None:
        for subtask, each in work.items():
            self.given.append(each)
            number = each.order.checkpoint_id
            failures = self.failures.get(subtask, [])
            if failures:
                self.answers.append(Answer(subtask, number, "", failures.pop(0)))
                continue
            if each.is_open:
                continue
            self._answer(subtask, each, ())

    def _answer(self, subtask: int, each: Work, stops: tuple[int, ...]) -> None:
        number = each.order.checkpoint_id
        records = sum(split.size for split in each.splits)
        committable = KafkaCommittable(
                transactional_id=f"p-{subtask}", producer_id=1, producer_epoch=2, checkpoint_id=number, subtask=subtask,
                records=records, dead_letters=0, start_time_ms=5, ranges=(),
            ) if stops else None  # fmt: skip
        result = replace(
                self.result, index=subtask, records=records, clients={f"worker-{subtask}": {"fetched": 1}}, stops=stops,
                committable=committable,
            )  # fmt: skip
        # An answer to an earlier checkpoint counts for nothing.
        self.answers += [
            Answer(subtask, number - 1, "", "late"),
            Answer(subtask, number, encode_result(result), "", reached(each)),
        ]

    def barrier(self, checkpoint_id: int, work: dict[int, Work]) -> None:
        """The subtasks have read their splits, and some records more."""
        super().barrier(checkpoint_id, work)
        for each in [each for each in self.given if each.order.checkpoint_id == checkpoint_id and each.is_open]:
            stops = tuple(split.stop + self.reads_beyond for split in each.splits)
            self._answer(each.order.subtask, each, stops)


def reached(work: Work) -> ReachedWatermarks | None:
    """Each checkpoint advances each partition by its offsets."""
    if work.watermarks is None:
        return None
    partitions = {split.partition: split.stop for split in work.splits}
    return ReachedWatermarks(own=min(partitions.values()), partitions=partitions)


def coordinator(job: Job) -> FakeCoordinator:
    """Behind checkpoint 6. The producers of checkpoint 4 can be used again."""
    made = FakeCoordinator(CheckpointDocument(
        job_uid="uid", attempt=2, checkpoint_id=6, created_at="", parallelism=PARALLELISM, prefix="p"
    ), job)  # fmt: skip
    for subtask in range(PARALLELISM):
        made.reusable.add(
            KafkaCommittable(
                transactional_id=f"p-{subtask}", producer_id=9, producer_epoch=1, checkpoint_id=4, subtask=subtask,
                records=1,
            )
        )  # fmt: skip
    return made


class Rig:
    """A pipeline over fakes."""

    def __init__(
        self, *, watermarks: JobWatermarks | None = None, interval_millis: int = 60_000, **failures: list[str]
    ) -> None:
        job = replace(JOB, spec=replace(JOB.spec, checkpoint_interval_millis=interval_millis))
        self.server, self.coordinator = Server(**failures), coordinator(job)
        self.completed: list[int] = []
        self.have_ended = False
        log = self.coordinator.log
        enumerator: Any = SimpleNamespace(
            topic_ids={"in": "id"}, offsets={}, pending=None, stops=dict(STOPS),
            begin=lambda splits: log.append(("begin", splits)),
            complete=lambda splits: log.append(("complete", splits)),
        )  # fmt: skip

        def ended() -> None:
            if self.have_ended:
                raise SubtaskDisconnected("the subtasks have ended")

        self.is_fenced = False
        parts: Any = {"server": self.server, "coordinator": self.coordinator}
        unused: Any = None
        given: PaceParts[Any] = PaceParts(
            enumerator=enumerator, await_subtasks=ended, liveness=StreamLiveness(), places=lambda _: unused, **parts,
            completed=lambda completed, _: self.completed.append(completed.document.checkpoint_id),
        )  # fmt: skip
        self.pipeline = CheckpointPipeline(given, may_complete=lambda: not self.is_fenced, watermarks=watermarks)

    def until(self, is_reached: Callable[[], bool]) -> None:
        """Advances until then."""
        until(lambda: is_reached() or self.pipeline.advance(0))

    def run(self, splits: tuple[KafkaPartitionSplit, ...] = SPLITS) -> None:
        """One checkpoint, to its end."""
        self.pipeline.begin(splits)
        self.until(lambda: self.pipeline.oldest is None)


def test_each_subtask_reads_its_own_partitions_and_the_checkpoint_has_all() -> None:
    rig = Rig()
    rig.run()
    assert [each.order.subtask for each in rig.server.given] == [0, 1]
    for each in rig.server.given:
        assert each.splits == each.order.ranges
        assert {split_owner("in", split.partition.partition, PARALLELISM) for split in each.splits} == {
            each.order.subtask
        }
        assert (each.order.checkpoint_id, each.order.settled, each.order.next_free) == (7, 6, 4)
        assert each.order.reusable == {f"p-{each.order.subtask}": (4, 9, 1)}
        assert each.order.group_id == "g"
    assert rig.coordinator.writers == [{0, 1}]
    log = rig.coordinator.log
    assert log[:3] == [("prepare", SPLITS), ("give", 7), ("begin", SPLITS)]
    (checkpoint,) = rig.coordinator.pre_committed
    assert (checkpoint.checkpoint_id, checkpoint.splits, checkpoint.aligned) == (7, SPLITS, True)
    assert (checkpoint.stops, checkpoint.topic_ids) == (STOPS, {"in": "id"})
    assert (checkpoint.records_dead_lettered, checkpoint.records_skipped) == (PARALLELISM, 2 * PARALLELISM)
    assert checkpoint.records_out == sum(split.size for split in SPLITS)
    assert log[-1] == ("complete", SPLITS), "the enumerator goes on behind the final checkpoint only"
    assert set(rig.pipeline.clients) == {"worker-0", "worker-1"}
    assert rig.completed == [7]


def test_nothing_becomes_final_while_a_fence_of_a_lost_subtask_may_come() -> None:
    rig = Rig()
    rig.is_fenced = True
    rig.pipeline.begin(SPLITS)
    rig.until(lambda: not rig.server.answers)
    for _ in range(3):
        rig.pipeline.advance(0)
    assert rig.coordinator.pre_committed == []
    rig.is_fenced = False
    rig.until(lambda: rig.pipeline.oldest is None)
    assert rig.completed == [7]


def test_lost_subtasks_are_fenced_where_nobody_can_do_their_work() -> None:
    rig = Rig()
    assert not rig.pipeline.awaits_place
    rig.pipeline.begin(SPLITS)
    rig.server.writers = {0}
    assert not rig.pipeline.awaits_place
    assert rig.pipeline.ids_of(1) == (), "subtask 0 adopts it when it has answered"
    rig.server.writers = set()
    assert rig.pipeline.awaits_place
    assert [rig.pipeline.ids_of(subtask) for subtask in (0, 1)] == [("p-6",), ("p-11",)]
    rig.until(lambda: rig.pipeline.oldest is None)
    assert rig.pipeline.ids_of(1) == (), "it has answered"


def waiting_for_a_place(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Subtask 0 has pre-committed, and no executor replaces those of both; returns what lets seconds pass."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(module, "time", clock)
    rig.pipeline.begin(SPLITS, {split.partition: split.stop for split in SPLITS})
    rig.pipeline.barrier()
    rig.server.answers = [answer for answer in rig.server.answers if answer.subtask == 0]
    rig.until(lambda: not rig.server.answers)
    clock.now += 1000
    rig.pipeline.advance(0)
    rig.server.writers = set()

    def wait(seconds: float, **how: bool) -> None:
        for _ in range(round(10 * seconds)):
            rig.pipeline.advance(0, **how)
            clock.now += 0.1

    return wait


def test_transactions_that_nobody_can_complete_do_not_hold_back_readers_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    wait = waiting_for_a_place(rig, monkeypatch)
    wait(59)
    rig.server.writers = {1}
    wait(300)
    rig.server.writers = set()
    wait(59)
    with pytest.raises(SubtaskMissing, match=r"subtasks \[1\] have had no place for 60 s"):
        wait(2)


def test_a_stop_does_not_wait_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    wait = waiting_for_a_place(rig, monkeypatch)
    wait(9, draining=True)
    with pytest.raises(SubtaskMissing, match=r"subtasks \[1\] have had no place for 10 s"):
        wait(2, draining=True)


def test_an_attempt_that_has_nothing_open_waits_for_a_place_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another attempt would wait for the same place."""
    rig = Rig()
    monkeypatch.setattr(Server, "barrier", lambda *_: None)
    waiting_for_a_place(rig, monkeypatch)(1000)


def test_the_subtasks_write_the_next_checkpoint_while_one_becomes_final() -> None:
    rig = Rig()
    rig.coordinator.may_complete.clear()
    rig.pipeline.begin(SPLITS)
    assert not rig.pipeline.takes_next
    rig.until(lambda: rig.pipeline.takes_next)
    assert rig.pipeline.oldest == 7
    rig.pipeline.begin(LATER)
    rig.until(lambda: not rig.server.answers)
    assert {each.order.settled for each in rig.server.given} == {6}, "checkpoint 7 is not committed yet"
    for _ in range(3):
        rig.pipeline.advance(0)
    assert not rig.pipeline.takes_next, "a third checkpoint would need a fourth slot"
    assert rig.coordinator.pre_committed == [], "the answers of 8 are not used"
    rig.coordinator.may_complete.set()
    rig.until(lambda: rig.pipeline.oldest is None)
    assert [each.checkpoint_id for each in rig.coordinator.pre_committed] == [7, 8]
    ends = [entry for entry in rig.coordinator.log if not isinstance(entry, PreCommitted) and entry[0] == "complete"]
    assert ends == [("complete", SPLITS), ("complete", LATER)]
    assert rig.completed == [7, 8]
    rig.run()
    assert rig.server.given[-1].order.settled == 8


@pytest.mark.parametrize(("interval_millis", "seconds"), [(100, 0.01), (1000, 0.02), (60_000, 0.02)])
def test_a_checkpoint_that_becomes_final_has_the_processors_for_a_moment(interval_millis: int, seconds: float) -> None:
    rig = Rig(interval_millis=interval_millis)
    rig.coordinator.may_complete.clear()
    assert rig.pipeline.alone_until < 0
    rig.pipeline.begin(SPLITS)
    assert rig.pipeline.alone_until < 0, "its subtasks write"
    before = time.monotonic()
    rig.until(lambda: rig.pipeline.takes_next)
    assert before + seconds <= rig.pipeline.alone_until <= time.monotonic() + seconds
    rig.coordinator.may_complete.set()
    rig.until(lambda: rig.pipeline.oldest is None)
    assert rig.pipeline.alone_until < 0


def test_a_checkpoint_with_offsets_outside_is_complete_before_the_next_begins() -> None:
    rig = Rig()
    rig.coordinator.inside = False
    rig.coordinator.may_complete.clear()
    rig.pipeline.begin(SPLITS)
    rig.until(lambda: not rig.server.answers)
    for _ in range(3):
        rig.pipeline.advance(0)
        assert not rig.pipeline.takes_next
    rig.coordinator.may_complete.set()
    rig.until(lambda: rig.pipeline.takes_next)
    assert rig.completed == [7]


def test_a_subtask_that_fails_three_times_tries_again_and_no_other_does() -> None:
    rig = Rig(subtask_1=[printed(KafkaUnreachable("away"))] * 3)
    rig.run()
    assert [each.order.subtask for each in rig.server.given] == [0, 1, 1, 1, 1]
    assert rig.completed == [7]


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ([printed(KafkaUnreachable("away"))] * 4, KafkaUnreachable),
        ([printed(ConfigurationError("no"))], ConfigurationError),
    ],
    ids=["four-times", "at-once-where-no-retry-helps"],
)
def test_a_failure_for_good_completes_nothing(failures: list[str], kind: type[Exception]) -> None:
    rig = Rig(subtask_0=failures)
    with pytest.raises(kind):
        rig.run()
    assert rig.coordinator.pre_committed == []
    assert not rig.server.failures[0]


def test_watermarks_go_with_the_splits_and_come_back_with_the_answers() -> None:
    watermarks = JobWatermarks(parallelism=PARALLELISM, idle_timeout=0)
    rig = Rig(watermarks=watermarks, subtask_1=[printed(KafkaUnreachable("away"))])
    rig.run()
    first, failed, again = (each.watermarks for each in rig.server.given)
    assert first is not None
    assert first.own == NO_WATERMARK
    assert failed == again, "another try begins where the first began"
    assert watermarks.snapshot.job == 20
    rig.run(LATER)
    given = [each.watermarks for each in rig.server.given[-PARALLELISM:]]
    assert sorted((each.own, sorted(each.partitions.values())) for each in given if each) == [
        (20, [20, 22]), (21, [21, 23]),
    ]  # fmt: skip
    assert watermarks.snapshot.job == 25


def test_the_next_checkpoint_has_the_parallelism_of_the_coordinator() -> None:
    """A rescale in place changes it there alone."""
    rig = Rig()
    rig.run()
    rig.coordinator.job = replace(JOB, spec=replace(JOB.spec, parallelism=1))
    assert rig.pipeline.parallelism == 1
    rig.pipeline.begin(LATER)
    assert rig.coordinator.writers == [{0, 1}, {0}]


def test_a_record_that_was_refused_without_a_guarantee_ends_the_checkpoint() -> None:
    rig = Rig()
    rig.server.result = replace(rig.server.result, failure=printed(PreCommitFailed("1 records failed")))
    with pytest.raises(PreCommitFailed, match="1 records failed"):
        rig.run()
    assert rig.coordinator.pre_committed == []


def test_the_error_of_the_older_checkpoint_ends_the_wait_for_the_younger() -> None:
    rig = Rig()
    rig.coordinator.may_complete.clear()
    rig.coordinator.error = CheckpointConflict("superseded")
    rig.pipeline.begin(SPLITS)
    rig.until(lambda: rig.pipeline.takes_next)
    rig.server.give = lambda _: None  # type: ignore[method-assign]
    rig.pipeline.begin(LATER)
    rig.coordinator.may_complete.set()
    assert rig.server.woken.wait(PATIENCE)
    with pytest.raises(CheckpointConflict):
        rig.until(lambda: False)
    rig.pipeline.end()
    assert rig.completed == []


def test_no_subtask_writes_when_a_failed_attempt_has_ended() -> None:
    """The driver of a deleted job then aborts its open transactions, and a subtask must not begin another."""
    rig = Rig()
    rig.coordinator.may_complete.clear()
    rig.coordinator.error = CheckpointMissing("deleted")
    rig.pipeline.begin(SPLITS)
    rig.until(lambda: rig.pipeline.takes_next)
    answers, rig.server.answers = rig.server.answers, []
    rig.pipeline.begin(LATER)
    late, rig.server.answers = rig.server.answers, answers
    rig.coordinator.may_complete.set()
    with pytest.raises(CheckpointMissing):
        rig.until(lambda: False)
    of_0 = [answer for answer in late if answer.subtask == 0]
    rig.server.answers = [*of_0]
    rig.server.writers = {0}
    rig.pipeline.end()
    assert rig.server.answers == [], "the answer of subtask 0 was awaited, and nothing of subtask 1, which is gone"


def test_an_end_waits_for_the_checkpoint_that_becomes_final() -> None:
    rig = Rig()
    rig.coordinator.may_complete.clear()
    rig.pipeline.begin(SPLITS)
    rig.until(lambda: rig.pipeline.takes_next)
    threading.Timer(0.05, rig.coordinator.may_complete.set).start()
    rig.pipeline.end()
    assert rig.completed == [7]
    rig.pipeline.end()
    assert rig.completed == [7]


@pytest.mark.parametrize("has_been_connected", [False, True])
def test_a_stop_gives_up_a_checkpoint_that_no_subtask_has_seen(has_been_connected: bool) -> None:
    rig = Rig()
    rig.server.has_been_connected = has_been_connected
    rig.server.writers = set()
    rig.pipeline.begin(SPLITS)
    rig.pipeline.give_up_unseen()
    assert rig.pipeline.oldest == (7 if has_been_connected else None)
    rig.pipeline.end()


def test_subtasks_that_have_ended_end_the_wait() -> None:
    rig = Rig()
    rig.server.give = lambda _: None  # type: ignore[method-assign]
    rig.have_ended = True
    with pytest.raises(SubtaskDisconnected):
        rig.run()


QUIET = (*SPLITS[:3], KafkaPartitionSplit(SPLITS[3].partition, 23, 23))
BEYOND = {split.partition: split.stop + 7 for split in QUIET}


def test_an_open_checkpoint_ends_at_its_barrier_where_its_subtasks_have_come_to() -> None:
    rig = Rig()
    rig.server.reads_beyond = 4
    rig.pipeline.begin(QUIET, BEYOND)
    widest = tuple(KafkaPartitionSplit(split.partition, split.start, BEYOND[split.partition]) for split in QUIET)
    assert rig.coordinator.log[0] == ("prepare", widest), "commits of every partition that may be read are withdrawn"
    for _ in range(3):
        rig.pipeline.advance(0)
    assert rig.pipeline.is_open
    assert not rig.pipeline.takes_next
    given = [split for item in rig.server.given for split in item.splits]
    assert sorted(given) == list(QUIET), "a partition without records may have some until the barrier"
    assert {limit for item in rig.server.given for limit in item.limits} == set(BEYOND.values())
    began = rig.pipeline._running.began if rig.pipeline._running is not None else 0.0
    rig.pipeline.barrier()
    assert not rig.pipeline.is_open
    assert rig.pipeline._running is not None
    assert rig.pipeline._running.began > began, "a checkpoint takes as long as from its barrier on"
    rig.pipeline.barrier()
    rig.until(lambda: rig.pipeline.oldest is None)
    ((number, closed),) = rig.server.barriers
    assert number == 7
    assert sorted(split for item in closed.values() for split in item.splits) == list(QUIET[:3])
    (checkpoint,) = rig.coordinator.pre_committed
    read = tuple(KafkaPartitionSplit(split.partition, split.start, split.stop + 4) for split in QUIET)
    assert checkpoint.splits == read
    assert sorted(split for each in checkpoint.committables for split in each.ranges) == list(read)
    assert ("begin", read) in rig.coordinator.log, "the next plan begins where the subtasks have come to"
    assert rig.coordinator.log[-1] == ("complete", read)
    assert checkpoint.aligned


@pytest.mark.parametrize("error", [KafkaUnreachable("away"), OffsetsWentBackwards("out of range")])
def test_a_subtask_that_fails_reads_what_the_plan_had(error: Exception) -> None:
    """A partition without planned records may be the cause: its topic may be gone, or was recreated."""
    rig = Rig(subtask_1=[printed(error)])
    rig.pipeline.begin(QUIET, BEYOND)
    rig.until(lambda: not rig.server.answers)
    given = [each for each in rig.server.given if each.order.subtask == 1]
    assert [each.is_open for each in given] == [True, False]
    assert all(split.size for split in given[1].splits)
    rig.pipeline.barrier()
    rig.until(lambda: rig.pipeline.oldest is None)
    assert rig.coordinator.pre_committed[0].splits == QUIET


@pytest.mark.parametrize("error", [KafkaUnreachable("away"), OffsetsWentBackwards("out of range")])
def test_a_subtask_that_fails_behind_the_barrier_reads_what_the_plan_had(error: Exception) -> None:
    """It may have failed before the barrier reached it."""
    rig = Rig()
    rig.pipeline.begin(QUIET, BEYOND)
    rig.server.given = [each for each in rig.server.given if each.order.subtask == 0]
    rig.pipeline.barrier()
    rig.server.answers.append(Answer(1, 7, "", printed(error)))
    rig.until(lambda: len(rig.server.given) > 1)
    again = rig.server.given[-1]
    assert not again.is_open
    assert all(split.size for split in again.splits)
    rig.until(lambda: rig.pipeline.oldest is None)
    assert rig.coordinator.pre_committed[0].splits == QUIET


def test_an_error_that_no_retry_resolves_ends_the_attempt_after_the_next_plan() -> None:
    failure = printed(OffsetsWentBackwards("out of range"))
    rig = Rig()
    for fails in (True, False, True):
        rig.server.failures[1] = [failure] * fails
        rig.pipeline.begin(QUIET, BEYOND)
        rig.until(lambda: not rig.server.answers)
        rig.pipeline.barrier()
        rig.until(lambda: rig.pipeline.oldest is None)
    rig.server.failures[1] = [failure]
    rig.pipeline.begin(QUIET, BEYOND)
    with pytest.raises(OffsetsWentBackwards):
        rig.until(lambda: False)


def test_an_open_checkpoint_does_not_wait_for_an_idle_subtask_without_a_place() -> None:
    rig = Rig()
    rig.server.ready = {0}
    quiet = tuple(
        split if split_owner("in", split.partition.partition, PARALLELISM) == 0 else replace(split, stop=split.start)
        for split in SPLITS
    )
    rig.pipeline.begin(quiet, {split.partition: split.stop + 7 for split in quiet})
    rig.pipeline.barrier()
    rig.until(lambda: rig.pipeline.oldest is None)
    assert {each.order.subtask for each in rig.server.given} == {0}
    assert rig.coordinator.writers == [{0}]
    assert rig.coordinator.pre_committed[0].splits == quiet
    rig.pipeline.begin(SPLITS, {split.partition: split.stop + 7 for split in SPLITS})
    assert {each.order.subtask for each in rig.server.given} == {0, 1}, "planned records have no other reader"


@pytest.mark.parametrize("beyond", [8, -1], ids=["more than allowed", "less than planned"])
def test_an_answer_about_other_records_than_a_subtask_may_read_completes_nothing(beyond: int) -> None:
    rig = Rig()
    rig.server.reads_beyond = beyond
    rig.pipeline.begin(SPLITS, {split.partition: split.stop + 7 for split in SPLITS})
    rig.pipeline.barrier()
    with pytest.raises(InvalidArgument, match="has read"):
        rig.until(lambda: rig.pipeline.oldest is None)
    assert rig.coordinator.pre_committed == []


def test_an_end_gives_an_open_checkpoint_its_barrier() -> None:
    rig = Rig()
    rig.pipeline.begin(SPLITS, {split.partition: split.stop + 7 for split in SPLITS})
    rig.pipeline.end()
    assert [number for number, _ in rig.server.barriers] == [7]
    assert rig.server.answers == [], "their answers were awaited"
