"""Flink's operator test harness for our sink: what driver and task do for one subtask, without Spark.

A harness is an attempt of a subtask, with a producer pool of its own as its worker process has. Leaving it unclosed is
a crash: its producers stay alive as zombies until the test ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.dataplane.batch import open_producer
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import NO_SLOTS, SlotBounds, TransactionNaming
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import FIRST_HINT, TransactionalIdHint
from sparkapp.sink.checkpoint_commits import CheckpointCommits
from sparkapp.sink.committer import KafkaCommitter, MarkedOffsets, Settled
from sparkapp.sink.delivery import producer_config, writer_of
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.ending.proven_ends import ProvenEnds
from sparkapp.sink.ending.used_ids import UsedIds
from sparkapp.sink.pre_commit_check import PreCommitCheck
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.producers.reusable_producers import ReusableProducers
from sparkapp.sink.router import Router
from tests.support.fakes.memory_store import MemoryStore

JOB_UID = "uid"
_OPEN_SECONDS = 2.0
"""A fenced producer's transaction never opens; the rest do within milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a checkpoint document remembers, as far as the sink is concerned.

    :param pending: committables that the checkpoint makes final and that are not known to be committed.
    """

    checkpoint_id: int = 0
    hint: TransactionalIdHint | None = None
    slots: SlotBounds = NO_SLOTS
    pending: tuple[KafkaCommittable, ...] = ()
    prefix: str = ""


def merged(states: Iterable[State]) -> State:
    """The state of a checkpoint over all subtasks; only subtask 0's hint exists."""
    every = list(states)
    return State(
        checkpoint_id=max(each.checkpoint_id for each in every),
        hint=next((each.hint for each in every if each.hint is not None), None),
        slots=every[0].slots,
        pending=tuple(committable for each in every for committable in each.pending),
        prefix=every[0].prefix,
    )


def mark_starts(bootstrap: str, group_id: str, splits: Iterable[KafkaPartitionSplit], checkpoint_id: int) -> None:
    """The marks that the coordinator leaves before the first range of a partition is written."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group_id})
    mark = offset_mark(JOB_UID, 1, checkpoint_id)
    consumer.commit(offsets=[ClientPartition(*each.partition, each.start, mark) for each in splits], asynchronous=False)
    consumer.close()


@dataclass
class Harness:
    """``W(subtask, parallelism)`` of the conformance catalogue.

    :param group_id: with one, source offsets go into the transactions and evidence them.
    """

    bootstrap: str
    topic: str
    prefix: str
    subtask: int = 0
    parallelism: int = 1
    pool_size: int = 5
    naming: TransactionNaming = TransactionNaming.HINT
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    group_id: str | None = None
    transaction_timeout: int = 60
    never: bool = False
    keeps: bool = False
    timeout: float = 30.0
    properties: dict[str, str] = field(default_factory=dict)
    router: Router | None = None
    settled: tuple[Settled, ...] = ()
    aborted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sink = Sink(
            topic=self.topic,
            delivery_guarantee=self.delivery_guarantee,
            transactional_id_prefix=self.prefix,
            transaction_naming=self.naming,
            producers_pool_size=self.pool_size,
            transaction_timeout_seconds=0 if self.never else self.transaction_timeout,
            properties=self.properties,
        )
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=self.bootstrap),
            source=Source(topics=("in",), group_id=self.group_id or "group"),
            transform=Transform(),
            sink=sink,
            parallelism=self.parallelism,
        )
        shared = {"bootstrap.servers": self.bootstrap, "client.id": "harness"}
        job = Job(namespace="ns", name="job", uid=JOB_UID, generation=1, attempt=1, spec=spec)
        self.sink = sink
        self.job = job
        self.client = TransactionClient(shared, timeout=self.timeout)
        self.pool = ProducerPool(
            open_producer=open_producer, client=self.client, config=producer_config(job, shared), timeout=self.timeout,
            scope=log_scope(job.spec),
        )  # fmt: skip
        self._shared = shared
        self._pending: dict[int, KafkaCommittable] = {}
        self._labels: dict[int, int] = {}
        self.reusable = ReusableProducers()
        self._placed: set[TopicPartition] = set()

    def committer(self, *, before: Callable[[], None] = lambda: None, **options: object) -> KafkaCommitter:
        """A committer of the driver's kind; the evidence asks the harness's group."""
        evidence = None
        if self.group_id:
            offsets = GroupOffsetsEvidence(self._shared, group_id=self.group_id, timeout=10)
            evidence = MarkedOffsets(offsets=offsets, job_uid=JOB_UID, before=before)
        return KafkaCommitter(self.client, evidence, timeout=self.timeout, **options)  # type: ignore[arg-type]

    def open(self, state: State | None = None) -> Harness:
        """Starts the attempt: settles what the state names, aborts what lingers (subtask 0 does so for the job)."""
        restored = state or State()
        self.restored_hint = restored.hint or FIRST_HINT
        self._coordinator = self._coordinate(restored)
        if self.subtask == 0:
            recovering = self.committer(describer=self.client, restored=True, before=lambda: self._abort(restored))
            self.settled = recovering.commit(restored.pending)
            self._abort(restored)
        self.writer = writer_of(
            self.sink,
            pool=self.pool,
            subtask=self.subtask,
            next_free=self._coordinator.next_free,
            router=self.router,
            timeout=self.timeout,
        )
        self._checkpoint_id = restored.checkpoint_id + 1
        self._begun = False
        if self.keeps:
            self.writer.notify_committed(restored.checkpoint_id, reusable={})
        return self

    def restore(self, state: State) -> Harness:
        """:meth:`open` from a checkpoint."""
        return self.open(state)

    def write(self, *values: int | str) -> None:
        """:meth:`write_batch` of values alone."""
        self.write_batch(pa.RecordBatch.from_pydict({"value": [str(value).encode() for value in values]}))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Writes records of the current checkpoint; its transaction is then open at the coordinator.

        The client sends in the background: without the wait, a test that kills this attempt would now and then leave
        nothing behind to be found.
        """
        first = self.writer.records == 0 or not self._begun
        self._begin()
        self.writer.write(batch)
        if first:
            self._await_open()
            if self.keeps:
                self.writer.note_start()

    def snapshot(self, label: int, ranges: tuple[KafkaPartitionSplit, ...] = ()) -> State:
        """Pre-commits the current transaction as checkpoint ``label``; what follows belongs to the next one."""
        self._begin()
        mark = offset_mark(JOB_UID, 1, self._checkpoint_id)
        self._place([split for split in ranges if split.partition not in self._placed])
        committable = self.writer.pre_commit(ranges, group_id=self.group_id, metadata=mark)
        if committable is not None:
            self._pending[self._checkpoint_id] = replace(committable, attempt=1)
        self._labels[label] = self._checkpoint_id
        document = self._document()
        state = State(
            checkpoint_id=self._checkpoint_id,
            hint=document.hint if self.subtask == 0 else None,
            slots=document.slots,
            pending=tuple(self._pending.values()),
            prefix=self.prefix,
        )
        self._checkpoint_id += 1
        self._begun = False
        return state

    def notify(self, label: int) -> tuple[Settled, ...]:
        """Checkpoint ``label`` is complete: commits its transaction and those before it."""
        checkpoint_id = self._labels[label]
        due = [self._pending.pop(each) for each in sorted(self._pending) if each <= checkpoint_id]
        settled = self.committer().commit(due)
        for each in settled:
            if each.at_once:
                self.reusable.add(each.committable)
        reusable = self.reusable.of_subtask(self.subtask) if self.keeps else None
        self.writer.notify_committed(checkpoint_id, reusable=reusable)
        return settled

    def close(self) -> None:
        """An orderly end: the unfinished checkpoint is aborted, every client is closed."""
        self.writer.close()
        self.kill()

    def kill(self) -> None:
        """Ends the clients without a word to the broker about transactions."""
        self.pool.close()
        self.client.close()

    def _coordinate(self, restored: State) -> CheckpointCoordinator:
        """The driver's coordinator of this attempt, for the hint and the slots of its documents."""
        document = CheckpointDocument(
            job_uid=JOB_UID, attempt=1, checkpoint_id=restored.checkpoint_id, created_at="", parallelism=1,
            prefix=self.prefix, hint=self.restored_hint, slots=restored.slots,
        )  # fmt: skip
        coordinator = CheckpointCoordinator(
            self.job, writer=DocumentWriter(MemoryStore(), document, "0"),
            commits=CheckpointCommits(
                PreCommitCheck(self.client), self.committer(), ProvenEnds(self.client, log_scope(self.job.spec))
            ),
            group_offsets=None, now=lambda: "",
        )  # fmt: skip
        coordinator.begin(())
        return coordinator

    def _document(self) -> CheckpointDocument:
        """What the driver writes for the current checkpoint; the committables are in the test's hands."""
        self._coordinator.complete(
            PreCommitted(checkpoint_id=self._checkpoint_id, splits=(), aligned=True, committables=(), records_out=0)
        )
        return self._coordinator.document

    def _begin(self) -> None:
        if not self._begun:
            self.writer.begin(self._checkpoint_id)
            self._begun = True

    def _place(self, splits: list[KafkaPartitionSplit]) -> None:
        if splits and self.group_id is not None:
            mark_starts(self.bootstrap, self.group_id, splits, self._checkpoint_id - 1)
            self._placed |= {split.partition for split in splits}

    def _await_open(self) -> None:
        """Ends early when the transaction is open; a fenced one never is, and later steps say so."""
        transactional_id = self.writer.transactional_id
        deadline = Deadline.after(_OPEN_SECONDS)
        while transactional_id is not None and not deadline.expired:
            described = self.client.describe([transactional_id]).get(transactional_id)
            if described is not None and described.state.open:
                return
            time.sleep(0.005)

    def _abort(self, state: State) -> None:
        previous = [state.prefix] if state.prefix and state.prefix != self.prefix else []
        ids = UsedIds(
            prefixes=[self.prefix, *previous], hint=self.restored_hint, slots=state.slots,
            parallelism=self.parallelism, pool_size=self.pool_size,
        )  # fmt: skip
        self.aborted += abort_lingering(self.client, ids)
