"""One attempt of a job without Spark: driver and tasks as the engine wires them, that can be killed or frozen anywhere.

Everything that touches a broker is the real code: recovery, enumerator, readers, writers, coordinator, committer.
Killed means that nothing more is said to anybody; frozen, that the process stands still (a long pause, a paused
machine) and may go on later, when another attempt has long taken over.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sparkapp.checkpoint.coordinator import CheckpointCoordinator, PreCommitted
from sparkapp.checkpoint.recovery import Recovery, recover
from sparkapp.checkpoint.retained import CheckpointRetainer, MemoryRetainedStore, RetainedStore
from sparkapp.checkpoint.store import CheckpointStore, MemoryStore, Stored
from sparkapp.checkpoint.transaction_control import KafkaTransactionControl
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.client_config import consumer_config
from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job import Job
from sparkapp.model.protocol import ProtocolStep, no_hook
from sparkapp.model.retention import Retention
from sparkapp.model.semantic import OffsetCommitMode
from sparkapp.model.settlement import offset_mark
from sparkapp.model.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.native.batch import open_consumer, open_producer
from sparkapp.sink.committer import KafkaCommitter, Settled
from sparkapp.sink.open_transactions import OpenTransactions
from sparkapp.sink.producer_pool import ProducerPool
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.sink.writer import KafkaWriter, producer_config
from sparkapp.source.cluster import KafkaClusterView
from sparkapp.source.enumerator import enumerator_of
from sparkapp.source.offset_committer import OffsetCommitter
from tests.support.commit_counter import CommitCounter

WORKERS = 2
"""Worker processes of a life; Spark gives a subtask to any of them."""


class Moment(StrEnum):
    """Where a life may end: the steps of a start, and of a checkpoint (:class:`ProtocolStep`'s names)."""

    AFTER_CLAIM = "after-claim"
    AFTER_SETTLE = "after-settle"
    AFTER_ABORT = "after-abort"
    AFTER_BEGIN = "after-begin"
    BEFORE_FLUSH = "before-flush"
    AFTER_FLUSH = "after-flush"
    AFTER_WRITE = "after-write"
    BETWEEN_COMMITS = "between-commits"
    AFTER_COMMITS = "after-commits"


OF_A_START = tuple(Moment)[:4]
OF_A_CHECKPOINT = tuple(Moment)[4:]


class TaskMoment(StrEnum):
    """Further places where something may happen: within the last task of a checkpoint, whose others are done."""

    BEGUN = "task-begun"
    """Nothing is read yet."""
    READ = "task-has-read"
    """The first records are there, none is written."""
    PRODUCED = "task-has-produced"
    """Every record is with the client, nothing is acknowledged for sure."""


class StoreWrite(NamedTuple):
    """Another place where a life may end: a write of the document, counted from 1 in a start or a checkpoint.

    :param effective: once it has taken effect, else before it was sent.
    """

    number: int
    effective: bool


Place = Moment | TaskMoment | StoreWrite


class End(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    STRAND = "strand"
    """It goes on, and nobody waits for it: whatever it was part of goes on without it."""


Incident = Callable[[], End | None]
"""Breaks something around the life, which goes on unless the answer is how it ends."""
Stop = tuple[Place, End | Incident]


class Killed(BaseException):
    """Ends the thread that is the life's process; nothing catches it."""


class SharedStore(MemoryStore):
    """The job's ConfigMap: one at a time, whoever comes too late is refused."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def write(self, text: str, *, expected: str) -> str:
        with self._lock:
            return super().write(text, expected=expected)


class _WatchedStore:
    def __init__(self, store: CheckpointStore, passed: Callable[[Place], None]) -> None:
        self._store, self._passed = store, passed
        self._claimed = False
        self.writes = 0

    def read(self) -> Stored:
        return self._store.read()

    def write(self, text: str, *, expected: str) -> str:
        self.writes += 1
        self._passed(StoreWrite(self.writes, effective=False))
        version = self._store.write(text, expected=expected)
        self._passed(StoreWrite(self.writes, effective=True))
        if not self._claimed:
            self._claimed = True
            self._passed(Moment.AFTER_CLAIM)
        return version


class _WatchedControl:
    def __init__(self, control: KafkaTransactionControl, passed: Callable[[Place], None]) -> None:
        self._control, self._passed = control, passed

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        settled = self._control.settle(document)
        self._passed(Moment.AFTER_SETTLE)
        return settled

    def abort_lingering(self, document: CheckpointDocument) -> int:
        aborted = self._control.abort_lingering(document)
        self._passed(Moment.AFTER_ABORT)
        return aborted


@dataclass
class Life:
    """Made for one attempt; :meth:`start`, then :meth:`checkpoint` again and again, each in a thread of the life's own.

    :param retained: where completed checkpoints are kept to go back to.
    :param keep: what the transform lets through, by the number in a record's value.
    :param now: gives RFC 3339 times.
    :param stepwise: commits go one after the other, so that a life can end between two of them.
    :param executors: another way to the brokers, for what runs in executors: readers and writers.
    :param patience: seconds that a task waits for the brokers before it fails.
    :param shuffles: transactions have no source ranges, as where a transform shuffles.
    """

    job: Job
    store: CheckpointStore
    keep: Callable[[pa.Array], pa.Array]
    dice: random.Random
    now: Callable[[], str]
    retained: RetainedStore = field(default_factory=MemoryRetainedStore)
    stepwise: bool = True
    executors: str = ""
    patience: float = 30.0
    shuffles: bool = False
    failure: KafkaSparkJobError | None = None
    recovery: Recovery | None = None
    _stop: Stop | None = None
    _retainer: CheckpointRetainer | None = None
    _thread: threading.Thread | None = None
    _error: BaseException | None = None
    _frozen: threading.Event = field(default_factory=threading.Event)
    _thawed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        job = self.job
        self._store = _WatchedStore(self.store, self._passed)
        self._config = consumer_config(job, password="")
        self._shared = {"bootstrap.servers": job.spec.kafka.bootstrap_servers, "client.id": f"life-{job.attempt}"}
        self._cluster = KafkaClusterView(self._config, read_committed=True)
        self._client = TransactionClient(self._shared)
        self._group_offsets = OffsetCommitter(self._config, CommitCounter())
        way = {"bootstrap.servers": self.executors} if self.executors else {}
        shared = {**self._shared, **way}
        self._readers = [open_consumer({**self._config, **way}) for _ in range(WORKERS)]
        self._executors_client = TransactionClient(shared, timeout=self.patience)
        self._pools = [
            ProducerPool(
                open_producer=open_producer, client=self._executors_client, config=producer_config(job, shared),
                timeout=self.patience,
            )
            for _ in range(WORKERS)
        ]  # fmt: skip

    @property
    def frozen(self) -> bool:
        return self._frozen.is_set() and not self._thawed.is_set()

    @property
    def lag(self) -> int:
        return self._enumerator.measure_lag()

    def start(self, stop: Stop | None = None) -> None:
        """Recovery and everything else up to the first checkpoint."""
        self._act(self._start, stop)

    def checkpoint(self, stop: Stop | None = None, *, retry: bool = False) -> None:
        """Plans, reads, writes and completes one checkpoint; nothing where nothing is new.

        :param retry: a task's first try ends after its pre-commit, as its worker dies, and is tried in another one.
        """
        self._act(lambda: self._checkpoint(retry), stop)

    def drain(self) -> None:
        """An orderly stop after the last checkpoint."""
        self._act(self._drain, None)

    def thaw(self) -> None:
        """A frozen life goes on from where it stood, and then ends."""
        assert self._thread is not None
        self._thawed.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "a life that went on does not end"
        self._raise_defects()
        self.close()

    def close(self) -> None:
        """Ends the clients without a word about transactions."""
        if self._retainer is not None:
            self._retainer.close()
        clients = (self._executors_client, self._client, self._cluster)
        for one in (*self._pools, *self._readers, self._group_offsets, *clients):
            one.close()

    def _act(self, what: Callable[[], None], stop: Stop | None) -> None:
        assert self.failure is None
        self._stop, self._error = stop, None
        self._store.writes = 0

        def run() -> None:
            try:
                what()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, name=f"life-{self.job.attempt}")
        self._thread.start()
        while self._thread.is_alive() and not self._frozen.is_set():
            self._thread.join(0.002)
        if not self._frozen.is_set():
            self._raise_defects()

    def _raise_defects(self) -> None:
        """An error of the tree ends an attempt; anything else is a defect."""
        if isinstance(self._error, KafkaSparkJobError):
            self.failure = self._error
        elif self._error is not None and not isinstance(self._error, Killed):
            raise self._error

    def _passed(self, place: Place) -> None:
        if self._stop is None or self._stop[0] != place:
            return
        what, self._stop = self._stop[1], None
        end = what if isinstance(what, End) else what()
        if end is End.KILL:
            raise Killed
        if end is not None:
            self._frozen.set()
        if end is End.FREEZE:
            self._thawed.wait()

    def _step(self, step: ProtocolStep, _: int) -> None:
        self._passed(Moment(step.value))

    def _start(self) -> None:
        job = self.job
        control = _WatchedControl(KafkaTransactionControl(job, self._client, self._config), self._passed)
        self.recovery = recovery = recover(
            job, store=self._store, control=control, now=self.now(), retained=self.retained
        )
        self._retainer = CheckpointRetainer(
            self.retained, job_uid=job.uid, retention=Retention(), latest=recovery.document.checkpoint_id,
            tell=lambda *event: None,
        )  # fmt: skip
        self._enumerator = enumerator_of(job.spec, self._cluster, warn=lambda *_: None)
        self._enumerator.start(None if recovery.first_start else recovery.document.offsets)
        self._coordinator = CheckpointCoordinator(
            job, store=self._store, document=recovery.document, version=recovery.version,
            pre_commits=OpenTransactions(self._client), committer=KafkaCommitter(self._client, None),
            group_offsets=self._group_offsets, now=self.now,
            hook=self._step if self.stepwise else no_hook,
        )  # fmt: skip
        self._coordinator.begin(self._enumerator.unplanned())
        self._passed(Moment.AFTER_BEGIN)
        self._settled = recovery.document.checkpoint_id

    def _checkpoint(self, retry: bool) -> None:
        splits = self._enumerator.plan()
        if not any(split.size for split in splits):
            self._coordinator.forget_settled()
            return
        checkpoint_id = self._coordinator.document.checkpoint_id + 1
        self._coordinator.prepare(splits)
        groups = splits_by_subtask(splits, self.job.spec.parallelism)
        committables: list[KafkaCommittable | None] = []
        records = 0
        for subtask, ranges in groups.items():
            worker = self.dice.randrange(WORKERS)
            if retry:
                self._task(worker, subtask, ranges, checkpoint_id, _unwatched)
                worker = (worker + 1) % WORKERS
            is_last = len(committables) == len(groups) - 1
            if is_last:
                self._passed(Moment.BEFORE_FLUSH)
            passed = self._passed if is_last else _unwatched
            committable, written = self._task(worker, subtask, ranges, checkpoint_id, passed)
            committables.append(committable)
            records += written
        self._coordinator.complete(
            PreCommitted(
                checkpoint_id=checkpoint_id, splits=splits, aligned=not self.shuffles,
                committables=tuple(one for one in committables if one is not None), records_out=records,
            )
        )  # fmt: skip
        self._enumerator.complete(splits)
        self._settled = checkpoint_id
        self._offer()

    def _drain(self) -> None:
        self._coordinator.drained()
        self._offer()

    def _offer(self) -> None:
        assert self._retainer is not None
        self._retainer.offer(self._coordinator.document)

    def _task(
        self,
        worker: int,
        subtask: int,
        ranges: tuple[KafkaPartitionSplit, ...],
        checkpoint_id: int,
        passed: Callable[[Place], None],
    ) -> tuple[KafkaCommittable | None, int]:
        spec = self.job.spec
        writer = KafkaWriter(
            spec.sink, pool=self._pools[worker], subtask=subtask, parallelism=spec.parallelism,
            next_free=self._coordinator.next_free, timeout=self.patience,
        )  # fmt: skip
        writer.notify_committed(self._settled)
        writer.begin(checkpoint_id)
        if any(split.size for split in ranges):
            writer.prepare()
        passed(TaskMoment.BEGUN)
        for number, batch in enumerate(self._readers[worker].read(ranges, stall_timeout=self.patience)):
            if number == 0:
                passed(TaskMoment.READ)
            values = batch.column("value")
            kept = values.filter(self.keep(pc.cast(pc.cast(values, pa.string()), pa.int64())))
            if len(kept):
                writer.write(pa.RecordBatch.from_pydict({"value": kept}))
        passed(TaskMoment.PRODUCED)
        metadata = offset_mark(self.job.uid, self.job.attempt, checkpoint_id)
        inside = self._coordinator.mode is OffsetCommitMode.IN_TRANSACTION and not self.shuffles
        ranges = () if self.shuffles else ranges
        committable = writer.pre_commit(ranges, group_id=spec.source.group_id if inside else None, metadata=metadata)
        return committable, writer.records


def _unwatched(_: Place) -> None:
    """Of tasks in which nothing happens."""
