"""The local pace where topics are deleted and come back; driver, coordinator and enumerator are the product's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from sparkapp.checkpoint.recovery.local_starts import resumed
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.errors import GroupOffsetsMissing, OffsetsOvertaken, TopicNotFound
from sparkapp.model.job.sections.source import OnDataLoss, OnTopicDeleted
from sparkapp.model.job.startup import Startup, StartupMode, Stopping
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.options import EnumeratorOptions
from sparkapp.source.enumerator.subscriber import subscriber_of
from sparkapp.source.offsets_initializer import starting_initializer
from sparkapp.spark.engine.continuous.local.local_pace import LocalPace
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.failures import printed
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.tasks.control_frames import Answer, SubtaskReport
from tests.support.fakes.cluster_view import FakeCluster
from tests.support.fakes.control_server import FakeControlServer
from tests.unit.sparkapp.checkpoint.test_local_coordinator import CLAIM, JOB, Rig

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
OLD, OTHER, NEW = "0123456789", "AbCdEfGh-_", "9876543210"
SOURCE = replace(
    JOB.spec.source, topics=("a", "b"), startup=Startup(mode=StartupMode.EARLIEST), stopping=Stopping()
)  # fmt: skip
SPEC = replace(JOB.spec, parallelism=1, source=SOURCE, checkpoint_interval_millis=1)


class World:
    """One subtask reads what there is, and commits it."""

    def __init__(self, on_data_loss: OnDataLoss = OnDataLoss.FAIL) -> None:
        self.cluster = FakeCluster(
            partitions={"a": 1, "b": 1}, ends={A: 1000, B: 500}, ids={"a": OLD, "b": OTHER}
        )  # fmt: skip
        self.rig, self.server = Rig(replace(CLAIM, splits=(), checkpoint_id=0, parallelism=1)), FakeControlServer()
        self.rig.coordinator.job = replace(JOB, spec=SPEC)
        self.server.connected = {0}
        self.visible: list[tuple[str, int]] = []
        """The topic's id and the offset of each record of ``a`` whose output is visible."""
        self.at: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.transactions, self.mark, self.instance = 0, "", 0
        self.on_data_loss = on_data_loss
        self.enumerator = self.made_enumerator()
        self.enumerator.start(None)
        parts: Any = {"server": self.server, "places": lambda _: None}
        self.pace = LocalPace(PaceParts(
            enumerator=self.enumerator, coordinator=self.rig.coordinator, completed=lambda *_: None,
            await_subtasks=lambda: None, liveness=StreamLiveness(), **parts,
        ))  # fmt: skip
        self.say(waits=True)
        self.run()
        assert len(self.visible) == 1000

    def made_enumerator(self) -> KafkaSourceEnumerator:
        return KafkaSourceEnumerator(
            cluster=self.cluster, subscriber=subscriber_of(SOURCE), warn=lambda *_: None,
            starting=starting_initializer(SOURCE.startup, warn=lambda *_: None),
            options=EnumeratorOptions(
                discovery_interval=300, max_offsets=10**9, on_topic_deleted=OnTopicDeleted.IGNORE,
                on_data_loss=self.on_data_loss,
            ),
        )  # fmt: skip

    def say(self, **report: Any) -> None:
        self.server.answers.append(
            Answer(0, None, "", "", None, SubtaskReport(**{"instance": self.instance, **report}))
        )

    def obey(self) -> None:
        while self.server.orders:
            _, order = self.server.orders.pop(0)
            if order.open:
                self.instance, self.at, self.committed, self.transactions = order.instance, {}, {}, 0
                self.say(opened=True)
            elif order.place is not None:
                self.mark = order.mark
                self.commit(order.place)
                self.say(placed=order.place)
            elif order.drop:
                self.at = {}
                self.say(waits=True)
            else:
                self.at |= {split.partition: split.start for split in order.read}

    def turn(self) -> None:
        ends = self.cluster.ends
        moved = {each: ends[each] for each, at in self.at.items() if ends.get(each, 0) > at}
        if A in moved:
            self.visible += [(self.cluster.ids["a"], number) for number in range(self.at[A], moved[A])]
        self.at |= moved
        if moved:
            self.commit(moved)
        self.say(offsets=dict(self.committed), totals={"transactions": self.transactions})

    def commit(self, offsets: Any) -> None:
        self.transactions += 1
        self.committed |= offsets
        self.rig.group.offsets |= {each: GroupOffset(at, self.mark) for each, at in offsets.items()}

    def run(self) -> None:
        for _ in range(40):
            self.pace.step(draining=False)
            time.sleep(0.001)
            self.obey()
            self.turn()

    def record_no_more(self) -> None:
        job = self.rig.coordinator.job
        self.rig.coordinator.job = replace(job, spec=replace(job.spec, checkpoint_interval_millis=10**9))

    def discover(self) -> None:
        self.enumerator._discovered_at = -1e9
        self.run()

    def delete(self) -> None:
        """Brokers remove the offsets of a deleted topic."""
        self.cluster.delete("a")
        self.rig.group.offsets.pop(A)

    def come_back(self, records: int) -> None:
        self.cluster.grow("a", 1)
        self.cluster.ids["a"], self.cluster.ends[A] = NEW, records

    def next_start(self) -> int:
        """Where the next attempt begins in the topic, as recovery and the enumerator find it."""
        document = self.rig.written
        assert document.local is not None
        ids = document.topic_ids
        same = [each for each in (A, B) if ids.get(each.topic) in {None, self.cluster.ids[each.topic]}]
        group = {each: self.rig.group.offsets.get(each) for each in same}
        found = resumed(document, document.local, group, replace(JOB, spec=SPEC), forced=False)
        enumerator = self.made_enumerator()
        enumerator.start(found.offsets, None, found.topic_ids)
        return enumerator.offsets[A]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("sparkapp.spark.engine.continuous.local.local_pace._AGAIN_SECONDS", 0.0)
    monkeypatch.setattr("sparkapp.spark.engine.continuous.local.coordinator_calls.AGAIN_SECONDS", 0.0)
    return World()


@pytest.fixture
def returned(world: World) -> World:
    world.delete()
    world.discover()
    assert world.rig.written.offsets == {B: 500}
    assert world.rig.written.topic_ids == {"b": OTHER}
    world.come_back(40)
    world.discover()
    return world


def test_a_topic_that_comes_back_is_read_once_over_a_crash(returned: World) -> None:
    assert [number for topic, number in returned.visible if topic == NEW] == list(range(40))
    assert returned.rig.written.offsets == {A: 40, B: 500}
    assert returned.rig.written.topic_ids == {"a": NEW, "b": OTHER}
    assert returned.next_start() == 40


def test_an_offset_of_a_deleted_topic_does_not_place_its_successor(world: World) -> None:
    """A coordinator that loads its partition, while a topic is deleted, keeps the offsets of it."""
    kept = world.rig.group.offsets[A]
    world.delete()
    world.rig.group.offsets[A] = kept
    world.discover()
    world.come_back(1500)
    assert world.next_start() == 0
    world.discover()
    assert world.next_start() == 1500, "it is placed, and read once"


def test_a_partition_that_a_broker_does_not_know_yet_continues_where_it_was(world: World) -> None:
    """One stale answer, while the instance is replaced: the partition is there, and was read beyond the record."""
    world.record_no_more()
    world.cluster.ends[A] = 1200
    world.run()
    world.cluster.behind = 2
    world.say(waits=True)
    world.run()
    world.cluster.ends[A] = 1300
    world.run()
    assert [number for _, number in world.visible] == list(range(1300))


def test_a_drain_waits_for_a_partition_that_a_broker_has_not_heard_of_yet(world: World) -> None:
    """The group is ahead of the document, which says at the end that its offsets are exact."""
    world.record_no_more()
    world.cluster.ends[A] = 1200
    world.run()
    world.pace._reported.offsets[A] = 1000  # the instance was lost before its report
    world.server.answers.clear()
    world.cluster.behind = 2
    world.say(instance=0, waits=True)
    while not world.server.orders:
        world.pace.step(draining=False)
    while world.pace.step(draining=True):
        world.obey()
    world.pace.ended(set())
    assert world.rig.written.offsets[A] == 1200


def test_a_replaced_instance_goes_on_in_the_topic_that_came_back(returned: World) -> None:
    returned.say(waits=True)
    returned.run()
    returned.cluster.ends[A] = 50
    returned.run()
    assert [number for topic, number in returned.visible if topic == NEW] == list(range(50))


def test_the_lag_is_that_of_the_topic_that_came_back(returned: World) -> None:
    returned.cluster.ends[A] = 90
    returned.enumerator.look()
    assert returned.enumerator.pending == {A: 50, B: 0}


def test_the_lag_counts_what_the_subtasks_have_committed_and_no_checkpoint_has_yet(world: World) -> None:
    world.record_no_more()
    world.cluster.ends[A] = 1200
    world.run()
    assert [number for topic, number in world.visible if topic != NEW and number >= 1000] == list(range(1000, 1200))
    world.enumerator.look()
    assert world.enumerator.pending == {A: 0, B: 0}


def test_nothing_is_placed_before_the_document_has_forgotten_the_topic(world: World) -> None:
    """It comes back while the subtask ends, and while the API server is away."""
    world.delete()
    world.rig.store.silent, world.rig.store.writes_first = 1000, False
    world.discover()
    world.come_back(40)
    world.discover()
    assert world.rig.written.offsets == {A: 1000, B: 500}
    assert [number for topic, number in world.visible if topic == NEW] == []
    world.rig.store.silent = 0
    world.run()
    assert world.next_start() == 40


def test_a_deletion_that_is_not_forgotten_holds_the_end_of_the_attempt(world: World) -> None:
    world.delete()
    world.enumerator._discovered_at = -1e9
    world.pace.step(draining=False)
    assert world.pace.step(draining=True)
    world.obey()
    while world.pace.step(draining=True):
        world.obey()
    assert world.rig.written.offsets == {B: 500}


def test_a_topic_recreated_between_two_discoveries_is_read_by_the_next_attempt() -> None:
    """Its consumer has gone on in the middle of the new topic, and the group has an offset from there."""
    world = World(OnDataLoss.SKIP_TO_AVAILABLE)
    world.delete()
    world.come_back(1500)
    world.run()
    with pytest.raises(OffsetsOvertaken, match="topic a was recreated"):
        world.discover()
    assert world.rig.group.offsets[A].offset == 1500
    assert world.next_start() == 0


GONE = printed(TopicNotFound("reading a-0: unknown topic or partition"))


def test_a_topic_whose_deletion_the_consumer_finds_first_is_left_out(world: World) -> None:
    world.delete()
    world.say(waits=True, failure=GONE)
    world.run()
    assert set(world.at) == {B}
    assert world.rig.written.offsets == {B: 500}


def test_a_topic_that_is_deleted_after_the_last_discovery_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers have removed its offsets when the group is asked for the next instance."""
    ask = world.rig.group.committed

    def delete_and_ask(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        if A in world.rig.group.offsets:
            world.delete()
        return ask(partitions)

    monkeypatch.setattr(world.rig.group, "committed", delete_and_ask)
    world.say(waits=True)
    world.run()
    assert set(world.at) == {B}
    assert world.rig.written.offsets == {B: 500}


def test_an_offset_that_somebody_has_removed_stops_the_job(world: World) -> None:
    del world.rig.group.offsets[A]
    world.say(waits=True)
    with pytest.raises(GroupOffsetsMissing):
        world.run()
