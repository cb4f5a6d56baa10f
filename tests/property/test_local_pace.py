"""Random stories of the local pace: zombies act between all steps of a start, and groups are tampered with (ADR 56).

Recovery and coordinator are real, brokers and subtasks are a model. A subtask of the model keeps the engine's contract:
an instance writes after its grant, and reads a partition after it is recorded as placed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator, LocalTotals
from sparkapp.checkpoint.recovery.local_starts import GroupAnswer
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.commit_outcome import GroupOffset
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import local_id
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointNotRetained,
    CheckpointStoreUnavailable,
    StateRolledBack,
    StateUncertain,
    TransactionFenced,
)
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine, Job, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import Settled
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore

PARTITIONS = tuple(TopicPartition("in", number) for number in range(3))
NOW = "2026-11-21T08:00:00Z"


class Instance:
    """A producer with its only initialisation."""

    def __init__(self, brokers: Brokers, transactional_id: str, attempt: int) -> None:
        self.brokers, self.id, self.attempt = brokers, transactional_id, attempt
        self.mark = ""
        self.ranges: dict[TopicPartition, tuple[int, int]] = {}
        brokers.owners[transactional_id] = self

    def commit(self) -> None:
        """:raises TransactionFenced: a later producer has the id."""
        brokers, ranges = self.brokers, self.ranges
        self.ranges = {}
        if brokers.owners[self.id] is not self:
            raise TransactionFenced(self.id)
        assert self.attempt >= brokers.read_by, "a commit of a former attempt after the read of a later attempt"
        for partition, (start, stop) in ranges.items():
            brokers.visible[partition] += range(start, stop)
            brokers.group[partition] = GroupOffset(stop, self.mark)


class Brokers:
    """Who may write under an id, the group, and what readers see."""

    def __init__(self) -> None:
        self.owners: dict[str, Instance | None] = {}
        self.group: dict[TopicPartition, GroupOffset] = {}
        self.visible: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}
        self.read_by = 0

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        return {partition: self.group[partition] for partition in partitions if partition in self.group}


class FlakyStore(MemoryStore):
    """Answers get lost before or after the write."""

    lost: str = ""

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        lost, self.lost = self.lost, ""
        version = self.read().version
        if lost != "request":
            version = super().write(text, expected=expected)
        if lost:
            raise CheckpointStoreUnavailable("no answer")
        return version


@dataclass
class Control:
    """Recovery's control of the brokers' transactions, with time for others between its requests."""

    brokers: Brokers
    meanwhile: Callable[[], None]

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        self.meanwhile()
        if document.local is not None:
            for subtask in range(document.slots.subtasks):
                self.brokers.owners[local_id(document.prefix, subtask)] = None
                self.meanwhile()
        return ()

    def abort_lingering(self, document: CheckpointDocument) -> int:
        self.meanwhile()
        return 0


@dataclass
class Marks:
    """Recovery's view of the group."""

    brokers: Brokers
    attempt: int
    left: TopicPartition | None

    def of(self, _: CheckpointDocument | None) -> Collection[str]:
        return [found.metadata for found in self.brokers.group.values()]

    def final(self, document: CheckpointDocument) -> GroupAnswer:
        self.brokers.read_by = self.attempt
        return {partition: self.brokers.group.get(partition) for partition in PARTITIONS if partition != self.left}


class NoEngine:
    def rewound(self, engine: str) -> str:
        return engine

    def undone(self, document: CheckpointDocument) -> CheckpointDocument:
        return document


@dataclass
class Attempt:
    """A driver and its subtasks, which may act at any time, also when others have taken over.

    :param left: a partition of a topic that its spec has left; the topic is back before the attempt is granted.
    """

    job: Job
    store: FlakyStore
    brokers: Brokers
    coordinator: LocalCoordinator
    offsets: dict[TopicPartition, int]
    left: TopicPartition | None = None
    instances: dict[int, Instance] = field(default_factory=dict)
    granted: set[Instance] = field(default_factory=set)
    unrecorded: dict[TopicPartition, int] = field(default_factory=dict)
    readable: set[TopicPartition] = field(default_factory=set)
    reported: dict[TopicPartition, int] = field(default_factory=dict)
    is_granted = False
    is_over = False

    def of(self, subtask: int) -> list[TopicPartition]:
        return [each for each in PARTITIONS if each.partition % self.job.spec.parallelism == subtask]

    def act(self, name: str, subtask: int, count: int) -> None:
        """One step, if it is possible now."""
        subtask %= self.job.spec.parallelism
        try:
            getattr(self, name)(subtask, count)
        except CheckpointStoreUnavailable:
            return
        except TransactionFenced:
            del self.instances[subtask]
        except (CheckpointConflict, StateUncertain, StateRolledBack):
            self.is_over = True

    def open(self, subtask: int, _: int) -> None:
        if subtask not in self.instances:
            name = self.coordinator.id_of(subtask)
            self.instances[subtask] = Instance(self.brokers, name, self.job.attempt)
            self.readable -= set(self.of(subtask))

    def grant(self, subtask: int, _: int) -> None:
        instance = self.instances.get(subtask)
        if self.left is not None:
            return
        if not self.is_granted and len(self.instances) == self.job.spec.parallelism:
            self.coordinator.grant(
                tuple(KafkaPartitionSplit(partition, at, at) for partition, at in sorted(self.offsets.items()))
            )
            self.is_granted = True
            new = list(self.instances.values())
        elif self.is_granted and instance is not None and instance not in self.granted:
            self.offsets |= self.coordinator.grant_again(self.of(subtask), set)
            new = [instance]
        else:
            return
        for each in new:
            each.mark = self.coordinator.mark
            self.granted.add(each)

    def place(self, subtask: int, _: int) -> None:
        instance = self.instances.get(subtask)
        if instance in self.granted and not self.readable & set(self.of(subtask)):
            starts = {partition: self.offsets[partition] for partition in self.of(subtask)}
            instance.ranges = {partition: (at, at) for partition, at in starts.items()}
            instance.commit()
            self.unrecorded |= starts

    def placed(self, *_: int) -> None:
        if self.is_granted and self.unrecorded:
            self.coordinator.placed(self.unrecorded)
            mine = {each for subtask in self.instances for each in self.of(subtask)}
            self.readable |= self.unrecorded.keys() & mine
            self.unrecorded = {}

    def write(self, subtask: int, count: int) -> None:
        instance = self.instances.get(subtask)
        if instance in self.granted and not instance.ranges:
            for partition in self.readable & set(self.of(subtask)):
                instance.ranges[partition] = (self.offsets[partition], self.offsets[partition] + count)

    def commit(self, subtask: int, _: int) -> None:
        instance = self.instances.get(subtask)
        if instance in self.granted and instance.ranges:
            ends = {partition: stop for partition, (_, stop) in instance.ranges.items()}
            instance.commit()
            self.offsets |= ends
            self.reported |= ends

    def record(self, *_: int) -> None:
        if self.is_granted:
            self.coordinator.record(self.reported, LocalTotals())

    def give_up(self, subtask: int, _: int) -> None:
        """R4: its commit has no clear answer, or its process is lost."""
        if subtask in self.instances:
            del self.instances[subtask]

    def drain(self, *_: int) -> None:
        if any(instance.ranges for instance in self.instances.values()):
            return
        if self.is_granted and len(self.granted & set(self.instances.values())) < self.job.spec.parallelism:
            return  # what an instance committed last is not known
        self.record()
        self.coordinator.drained()
        self.is_over = True


STEPS = ["open", "grant", "place", "placed", "write", "commit", "record", "give_up", "drain"]
steps = st.tuples(
    st.integers(0, 9), st.sampled_from([*STEPS, "write", "commit", "write", "commit"]), st.integers(0, 2),
    st.integers(1, 5),
)  # fmt: skip


class LocalPaceStory(RuleBasedStateMachine):
    """Attempts, zombies, lost answers and tampering."""

    def __init__(self) -> None:
        super().__init__()
        self.brokers, self.store = Brokers(), FlakyStore()
        self.attempts: list[Attempt] = []
        self.number = 0
        self.restore = Restore()
        self.texts: list[str] = []
        self.tampered = False

    @property
    def document(self) -> CheckpointDocument | None:
        text = self.store.read().text
        return None if text is None else decode(text, job_uid="uid")

    def job(self, parallelism: int) -> Job:
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers="b:1"), transform=Transform(), engine=Engine.CONTINUOUS,
            source=Source(topics=("in",), group_id="group", startup=Startup(mode=StartupMode.EARLIEST)),
            sink=Sink(topic="out", transactional_id_prefix="p"), parallelism=parallelism, commit_interval_millis=50,
            restore=self.restore,
        )  # fmt: skip
        return Job(namespace="ns", name="story", uid="uid", generation=1, attempt=self.number, spec=spec)

    def act(self, step: tuple[int, str, int, int]) -> None:
        which, name, subtask, count = step
        alive = [attempt for attempt in self.attempts if not attempt.is_over]
        if alive:
            alive[which % len(alive)].act(name, subtask, count)
            self.note()

    def note(self) -> None:
        text = self.store.read().text
        if text is not None and text not in self.texts:
            self.texts.append(text)

    @rule(
        data=st.data(), parallelism=st.integers(1, 3), runs=st.booleans(),
        left=st.sampled_from([None, None, *PARTITIONS]),
    )  # fmt: skip
    def start(self, data: st.DataObject, parallelism: int, runs: bool, left: TopicPartition | None) -> None:
        """The next attempt; the previous attempts may be zombies.

        :param runs: whether it comes to its first commit, or drains before its grant, if nobody disturbs it.
        :param left: see :class:`Attempt`.
        """
        self.number += 1
        job = self.job(parallelism)

        def meanwhile() -> None:
            for step in data.draw(st.lists(steps, max_size=2)):
                self.act(step)

        try:
            recovery = recover(
                job, store=self.store, control=Control(self.brokers, meanwhile), now=NOW,
                retained=MemoryRetainedStore(), engine=NoEngine(), cluster_id="",
                marks=Marks(self.brokers, self.number, left),
            )  # fmt: skip
        except CheckpointNotRetained:  # another checkpoint was recorded since the person decided
            self.accept()
            return
        except (StateUncertain, StateRolledBack):
            assert self.tampered, "a start stops although nobody has interfered"
            self.accept()
            return
        except CheckpointConflict:
            return  # a zombie wrote between read and claim
        self.tampered = self.tampered and left is not None
        attempt = self.attempt_after(job, recovery)
        attempt.left = left
        self.attempts.append(attempt)
        names = ("open", "grant", "place", "placed", "write", "commit") if left is None else ("drain",)
        for name in names if runs else ():
            for subtask in range(parallelism):
                attempt.act(name, subtask, 3)
        self.note()

    def attempt_after(self, job: Job, recovery: Recovery) -> Attempt:
        found = recovery.document.offsets
        if recovery.restored is not None:
            self.texts = []  # an earlier document would undo the restore
            for partition, offset in found.items():
                del self.brokers.visible[partition][offset:]
        coordinator = LocalCoordinator(
            job, store=self.store, document=recovery.document, version=recovery.version, evidence=self.brokers,
            now=lambda: NOW,
        )  # fmt: skip
        offsets = {partition: found.get(partition, 0) for partition in PARTITIONS}
        return Attempt(job, self.store, self.brokers, coordinator, offsets)

    def accept(self) -> None:
        """A person names the current checkpoint, or starts anew where none was recorded."""
        document = self.document
        if document is not None and document.checkpoint_id:
            self.restore = Restore(checkpoint=document.checkpoint_id, nonce=self.restore.nonce + 1)
            return
        self.__init__()  # type: ignore[misc]

    @rule(step=steps)
    def step(self, step: tuple[int, str, int, int]) -> None:
        self.act(step)

    @rule(step=steps)
    def busy(self, step: tuple[int, str, int, int]) -> None:
        """More of what subtasks do most."""
        for name in ("write", "commit"):
            self.act((step[0], name, *step[2:]))

    @rule(step=steps)
    def replaced(self, step: tuple[int, str, int, int]) -> None:
        """A subtask has a new instance."""
        for name in ("give_up", "open", "grant", "place", "placed"):
            self.act((step[0], name, *step[2:]))

    @rule(lost=st.sampled_from(["request", "answer"]), step=steps)
    def lose(self, lost: str, step: tuple[int, str, int, int]) -> None:
        """The API server's next answer to a driver is lost."""
        self.store.lost = lost
        self.act(step)
        self.store.lost = ""

    @rule()
    def crash(self) -> None:
        """Every attempt dies."""
        self.attempts = []

    @precondition(lambda self: self.brokers.group and not self.tampered)
    @rule(data=st.data())
    def move_group(self, data: st.DataObject) -> None:
        """Somebody sets an offset, deletes the group, or brokers lose commits."""
        partition = data.draw(st.sampled_from(sorted(self.brokers.group)))
        what = data.draw(st.sampled_from(["set", "delete", "lose"]))
        self.tampered = True
        if what == "set":
            self.brokers.group[partition] = GroupOffset(data.draw(st.integers(0, 20)))
        elif what == "delete":
            self.brokers.group = {}
        else:
            found = self.brokers.group[partition]
            document = self.document
            known = document.offsets.get(partition, 0) if document is not None else 0
            if known:
                self.brokers.group[partition] = replace_offset(found, known - 1)

    @precondition(lambda self: self.texts and not self.tampered)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        """An earlier document, when no attempt runs."""
        self.crash()
        self.tampered = True
        self.store.write(data.draw(st.sampled_from(self.texts)), expected=self.store.read().version)

    @invariant()
    def what_readers_see_is_a_prefix(self) -> None:
        for partition, offsets in self.brokers.visible.items():
            assert offsets == list(range(len(offsets))), f"{partition}: {offsets}"

    @invariant()
    def the_group_is_the_end_and_the_document_is_behind_it(self) -> None:
        document = self.document
        if self.tampered or document is None:
            return
        for partition, found in self.brokers.group.items():
            if document.local is not None and partition in document.local.placed:
                assert document.offsets[partition] <= found.offset == len(self.brokers.visible[partition])


def replace_offset(found: GroupOffset, offset: int) -> GroupOffset:
    return GroupOffset(offset, found.metadata)


LocalPaceStory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLocalPace = LocalPaceStory.TestCase
