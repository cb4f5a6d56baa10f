"""The driver of the local pace: who is granted, placed and told to read, and what is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import ENDLESS, KafkaPartitionSplit
from sparkapp.model.errors import SubtaskMissing, TransformFailed
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.source.enumerator.discovery import PartitionChange
from sparkapp.spark.engine.continuous.local.local_pace import LocalPace
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.failures import printed
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.tasks.control_frames import Answer, InstanceOrder, SubtaskReport
from tests.support.fakes.control_server import FakeControlServer
from tests.support.fakes.coordinators import FakeLocalCoordinator
from tests.support.patience import PATIENCE

PARTITIONS = [TopicPartition("in", number) for number in range(4)]


CLAIM = CheckpointDocument(
    job_uid="uid", attempt=1, checkpoint_id=0, created_at="", parallelism=2, prefix="prefix",
    splits=tuple(KafkaPartitionSplit(each, 10, 10) for each in PARTITIONS),
)  # fmt: skip


class Enumerator:
    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 10)
        self.stops: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        self.pending: dict[TopicPartition, int] | None = None
        self.finished = False
        self.change: PartitionChange | None = None

    def unplanned(self) -> tuple[KafkaPartitionSplit, ...]:
        return tuple(KafkaPartitionSplit(each, at, at) for each, at in sorted(self.offsets.items()))

    def discover_if_due(self) -> PartitionChange | None:
        return self.change

    def discover(self) -> PartitionChange:
        return self.change or PartitionChange(frozenset(), frozenset())

    def existing(self, partitions: list[TopicPartition]) -> set[TopicPartition]:
        return set(partitions)

    def ahead(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def complete(self, splits: tuple[KafkaPartitionSplit, ...]) -> None:
        self.offsets |= {split.partition: split.stop for split in splits}


class Driver:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self.enumerator = FakeControlServer(), Enumerator()
        monkeypatch.setattr("sparkapp.spark.engine.continuous.local.coordinator_calls.AGAIN_SECONDS", 0.0)
        sink = Sink(topic="out", transactional_id_prefix="p")
        self.spec = spec = SimpleNamespace(parallelism=2, checkpoint_interval=0.0, sink=sink)
        job: Any = SimpleNamespace(spec=spec)
        self.coordinator = FakeLocalCoordinator(CLAIM, job, group=77)
        parts: Any = {"server": self.server, "enumerator": self.enumerator, "coordinator": self.coordinator}
        self.completed: list[Any] = []
        self.seconds: list[float] = []
        unused: Any = None
        self.pace = LocalPace(PaceParts(
            **parts, completed=self.complete, await_subtasks=lambda: None,
            liveness=StreamLiveness(), places=lambda _: unused,
        ))  # fmt: skip

    def complete(self, done: Any, seconds: float) -> None:
        self.completed.append(done)
        self.seconds.append(seconds)

    def hear(self, subtask: int, **report: Any) -> None:
        self.server.answers.append(Answer(subtask, None, "", "", None, SubtaskReport(**report)))

    def until(self, holds: Callable[[], bool], *, draining: bool = False) -> bool:
        """Steps until it holds; whether the driver wants more steps."""
        deadline, more = Deadline.after(PATIENCE), True
        while not holds():
            assert not deadline.expired, (self.coordinator.calls, self.server.orders)
            more = self.pace.step(draining=draining)
        return more

    def orders(self, kind: str) -> list[tuple[int, InstanceOrder]]:
        return [(subtask, order) for subtask, order in self.server.orders if getattr(order, kind)]

    def instance(self, subtask: int) -> int:
        return [order.instance for number, order in self.orders("open") if number == subtask][-1]

    def owned(self, subtask: int) -> list[TopicPartition]:
        return [each for each in self.enumerator.offsets if split_owner(*each, 2) == subtask]

    def place(self, subtask: int) -> None:
        """The subtask answers its last order to place."""
        (order,) = [o for number, o in self.orders("place") if number == subtask][-1:]
        self.hear(subtask, instance=order.instance, placed=order.place)

    def started(self) -> None:
        for subtask in (0, 1):
            self.hear(subtask, instance=0, waits=True)
        self.until(lambda: len(self.orders("open")) == 2)
        for subtask in (0, 1):
            self.hear(subtask, instance=self.instance(subtask), opened=True)
        self.until(lambda: len(self.orders("place")) == 2)
        for subtask in (0, 1):
            self.place(subtask)
        self.until(lambda: {part.partition for _, o in self.orders("read") for part in o.read} == set(PARTITIONS))

    def called(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.coordinator.calls if call[0] == name]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(monkeypatch)


def test_nothing_is_placed_before_the_grant_nor_read_before_its_record(driver: Driver) -> None:
    driver.hear(0, instance=0, waits=True)
    driver.hear(1, instance=0, waits=True)
    driver.until(lambda: len(driver.orders("open")) == 2)
    driver.hear(0, instance=driver.instance(0), opened=True)
    driver.until(lambda: not driver.server.answers)
    assert driver.coordinator.calls == [], "one subtask has not opened its producer"
    driver.hear(1, instance=driver.instance(1), opened=True)
    driver.until(lambda: len(driver.orders("place")) == 2)
    assert driver.coordinator.calls[0] == ("grant", 4)
    assert driver.orders("read") == []
    driver.place(0)
    driver.until(lambda: len(driver.orders("read")) == 1)
    assert driver.called("placed") == [("placed", dict.fromkeys(driver.owned(0), 10))]
    (_, order), *_ = driver.orders("read")
    assert order.read == tuple(KafkaPartitionSplit(each, 10, ENDLESS) for each in driver.owned(0))


def test_a_write_without_an_answer_is_repeated(driver: Driver) -> None:
    driver.coordinator.unavailable = 3
    driver.started()
    assert driver.called("grant") == [("grant", 4)]


def test_a_record_without_an_answer_is_repeated_and_covers_the_time_since(driver: Driver) -> None:
    driver.started()
    driver.spec.checkpoint_interval = 3600.0
    driver.until(lambda: driver.pace._calls.is_idle)
    driver.completed.clear()
    driver.coordinator.unavailable = 1
    driver.pace._record_at = time.monotonic() - 4000
    driver.hear(0, instance=driver.instance(0), offsets={driver.owned(0)[0]: 20}, totals={"transactions": 1})
    driver.until(lambda: bool(driver.completed))
    assert driver.coordinator.unavailable == 0
    assert 4000 <= driver.seconds[-1] < 4100


def test_a_replaced_instance_begins_where_the_group_is(driver: Driver) -> None:
    driver.started()
    before = driver.instance(0)
    driver.hear(0, instance=before, offsets={driver.owned(0)[0]: 20}, totals={"records_out": 5, "transactions": 1})
    driver.hear(0, instance=before, waits=True)
    driver.until(lambda: driver.instance(0) != before)
    driver.hear(0, instance=before, opened=True)
    driver.until(lambda: not driver.server.answers)
    assert driver.called("grant_again") == [], "the instance that has ended says nothing any more"
    driver.hear(0, instance=driver.instance(0), opened=True)
    driver.until(lambda: len(driver.orders("place")) == 3)
    assert driver.called("grant_again") == [("grant_again", sorted(driver.owned(0)))]
    assert driver.orders("place")[-1][1].place == dict.fromkeys(driver.owned(0), 77)
    driver.place(0)
    driver.until(lambda: driver.orders("read")[-1][1].instance == driver.instance(0))
    driver.hear(
        0, instance=driver.instance(0), offsets={driver.owned(0)[0]: 90}, totals={"records_out": 2, "transactions": 1}
    )
    driver.until(lambda: bool(driver.called("record")) and driver.called("record")[-1][2].records_out == 7)
    assert driver.called("record")[-1][1][driver.owned(0)[0]] == 90
    assert driver.completed


def test_a_new_partition_is_placed_recorded_and_read(driver: Driver) -> None:
    driver.started()
    new = TopicPartition("in", 4)
    driver.enumerator.offsets[new] = 0
    driver.enumerator.change = PartitionChange(frozenset({new}), frozenset())
    driver.until(lambda: len(driver.orders("place")) == 3)
    ((owner, order),) = driver.orders("place")[2:]
    assert (owner, order.place) == (split_owner(*new, 2), {new: 0})
    driver.place(owner)
    driver.until(lambda: driver.orders("read")[-1][1].read == (KafkaPartitionSplit(new, 0, ENDLESS),))
    assert driver.called("placed")[-1] == ("placed", {new: 0})


def test_a_partition_that_is_gone_is_dropped(driver: Driver) -> None:
    driver.started()
    gone = driver.owned(1)[0]
    del driver.enumerator.offsets[gone]
    driver.enumerator.change = PartitionChange(frozenset(), frozenset({gone}))
    driver.until(lambda: bool(driver.orders("drop")))
    assert driver.orders("drop")[0] == (1, InstanceOrder(instance=driver.instance(1), drop=(gone,)))


def test_four_failures_without_a_commit_end_the_attempt(driver: Driver) -> None:
    driver.started()

    def fail() -> None:
        split = KafkaPartitionSplit(driver.owned(0)[0], 3, 9)
        before = driver.instance(0)
        failure = printed(TransformFailed("no such thing"))
        driver.hear(0, instance=before, waits=True, failure=failure, reading=(split,))
        driver.until(lambda: driver.instance(0) != before)

    for _ in range(3):
        fail()
    driver.hear(0, instance=driver.instance(0), opened=True)
    driver.until(lambda: bool(driver.called("grant_again")))
    driver.until(lambda: driver.orders("place")[-1][1].instance == driver.instance(0))
    driver.place(0)
    driver.until(lambda: driver.orders("read")[-1][1].instance == driver.instance(0))
    driver.hear(0, instance=driver.instance(0), offsets={driver.owned(0)[0]: 78}, totals={"transactions": 2})
    for _ in range(3):
        fail()
    with pytest.raises(TransformFailed, match=r"no such thing.*offsets 3 to 8"):
        fail()


def fail_after(driver: Driver, offsets: Mapping[TopicPartition, int], *reading: KafkaPartitionSplit) -> None:
    """Subtask 0 commits, and fails. Its next instance reads."""
    before = driver.instance(0)
    failure = printed(TransformFailed("no such thing"))
    driver.hear(0, instance=before, offsets=offsets, totals={"transactions": 2})
    driver.hear(0, instance=before, waits=True, failure=failure, reading=reading)
    driver.until(lambda: driver.instance(0) != before)
    now = driver.instance(0)
    driver.hear(0, instance=now, opened=True)
    driver.until(lambda: driver.orders("place")[-1][1].instance == now)
    driver.place(0)
    driver.until(lambda: driver.orders("read")[-1][1].instance == now)


def test_a_record_that_always_fails_ends_the_attempt_while_others_move(driver: Driver) -> None:
    driver.started()
    bad, good = driver.owned(0)[:2]
    for offset in (100, 101, 102):
        fail_after(driver, {good: offset, bad: 10}, KafkaPartitionSplit(bad, 10, 11))
    with pytest.raises(TransformFailed):
        fail_after(driver, {good: 103, bad: 10}, KafkaPartitionSplit(bad, 10, 11))


def test_the_commit_of_the_starts_is_no_progress(driver: Driver) -> None:
    """It is reported with the failure, where an instance fails at once."""
    driver.started()
    for start in (10, 77, 77):
        fail_after(driver, dict.fromkeys(driver.owned(0), start))
    with pytest.raises(TransformFailed):
        fail_after(driver, dict.fromkeys(driver.owned(0), 77))


def lose(driver: Driver, *, asks: bool = True) -> None:
    """Subtask 0 is lost, by a death or by silence. Its next task asks for an instance, which reads."""
    before = driver.instance(0)
    driver.server.losses.add(0)
    driver.until(lambda: not driver.server.answers)
    driver.pace.step(draining=False)
    if not asks:
        return
    driver.hear(0, instance=0, waits=True)
    driver.until(lambda: driver.instance(0) != before)
    read(driver)


def read(driver: Driver) -> None:
    now = driver.instance(0)
    driver.hear(0, instance=now, opened=True)
    driver.until(lambda: driver.orders("place")[-1][1].instance == now)
    driver.place(0)
    driver.until(lambda: driver.orders("read")[-1][1].instance == now)


@pytest.mark.parametrize("asks", [True, False])
def test_a_subtask_that_is_lost_again_and_again_ends_the_attempt(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """However slowly it is lost, and also where its tasks are lost before they ask for an instance."""
    monkeypatch.setattr(driver.coordinator, "grant_again", lambda found, _: dict.fromkeys(found, 10))
    driver.started()
    bad, good = driver.owned(0)[:2]
    driver.enumerator.pending = {bad: 1, good: 0}
    for offset in (101, 102, 103):
        lose(driver, asks=asks)
        driver.hear(0, instance=driver.instance(0), offsets={good: offset}, totals={"transactions": 1})
    with pytest.raises(
        SubtaskMissing, match=r"subtask 0 was lost or failed 4 times and got no further than in-\d offset 10$"
    ):
        lose(driver)


def test_a_loss_and_a_failure_are_counted_together(driver: Driver) -> None:
    driver.started()
    bad = driver.owned(0)[0]
    driver.enumerator.pending = {bad: 1}
    fail_after(driver, {bad: 77}, KafkaPartitionSplit(bad, 77, 78))
    lose(driver)
    lose(driver)
    with pytest.raises(TransformFailed):
        fail_after(driver, {bad: 77}, KafkaPartitionSplit(bad, 77, 78))


def test_losses_behind_progress_do_not_add_up(driver: Driver) -> None:
    driver.started()
    moving = driver.owned(0)[0]
    driver.enumerator.pending = {moving: 1000}
    lose(driver)
    for offset in range(100, 110):
        lose(driver)
        lose(driver)
        driver.hear(0, instance=driver.instance(0), offsets={moving: offset}, totals={"transactions": 2})
        driver.until(lambda: not driver.server.answers)


def test_a_commit_that_was_not_reported_is_progress(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task is lost soon after each of its commits, and the next begins behind them."""
    driver.started()
    driver.enumerator.pending = {driver.owned(0)[0]: 1000}
    for offset in range(80, 90):
        monkeypatch.setattr(driver.coordinator, "grant_again", lambda found, _, at=offset: dict.fromkeys(found, at))
        lose(driver)


def test_losses_without_records_to_read_are_not_counted(driver: Driver) -> None:
    """Nodes of a job without traffic are replaced, over months."""
    driver.started()
    for pending in (None, dict.fromkeys(PARTITIONS, 0), dict.fromkeys(driver.owned(1), 7)):
        driver.enumerator.pending = pending
        for _ in range(5):
            lose(driver)


@pytest.mark.parametrize("end", ["another task", "a failure"])
def test_a_drain_waits_until_every_commit_is_known(driver: Driver, end: str) -> None:
    driver.started()
    if end == "another task":
        driver.hear(1, instance=0, waits=True)
    else:
        driver.hear(1, instance=driver.instance(1), waits=True, failure="CommitOutcomeUnknown: no answer")
    driver.until(lambda: not driver.server.answers)
    assert driver.pace.step(draining=True), "subtask 1 may have committed what it did not report"
    with pytest.raises(SubtaskMissing):
        driver.pace.ended(set())


def test_an_instance_that_ends_in_order_while_the_job_drains_has_said_all(driver: Driver) -> None:
    """A commit that was confirmed by its second request ends the instance, also behind the order to stop."""
    driver.started()
    driver.spec.checkpoint_interval = 3600.0
    driver.until(lambda: driver.pace._calls.is_idle)
    assert not driver.pace.step(draining=True), "the subtasks are asked to end"
    instance, owned = driver.instance(1), driver.owned(1)[0]
    driver.hear(1, instance=instance, offsets={owned: 20}, totals={"records_out": 10, "transactions": 1})
    driver.hear(1, instance=instance, waits=True)
    while driver.server.answers:
        driver.pace.take(driver.server.answers.pop(0))
    driver.pace.ended(set())
    (_, offsets, totals) = driver.called("record")[-1]
    assert (offsets[owned], totals.records_out) == (20, 10)


@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize("draining", [True, False])
def test_the_end_waits_for_the_report_of_a_lost_subtasks_next_task(
    driver: Driver, draining: bool, is_seen: bool
) -> None:
    """It connects before it reports, and loss and connection may come between two looks."""
    driver.started()
    driver.enumerator.finished = not draining
    driver.spec.checkpoint_interval = 3600.0
    driver.until(lambda: driver.pace._calls.is_idle)
    before = driver.instance(0)
    driver.server.losses.add(0)
    if is_seen:
        driver.server.connected = {1}
        assert driver.pace.step(draining=draining)
        driver.server.connected = {0, 1}
    for _ in range(3):
        assert driver.pace._calls.is_idle
        assert driver.pace.step(draining=draining), "the task before may have committed what it did not report"
    driver.hear(0, instance=0, waits=True)
    driver.until(lambda: driver.instance(0) != before)
    read(driver)
    driver.until(lambda: not driver.pace.step(draining=draining))
    driver.pace.ended(set())


def test_a_loss_does_not_count_for_the_task_that_follows_it(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss, connection and report may come during one wait for an answer."""
    driver.started()
    driver.spec.checkpoint_interval = 3600.0
    before = driver.instance(0)

    def answer(_: float) -> Answer:
        monkeypatch.undo()
        driver.server.losses.add(0)
        return Answer(0, None, "", "", None, SubtaskReport(instance=0, waits=True))

    monkeypatch.setattr(driver.server, "answer", answer)
    driver.until(lambda: driver.instance(0) != before)
    read(driver)
    driver.until(lambda: not driver.pace.step(draining=True))
    driver.pace.ended(set())


def test_a_loss_behind_the_last_look_is_no_orderly_end(driver: Driver) -> None:
    driver.started()
    driver.spec.checkpoint_interval = 3600.0
    driver.until(lambda: not driver.pace.step(draining=True))
    driver.server.losses.add(1)
    with pytest.raises(SubtaskMissing, match=r"subtasks \[1\] did not confirm their last commits"):
        driver.pace.ended(set())


def test_a_drain_does_not_wait_for_a_place(driver: Driver) -> None:
    driver.started()
    driver.server.connected = {0}
    driver.server.losses.add(1)
    assert driver.pace.step(draining=True), "Spark may start it again within some seconds"
    driver.server.long_lost = {1}
    assert driver.pace.step(draining=False)
    with pytest.raises(SubtaskMissing, match=r"subtasks \[1\] have had no place for 10 s"):
        driver.pace.step(draining=True)


def test_a_drain_before_the_grant_records_nothing(driver: Driver) -> None:
    assert not driver.pace.step(draining=True)
    driver.pace.ended(set())
    assert driver.coordinator.calls == []
