"""One attempt of a job without Spark: driver and tasks as the engine wires them, that can be killed or frozen anywhere.

Everything that touches a broker is the real code: recovery, enumerator, readers, writers, coordinator, committer.
A killed attempt sends nothing more. A frozen attempt's process stands still (a long pause, a paused machine). It may
continue later, when another attempt has taken over.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.group_offsets import offset_committer
from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.checkpoint.retained import CheckpointRetainer, RetainedStore
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.topics.sink_topics import SinkTopics
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.dataplane.batch import open_consumer, open_producer
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import pool_of_subtask
from sparkapp.model.checkpoint.slots import slot_of
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import CheckpointMissing, CheckpointRefused, KafkaSparkJobError
from sparkapp.model.job.client.config import OfClusters, cluster_config, consumer_config
from sparkapp.model.job.spec import Job
from sparkapp.model.protocol import ProtocolStep, no_hook
from sparkapp.sink.delivery import producer_config, writer_of
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl, leave_nothing_open
from sparkapp.sink.ending.used_ids import UsedIds
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.router import Router
from sparkapp.sink.writer import KafkaWriter
from sparkapp.spark.preflight.job_clusters import JobClusters
from sparkapp.spark.state.retained_state import QueryState
from sparkapp.spark.wiring.start import Parts, group_evidence, recovery_of, start
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.fakes.memory_store import MemoryStore
from tests.support.jobs.commit_counter import CommitCounter
from tests.support.protocol.moments import (
    Ahead,
    DriverMoment,
    End,
    Killed,
    Loss,
    Moment,
    Place,
    Stop,
    TaskMoment,
    TasksLost,
)
from tests.support.protocol.tasks import Groups, Names, Task, Worker, Written, run_task, run_task_to, unwatched
from tests.support.protocol.watched import (
    WatchedClient,
    WatchedControl,
    WatchedEvidence,
    WatchedGroup,
    WatchedStore,
)

_THAWED_SECONDS = 120
_MOST_CHECKPOINTS = 50
WORKERS = 2
"""Worker processes of an attempt, all of one executor; Spark gives a subtask to any of them."""


class SharedStore(MemoryStore):
    """The job's ConfigMap: a write that expects an older version is refused."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def write(self, text: str, *, expected: str, deadline: Deadline | None = None) -> str:
        with self._lock:
            return super().write(text, expected=expected, deadline=deadline)


@dataclass
class Begun:
    """A checkpoint that its tasks write.

    :ivar halted: the last task, which has not pre-committed; None if its worker is lost.
    :ivar last: its subtask and ranges; None if all have pre-committed.
    """

    checkpoint_id: int
    splits: tuple[KafkaPartitionSplit, ...]
    written: list[Written] = field(default_factory=list)
    halted: Task | None = None
    last: tuple[int, tuple[KafkaPartitionSplit, ...]] | None = None


@dataclass
class AttemptRun:
    """The run of an attempt: :meth:`start`, then :meth:`checkpoint` repeatedly, each in a thread of its own.

    :param retained: where completed checkpoints are kept to go back to.
    :param keep: what the transform lets through, by the number in a record's value.
    :param now: gives RFC 3339 times.
    :param aligned: False for a pipeline that shuffles, as far as the sink can see: no source ranges are in its
        transactions, and its documents say so.
    :param workers: how many of its worker processes get tasks. With 1, a producer is used in every checkpoint; with
        more, another worker's producer may take its id over.
    :param stepwise: commits are sent in sequence, so that an attempt can end between two of them.
    :param executors: another way to the brokers, for what runs in executors: readers and writers.
    :param security: of TLS and authentication, the properties of every client.
    :param patience: seconds that a task waits for the brokers before it fails.
    :param opens_ahead: subtasks keep their workers, and open their next producer after a pre-commit (ADR 52).
    :param topics: of the numbers that are let through, where the result names topics; None: all go to the sink's.
    :ivar draining: a stop is asked for.
    """

    job: Job
    store: CheckpointStore
    keep: Callable[[pa.Array], pa.Array]
    dice: random.Random
    now: Callable[[], str]
    retained: RetainedStore = field(default_factory=MemoryRetainedStore)
    aligned: bool = True
    workers: int = WORKERS
    stepwise: bool = True
    executors: str = ""
    security: Mapping[str, str] = field(default_factory=dict)
    patience: float = 30.0
    topics: Callable[[pa.Array], pa.Array] | None = None
    opens_ahead: bool = False
    failure: KafkaSparkJobError | None = None
    recovery: Recovery | None = None
    names: Names = field(default_factory=Names)
    draining: bool = False
    _stop: Stop | None = None
    _retainer: CheckpointRetainer | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _thread: threading.Thread | None = None
    _error: BaseException | None = None
    _frozen: threading.Event = field(default_factory=threading.Event)
    _thawed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        job = self.job
        self._store = WatchedStore(self.store, self._passed)
        self._claim = Claim(self.store, job_uid=job.uid, attempt=job.attempt)
        self._config = consumer_config(job, security=self.security)
        self._shared = cluster_config(job.spec.sink_cluster, security=self.security, client_id=f"attempt-{job.attempt}")
        self._clusters = JobClusters.opened(job, OfClusters(self._config, self._shared))
        self._client = WatchedClient(self._shared)
        self._client.passed = self._passed
        self._group_offsets = offset_committer(job, self._config, self._claim, CommitCounter())
        way = {"bootstrap.servers": self.executors} if self.executors else {}
        shared = {**self._shared, **way}
        self._executors_client = TransactionClient(shared, timeout=self.patience)
        self._readers_config, self._writers_config = {**self._config, **way}, producer_config(job, shared)
        self._workers = self._open_workers()
        self._latest_worker = 0
        self._begun: Begun | None = None
        self._ahead: Ahead | None = None
        self._coordinated = self._ended = self._killed = False
        """Whether it has come to its first checkpoint, has stopped in order, was killed as it stood still."""
        self.two_have_run = False
        """Whether two checkpoints were under way at a time."""

    def _open_workers(self) -> list[Worker]:
        return [self._worker() for _ in range(WORKERS)]

    def _worker(self) -> Worker:
        pool = ProducerPool(
            open_producer=open_producer, client=self._executors_client, config=self._writers_config,
            timeout=self.patience, scope=log_scope(self.job.spec),
        )  # fmt: skip
        return Worker(open_consumer(self._readers_config), pool)

    @property
    def frozen(self) -> bool:
        return self._frozen.is_set()

    @property
    def killed(self) -> bool:
        """By the end of the last act."""
        return isinstance(self._error, Killed)

    @property
    def document(self) -> CheckpointDocument:
        """The last one that this attempt has written, or recovered."""
        return self._coordinator.document

    @property
    def lag(self) -> int:
        self._enumerator.look()
        return sum((self._enumerator.pending or {}).values())

    def start(self, stop: Stop | None = None) -> None:
        """Recovery and everything else up to the first checkpoint."""
        self._act(self._start, stop)

    def checkpoint(
        self, stop: Stop | None = None, *, retry: bool = False, abreast: bool = False, ahead: Ahead | None = None
    ) -> None:
        """Plans, reads, writes and completes one checkpoint; nothing where nothing is new.

        The next one continues what was begun ``ahead``.

        :param retry: a task's first try ends after its pre-commit, as its worker dies, and is tried in another one.
        :param abreast: every task is at the :class:`TaskMoment` where something happens, each in a worker of its own;
            otherwise the last one is, and the others are done.
        :param ahead: the subtasks are so far with the next checkpoint, where the coordinator allows it.
        """
        self._act(lambda: self._checkpoint(retry, abreast, ahead), stop)

    def drain(self, stop: Stop | None = None) -> None:
        """An orderly stop after the last checkpoint."""
        self.draining = True
        self._act(self._drain, stop)

    def thaw(self, *, draining: bool = False) -> None:
        """A frozen attempt continues where it stood, as the real driver does, to the end of its act.

        It then writes checkpoints until a checkpoint is refused or nothing is left to read, and stops.

        :param draining: it was asked to stop while it stood still, so no further checkpoint begins.
        """
        assert self._thread is not None
        self._frozen.clear()
        self._thawed.set()
        self._thread.join(_THAWED_SECONDS)
        assert not self._thread.is_alive(), "an attempt that continued does not end"
        self._thawed.clear()
        self._raise_defects()
        checkpoints = 0
        while not (draining or self._ended or self.failure) and self.lag:
            checkpoints += 1
            assert checkpoints < _MOST_CHECKPOINTS, "an attempt that continued is never refused"
            self.checkpoint()
        if not (self._ended or self.failure):
            self._act(self._stop_when_idle if self._coordinated else lambda: None, None)
        failure = self.failure
        if self._coordinated and (
            (failure and draining) or isinstance(failure, CheckpointMissing | CheckpointRefused)
        ):  # what the driver does with an error that its engine ends with
            leave_nothing_open(self._control, self._claim, self.document, failure)
        self.close()

    def kill(self) -> None:
        """A frozen attempt ends where it stands."""
        assert self._thread is not None
        self._killed = True
        self._thawed.set()
        self._thread.join(_THAWED_SECONDS)
        self.close()

    def close(self) -> None:
        """Ends the clients without a word about transactions."""
        self._stack.close()
        for worker in self._workers:
            worker.end()
        for each in (self._group_offsets, self._executors_client, self._client, self._clusters):
            each.close()

    def _act(self, what: Callable[[], None], stop: Stop | None) -> None:
        assert self.failure is None
        self._stop, self._error = stop, None
        self._ahead = None
        self._store.writes = 0

        def run() -> None:
            try:
                what()
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, name=f"attempt-{self.job.attempt}")
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
        if isinstance(end, Loss):
            self._lose(end)
            if isinstance(place, TaskMoment):
                raise TasksLost
            return
        if end is End.KILL:
            raise Killed
        if end is End.FREEZE:
            self._stand_still()
        if end is not None:
            self._frozen.set()
        if end is End.FREEZE:
            self._thawed.wait()
            if self._killed:
                raise Killed

    def _stand_still(self) -> None:
        """The processes of its tasks, if they are others than its own."""

    def _lose(self, what: Loss) -> None:
        if self._begun is not None:
            self._begun.halted = None
        for number in range(WORKERS) if what is Loss.EXECUTOR else [self._latest_worker]:
            self._workers[number].end()
            self._workers[number] = self._worker()

    def _step(self, step: ProtocolStep, _: int) -> None:
        moment = Moment(step.value)
        if self._ahead is not None and self._ahead.at is moment:
            halt, self._ahead = self._ahead.to, None
            self._begin_ahead(halt)
        self._passed(moment)

    def _start(self) -> None:
        job = self.job
        control = KafkaTransactionControl(job, self._client, self._config, self._claim)
        self._control = WatchedControl(control, self._passed)
        parts = Parts(
            store=self._store, retained=self.retained, control=self._control, ends=control.ends(), client=self._client,
            clusters=self._clusters, config=self._config, now=self.now, warn=lambda *_: None,
            draining=lambda: self.draining, engine=QueryState(),
            evidence=WatchedEvidence(group_evidence(job, self._config), self._passed),
            hook=self._step if self.stepwise else no_hook,
        )  # fmt: skip
        group = WatchedGroup(self._group_offsets, self._passed)
        self.recovery = recovery_of(job, parts)
        started = start(job, parts, self.recovery, group_offsets=group, stack=self._stack)
        self._retainer, self._enumerator = started.retainer, started.enumerator
        self._coordinate(started.coordinator)
        self._coordinated = True
        self._passed(Moment.AFTER_BEGIN)

    def _coordinate(self, coordinator: CheckpointCoordinator | LocalCoordinator) -> None:
        """Makes what is made of the coordinator."""
        assert isinstance(coordinator, CheckpointCoordinator)
        self._coordinator = coordinator

    def _checkpoint(self, retry: bool, abreast: bool, ahead: Ahead | None) -> None:
        begun, self._begun = self._begun, None
        if begun is None:
            splits = self._enumerator.plan()
            if not any(split.size for split in splits):
                self._coordinator.forget_settled()
                return
            self._passed(DriverMoment.BEFORE_PREPARE)
            begun = self._prepared(splits)
            groups = splits_by_subtask(splits, self.job.spec.parallelism)
            tasks = self._tasks_abreast if abreast else partial(self._tasks_in_turn, retry=retry)
            begun.written = tasks(groups, begun.checkpoint_id)
        self._finish_halted(begun)
        self._complete(begun, ahead)

    def _complete(self, begun: Begun, ahead: Ahead | None) -> None:
        pre_committed = PreCommitted(
            checkpoint_id=begun.checkpoint_id, splits=begun.splits, aligned=self.aligned,
            committables=tuple(each.committable for each in begun.written if each.committable is not None),
            stops=dict(self._enumerator.stops), topic_ids=self._enumerator.topic_ids,
            records_out=sum(each.records for each in begun.written),
            records_dead_lettered=sum(each.dead_letters for each in begun.written),
        )  # fmt: skip
        allows_next = ahead is not None and self._coordinator.allows_next(pre_committed)
        self._ahead = ahead if allows_next else None
        self._coordinator.complete(pre_committed, next_runs=allows_next)
        self._enumerator.complete(begun.splits)
        self._offer()

    def _prepared(self, splits: tuple[KafkaPartitionSplit, ...]) -> Begun:
        checkpoint_id = self._coordinator.prepare(splits)
        self._enumerator.begin(splits)
        return Begun(checkpoint_id, splits)

    def _begin_ahead(self, halt: TaskMoment | None) -> None:
        """The next checkpoint, up to where its last task halts; nothing where nothing is new."""
        splits = self._enumerator.plan()
        if not any(split.size for split in splits):
            return
        self.two_have_run = True
        begun = self._begun = self._prepared(splits)
        groups = splits_by_subtask(splits, self.job.spec.parallelism)
        for number, (subtask, ranges) in enumerate(groups.items(), start=1):
            self._latest_worker = self._worker_of(subtask)
            task = self._task(self._latest_worker, subtask, ranges, begun.checkpoint_id)
            if halt is None or number < len(groups):
                begun.written.append(run_task(task, unwatched))
                continue
            written = run_task_to(task, halt)
            if written is None:
                begun.halted, begun.last = task, (subtask, ranges)
            else:
                begun.written.append(written)

    def _worker_of(self, subtask: int) -> int:
        return subtask % WORKERS if self.opens_ahead else self.dice.randrange(self.workers)

    def _finish_halted(self, begun: Begun) -> None:
        """A task whose worker is lost is tried again in another."""
        if begun.last is None:
            return
        subtask, ranges = begun.last
        again = self._task((self._latest_worker + 1) % WORKERS, subtask, ranges, begun.checkpoint_id)
        begun.written.append(run_task(begun.halted or again, unwatched))

    def _stop_when_idle(self) -> None:
        self.draining = True
        if self._begun is None:
            self._coordinator.forget_settled()
        self._drain()

    def _end_tasks(self) -> None:
        if self._begun is not None:
            self._checkpoint(retry=False, abreast=False, ahead=None)
        for worker in self._workers:
            worker.pool.flush_plain(self.patience)

    def _drain(self) -> None:
        self._end_tasks()
        self._passed(DriverMoment.BEFORE_DRAIN)
        assert self._retainer is not None
        self._retainer.close(last=self.document)
        self._write_drained()
        self._passed(DriverMoment.AFTER_DRAIN)
        self._ended = True

    def _write_drained(self) -> None:
        self._coordinator.drained()

    def _offer(self) -> None:
        assert self._retainer is not None
        self._retainer.offer(self.document)

    def _tasks_in_turn(self, groups: Groups, checkpoint_id: int, *, retry: bool) -> list[Written]:
        """Something may happen to the last task."""
        written: list[Written] = []
        for subtask, ranges in groups.items():
            worker = self._worker_of(subtask)
            if retry:
                run_task(self._task(worker, subtask, ranges, checkpoint_id), unwatched)
                worker = (worker + 1) % WORKERS
            is_last = len(written) == len(groups) - 1
            self._latest_worker = worker
            if is_last:
                self._passed(Moment.BEFORE_FLUSH)
            try:
                task = self._task(worker, subtask, ranges, checkpoint_id)
                written.append(run_task(task, self._passed if is_last else unwatched))
            except TasksLost:
                again = self._task((worker + 1) % WORKERS, subtask, ranges, checkpoint_id)
                written.append(run_task(again, unwatched))
        return written

    def _tasks_abreast(self, groups: Groups, checkpoint_id: int) -> list[Written]:
        """Something happens to all of them at once: they have come equally far then."""
        assert len(groups) <= WORKERS, "a worker has one task at a time"
        assert self._stop is not None
        moment = self._stop[0]
        assert isinstance(moment, TaskMoment)

        def begin() -> list[Task]:
            numbered = enumerate(groups.items())
            return [self._task(worker, subtask, ranges, checkpoint_id) for worker, (subtask, ranges) in numbered]

        tasks = begin()
        reached = [run_task_to(task, moment) for task in tasks]
        assert None in reached, f"no task comes to {moment}"
        try:
            self._passed(moment)
        except TasksLost:
            return [run_task(task, unwatched) for task in begin()]
        return [run_task(task, unwatched) if each is None else each for task, each in zip(tasks, reached, strict=True)]

    def _names_in_reach(self) -> list[str]:
        """Where a restart would look that may not list transactions: by the document that is written now."""
        document, spec = self.document, self.job.spec
        ids = UsedIds(
            prefixes=[document.prefix], hint=document.hint, slots=document.slots, parallelism=spec.parallelism,
            pool_size=spec.sink.producers_pool_size,
        )  # fmt: skip
        return list(ids.walk())

    def _task(self, worker: int, subtask: int, ranges: tuple[KafkaPartitionSplit, ...], checkpoint_id: int) -> Task:
        spec = self.job.spec
        process = self._workers[worker]
        writer = writer_of(
            spec.sink, pool=process.pool, subtask=subtask, next_free=self._coordinator.next_free,
            timeout=self.patience, router=self._router(),
        )  # fmt: skip
        writer.notify_committed(self._coordinator.settled_id)
        writer.begin(checkpoint_id)
        if writer.transactional_id is not None:
            self.names.note(subtask, writer.transactional_id, self._names_in_reach())
        if any(split.size for split in ranges):
            writer.prepare()
        yield TaskMoment.BEGUN
        for number, batch in enumerate(process.reader.read(ranges, stall_timeout=self.patience)):
            if number == 0:
                yield TaskMoment.READ
            self._write(writer, batch.column("value"))
            if self.opens_ahead:
                writer.note_start()
        yield TaskMoment.PRODUCED
        metadata = offset_mark(self.job.uid, self.job.attempt, checkpoint_id)
        inside = self.aligned and self._coordinator.mode is OffsetCommitMode.IN_TRANSACTION
        committable = writer.pre_commit(
            ranges if self.aligned else (), group_id=spec.source.group_id if inside else None, metadata=metadata
        )
        if self.opens_ahead and committable is not None:
            writer.prepare_next(checkpoint_id + 1)
            ids = pool_of_subtask(
                spec.sink.transaction_naming, prefix=spec.sink.transactional_id_prefix, subtask=subtask,
                parallelism=spec.parallelism, pool_size=spec.sink.producers_pool_size,
                next_free=self._coordinator.next_free,
            )  # fmt: skip
            self.names.note(subtask, ids[slot_of(checkpoint_id + 1, len(ids))], self._names_in_reach())
        return Written(committable, writer.records, writer.dead_letters)

    def _router(self) -> Router | None:
        if self.topics is None:
            return None
        return Router(self.job.spec, partitions_of=SinkTopics(self._shared).partitions)

    def _write(self, writer: KafkaWriter, values: pa.Array) -> None:
        """What the transform lets through to its topics; the rest is gone, or a dead letter where the job has these."""
        letters = self.job.spec.record_errors.dead_letter_topic
        numbers = pc.cast(pc.cast(values, pa.string()), pa.int64())
        good = self.keep(numbers)
        kept = values.filter(good)
        if len(kept):
            topics = {} if self.topics is None else {"topic": self.topics(numbers.filter(good))}
            writer.write(pa.RecordBatch.from_pydict({"value": kept, **topics}))
        bad = values.filter(pc.invert(good))
        if letters and len(bad):
            writer.write_dead_letters(pa.RecordBatch.from_pydict({"value": bad}), topic=letters)
