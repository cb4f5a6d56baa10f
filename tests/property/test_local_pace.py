"""Random stories of the local pace: zombies act between all steps of a start, and groups are tampered with (ADR 56).

Recovery and coordinator are real, brokers and subtasks are a model. A subtask of the model keeps the engine's contract:
an instance writes after its grant, and reads a partition after it is recorded as placed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.recovery.cluster_identity import ClusterIds
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.checkpoint.recovery.local_starts import GroupAnswer
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
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
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import Settled
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import LossyStore
from tests.support.jobs.plain_job import plain_spec
from tests.support.protocol.local_contract import LocalSubtasks

PARTITIONS = tuple(TopicPartition("in", number) for number in range(3))
NOW = "2026-11-21T08:00:00Z"


class Instance:
    """A producer with its only initialisation."""

    def __init__(self, brokers: Brokers, transactional_id: str, attempt: int) -> None:
        self.brokers, self.id, self.attempt = brokers, transactional_id, attempt
        self.mark = ""
        self.splits: list[KafkaPartitionSplit] = []
        brokers.owners[transactional_id] = self

    def write(self, splits: Iterable[KafkaPartitionSplit], mark: str) -> None:
        self.splits, self.mark = list(splits), mark

    def commit(self) -> None:
        """:raises TransactionFenced: a later producer has the id."""
        brokers, splits = self.brokers, self.splits
        self.splits = []
        if brokers.owners[self.id] is not self:
            raise TransactionFenced(self.id)
        assert self.attempt >= brokers.read_by, "a commit of a former attempt after the read of a later attempt"
        for split in splits:
            brokers.visible[split.partition] += range(split.start, split.stop)
            brokers.group[split.partition] = GroupOffset(split.stop, self.mark)


class Brokers:
    """Who may write under an id, the group, and what readers see."""

    def __init__(self) -> None:
        self.owners: dict[str, Instance | None] = {}
        self.group: dict[TopicPartition, GroupOffset] = {}
        self.visible: dict[TopicPartition, list[int]] = {partition: [] for partition in PARTITIONS}
        self.read_by = 0

    def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        return {partition: self.group[partition] for partition in partitions if partition in self.group}


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

    parallelism: int
    subtasks: LocalSubtasks
    left: TopicPartition | None = None
    is_over = False

    def act(self, name: str, subtask: int, count: int) -> None:
        """One step, if it is possible now."""
        subtask %= self.parallelism
        try:
            getattr(self, name)(self.subtasks, subtask, count)
        except CheckpointStoreUnavailable:
            return
        except TransactionFenced:
            self.subtasks.give_up(subtask)
        except (CheckpointConflict, StateUncertain, StateRolledBack):
            self.is_over = True

    def open(self, subtasks: LocalSubtasks, subtask: int, _: int) -> None:
        if subtask not in subtasks.instances:
            subtasks.open(subtask)

    def grant(self, subtasks: LocalSubtasks, subtask: int, _: int) -> None:
        if self.left is not None:
            return
        if not subtasks.is_granted and len(subtasks.instances) == self.parallelism:
            subtasks.grant()
        elif subtasks.is_granted and subtask in subtasks.instances.keys() - subtasks.marks.keys():
            subtasks.grant_again(subtask)

    def place(self, subtasks: LocalSubtasks, subtask: int, _: int) -> None:
        if subtask in subtasks.marks and not subtasks.readable & set(subtasks.of(subtask)):
            subtasks.place(subtask)

    def placed(self, subtasks: LocalSubtasks, *_: int) -> None:
        subtasks.placed()

    def write(self, subtasks: LocalSubtasks, subtask: int, count: int) -> None:
        readable = subtasks.readable & set(subtasks.of(subtask))
        if readable and subtask in subtasks.marks.keys() - subtasks.under_way.keys():
            subtasks.write(subtask, dict.fromkeys(readable, count))

    def commit(self, subtasks: LocalSubtasks, subtask: int, _: int) -> None:
        if subtask in subtasks.under_way:
            subtasks.commit(subtask)

    def record(self, subtasks: LocalSubtasks, *_: int) -> None:
        if subtasks.is_granted:
            subtasks.record()

    def give_up(self, subtasks: LocalSubtasks, subtask: int, _: int) -> None:
        """R4: its commit has no clear answer, or its process is lost."""
        subtasks.give_up(subtask)

    def drain(self, subtasks: LocalSubtasks, *_: int) -> None:
        if subtasks.under_way:
            return
        if subtasks.is_granted and len(subtasks.marks) < self.parallelism:
            return  # what an instance committed last is not known
        subtasks.drain()
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
        self.brokers, self.store = Brokers(), LossyStore()
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
        spec = plain_spec(
            engine=Engine.CONTINUOUS,
            source=Source(topics=("in",), group_id="group", startup=Startup(mode=StartupMode.EARLIEST)),
            parallelism=parallelism,
            commit_interval_millis=50,
            restore=self.restore,
        )
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
                retained=MemoryRetainedStore(), engine=NoEngine(), clusters=ClusterIds("", ""),
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
            job, writer=DocumentWriter(self.store, recovery.document, recovery.version), evidence=self.brokers,
            now=lambda: NOW,
        )  # fmt: skip
        offsets = {partition: found.get(partition, 0) for partition in PARTITIONS}
        parallelism = job.spec.parallelism

        def opened(subtask: int) -> Instance:
            return Instance(self.brokers, coordinator.id_of(subtask), job.attempt)

        subtasks = LocalSubtasks(
            coordinator, offsets, opened=opened, owner=lambda partition: partition.partition % parallelism
        )
        return Attempt(parallelism, subtasks)

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
        self.store.silent, self.store.writes_first = 1, lost == "answer"
        self.act(step)
        self.store.silent = 0

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
