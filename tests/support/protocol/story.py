"""A job's story over many attempts, and its oracle: what a reader of committed records sees in the end.

Driven by tests that choose the steps, by a hypothesis state machine and by the soak, which throws dice.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pyarrow as pa
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import TransactionNaming, local_id, offsets_id
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.checkpoint.retained_codec import decode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.rules.engine_rules import MIN_CONTINUOUS_POOL
from sparkapp.model.job.sections.kafka import SINK_CLUSTER, KafkaCluster
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.sections.sink import OnTransactionLost, Sink, TopicFrom
from sparkapp.model.job.sections.source import OnDataLoss, Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Engine, Job, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.kafka import visibility
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.protocol.attempt import WORKERS, AttemptRun, SharedStore
from tests.support.protocol.continuous_run import ContinuousRun
from tests.support.protocol.local_pace_run import LocalPaceRun
from tests.support.protocol.moments import Ahead, End, Stop
from tests.support.protocol.subtask_process import MODULUS, SILENT, TRANSFORM, SubtaskProcess
from tests.support.protocol.tasks import Names

UID = "uid-of-the-story"
_PRODUCE_SECONDS = 120.0
_COMMIT_MILLIS, _RECORD_MILLIS = 20, 200
"""Of the local pace."""
_NO_LIMIT = Source(topics=("",), group_id="").max_offsets_per_checkpoint
"""There are no plans to limit in the local pace."""
_STRAY_SECONDS = 60.0
_TRIES = 10
Answer = TypeVar("Answer")


def patiently(ask: Callable[[], Answer]) -> Answer:
    """The answer to a question of the test's own, asked again while the broker is away."""
    for _ in range(_TRIES):
        try:
            return ask()
        except (KafkaSparkJobError, KafkaException, AssertionError, TimeoutError):
            time.sleep(1)
    return ask()


@dataclass
class Story:
    """One job.

    :param source: topic of the records, ``sink`` where they go, both made by the caller.
    :param prefix: transactional id prefix and consumer group of the job alone.
    :param timeout: seconds until the broker aborts a transaction; a short one is one more fault.
    :param never: the broker aborts none, whatever the seconds.
    :param naming: of the transactional ids, at first.
    :param aligned: False for a pipeline that shuffles; see :class:`AttemptRun`.
    :param workers: of each attempt that get tasks; see :class:`AttemptRun`.
    :param lost_policy: from the next attempt on.
    :param per_checkpoint: most records of one checkpoint.
    :param store: the job's document; its checkpoints are kept in ``retained``.
    :param restore: what the job's resource asks for, from the next attempt on.
    :param stateless: likewise, the attempt that was first to begin without the checkpoint.
    :param start_snapshot: likewise. :param snapshots: checkpoints that the operator adds to the description.
    :param data_loss: the source's policy, from the next attempt on.
    :param cluster_id: that the job's resource names, from the next attempt on; ``sink_cluster_id`` that of its sink.
    :param executors: the way to the brokers that the next attempt's executors have; empty: the driver's.
    :param listener: the address that the job names, if another one than the test's own ``bootstrap``.
    :param sink_bootstrap: of the cluster that has the sink and the transactions, with ``client``; empty: the source's.
    :param security: of TLS and authentication, the properties of the job's clients.
    :param odd: topic of the odd numbers, by the result's column ``topic``; empty: all are in ``sink``.
    :param letters: topic of the dead letters, which are what the transform leaves out otherwise.
    :param patience: seconds that a task waits for the brokers before it fails, from the next attempt on.
    :param opens_ahead: see :class:`AttemptRun`.
    :param properties: of the sink, from the next attempt on.
    :param most_starts: until the end of the source, once nothing more happens.
    :param engine: of the next attempt.
    :param local_pace: of the next attempt, if its engine is the continuous one.
    """

    bootstrap: str
    source: str
    sink: str
    prefix: str
    client: TransactionClient
    timeout: int = 60
    never: bool = False
    partitions: int = 3
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    naming: TransactionNaming = TransactionNaming.HINT
    aligned: bool = True
    workers: int = WORKERS
    lost_policy: OnTransactionLost = OnTransactionLost.REPLAY
    per_checkpoint: int = 40
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    store: CheckpointStore = field(default_factory=SharedStore)
    retained: RetainedStore = field(default_factory=MemoryRetainedStore)
    restore: Restore = field(default_factory=Restore)
    stateless: int = 0
    start_snapshot: str = ""
    snapshots: dict[str, str] = field(default_factory=dict)
    cluster_id: str = ""
    sink_cluster_id: str = ""
    data_loss: OnDataLoss = OnDataLoss.FAIL
    uid: str = UID
    startup: StartupMode = StartupMode.EARLIEST
    executors: str = ""
    listener: str = ""
    sink_bootstrap: str = ""
    security: dict[str, str] = field(default_factory=dict)
    odd: str = ""
    letters: str = ""
    patience: float = 30.0
    opens_ahead: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    most_starts: int = 20
    engine: Engine = Engine.MICRO_BATCH
    local_pace: bool = False
    recovery: Recovery | None = None
    """Of the latest attempt that has recovered."""
    failure: KafkaSparkJobError | None = None
    """The latest attempt's error, if it ended with an error."""
    failures: list[KafkaSparkJobError] = field(default_factory=list)
    """Of every attempt that ended with an error, those that continued too late left out."""
    history: list[str] = field(default_factory=list)
    """What happened, for a person who reads a failure."""
    two_have_run: bool = False
    """Whether an attempt had two checkpoints under way at a time."""
    lost: list[int] = field(default_factory=list)
    """What readers do not see in the end."""

    def __post_init__(self) -> None:
        self._time = datetime(2026, 11, 21, 8, tzinfo=UTC)
        self._attempt = 0
        self._produced = 0
        self._silent: set[int] = set()
        self._partitions: dict[int, list[int]] = defaultdict(list)
        self._again: Counter[int] = Counter()
        self._prefix = self.prefix
        self._prefixes = [self.prefix]
        self._run: AttemptRun | None = None
        self._frozen: list[AttemptRun] = []
        self._strays: list[SubtaskProcess] = []
        self._names: list[tuple[int, Names]] = []
        self._thawed = self._superseded = self._had_local_pace = self._delayed = False
        self._producer = idempotent_producer(self.bootstrap)

    @property
    def running(self) -> bool:
        return self._run is not None

    @property
    def runs_continuously(self) -> bool:
        """Whether the running attempt is of the continuous engine."""
        return isinstance(self._run, ContinuousRun)

    @property
    def runs_locally(self) -> bool:
        """Whether the running attempt has the local pace."""
        return isinstance(self._run, LocalPaceRun)

    @property
    def frozen(self) -> int:
        return len(self._frozen)

    @property
    def strays(self) -> int:
        """Frozen subtasks whose driver is dead."""
        return len(self._strays)

    @property
    def attempts(self) -> int:
        """How many there have been."""
        return self._attempt

    def produce(self, count: int, *, silent: Collection[int] = ()) -> None:
        """The next numbers, in sequence round the partitions; a large step leaves some partitions without records.

        :param silent: partitions of which the transform leaves out every one of these.
        """
        for number in range(self._produced, self._produced + count):
            partition, is_silent = number // 3 % self.partitions, False
            if partition in silent:
                is_silent = True
                self._silent.add(number)
            self._partitions[partition].append(number)
            self._producer.produce(self.source, str(number), SILENT if is_silent else None, partition=partition)
        assert self._producer.flush(_PRODUCE_SECONDS) == 0
        self._produced += count

    def start(self, parallelism: int, pool_size: int = 2, stop: Stop | None = None, *, stepwise: bool = True) -> None:
        """The next attempt, whatever became of the previous attempt."""
        self.kill()
        self._attempt += 1
        self._thawed = False
        if self.engine is Engine.CONTINUOUS:
            pool_size = max(pool_size, MIN_CONTINUOUS_POOL)
        job = self._job(parallelism, pool_size, self.engine, local_pace=self.local_pace)
        self._had_local_pace |= job.spec.has_local_pace
        run = _kind_of_run(job)(
            job, self.store, self._keep, random.Random(self.dice.random()), self._now,
            retained=self.retained, aligned=self.aligned, workers=self.workers, stepwise=stepwise,
            executors=self.executors, security=self.security, patience=self.patience,
            topics=self._topics if self.odd else None, opens_ahead=self.opens_ahead,
        )  # fmt: skip
        self._names.append((self._attempt, run.names))
        pace = " with the local pace" if job.spec.has_local_pace else ""
        self._record(f"start {self.engine}{pace} P={parallelism} pool={pool_size} naming={self.naming}", stop)
        run.start(stop)
        self.recovery = run.recovery or self.recovery
        self._after(run, ended=_ends(stop))

    def checkpoint(
        self,
        stop: Stop | None = None,
        *,
        retry: bool = False,
        abreast: bool = False,
        ahead: Ahead | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """One checkpoint of the running attempt; with an end the attempt ends there, with an incident it may continue.

        See :meth:`tests.support.protocol.attempt.AttemptRun.checkpoint`.

        :param meanwhile: see :class:`tests.support.protocol.continuous_run.ContinuousRun`, which alone has it.
        """
        assert self._run is not None
        if isinstance(self._run, ContinuousRun):
            self._run.meanwhile = meanwhile
        if ahead is not None and self._run.job.spec.sink.producers_pool_size < MIN_CONTINUOUS_POOL:
            ahead = None
        next_one = f", the next one is begun at {ahead.at} up to {ahead.to or 'its pre-commit'}" if ahead else ""
        self._record(f"checkpoint{' with a task tried twice' if retry else ''}{next_one}", stop)
        self._run.checkpoint(stop, retry=retry, abreast=abreast, ahead=ahead)
        self._after(self._run, ended=_ends(stop))

    def rescale(self, parallelism: int, stop: Stop | None = None) -> None:
        """Another number of subtasks for the running attempt of the continuous engine."""
        assert isinstance(self._run, ContinuousRun)
        self._record(f"is rescaled in place to P={parallelism}", stop)
        self._run.rescale(parallelism, stop)
        self._after(self._run, ended=_ends(stop))

    def drain(self, stop: Stop | None = None) -> None:
        """An orderly stop of the running attempt."""
        assert self._run is not None
        self._record("stops in order", stop)
        self._run.drain(stop)
        self._after(self._run, ended=True)

    def run(self, checkpoints: int = 100, parallelism: int = 2) -> None:
        """An attempt of this many checkpoints at most, until nothing is left to read, and an orderly stop."""
        self.start(parallelism)
        while self._run is not None and checkpoints and self._run.lag:
            self.checkpoint()
            checkpoints -= 1
        if self._run is not None:
            self.drain()

    def kill(self) -> None:
        """The running attempt ends between two checkpoints."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def kill_driver(self) -> None:
        """The driver of the running attempt of the local pace dies; its subtasks freeze, and may continue later."""
        assert isinstance(self._run, LocalPaceRun)
        self._record("the driver dies, and its subtasks stand still", None)
        self._run.die()
        self._strays += self._run.take_away()
        self.kill()

    def leave_subtasks(self) -> None:
        """The subtasks of the running attempt stand still, and may continue when it is over; its driver works on."""
        assert isinstance(self._run, ContinuousRun)
        self._record("its subtasks stand still", None)
        self._strays += self._run.take_away()

    def thaw_strays(self) -> None:
        """Subtasks without a driver continue until they find that out."""
        self._record(f"{self.strays} subtasks of dead drivers continue", None)
        for process in self._strays:
            process.release()
            process.thaw()
        deadline = Deadline.after(_STRAY_SECONDS)
        while not all(process.ended for process in self._strays):
            assert not deadline.expired, f"a subtask without a driver does not end: {self.history}"
            time.sleep(0.05)
        self._strays.clear()

    def repeat_requests(self) -> None:
        """Requests to the brokers were or will be sent twice. What they begin is open until somebody starts."""
        self._thawed = True

    def delay_requests(self) -> None:
        """The network holds requests back, which reach the brokers behind the end of their attempt, and perhaps behind
        the next start. What they begin is open until somebody starts, or until a running job's sweep."""
        self._delayed = True

    def last_attempt(self) -> Job:
        """A deleted job's attempt after a crash: the running attempt ends, and this attempt is not started."""
        self.kill()
        self._attempt += 1
        self._record("is deleted", None)
        return replace(self._job(1, 2, self.engine, local_pace=self.local_pace), settles_only=True)

    def thaw(self, *, draining: bool = False) -> AttemptRun:
        """The attempt that has been frozen longest continues in its act until it is refused or through.

        :param draining: see :meth:`tests.support.protocol.attempt.AttemptRun.thaw`.
        """
        self._thawed = self._superseded = True
        run = self._frozen.pop(0)
        self._record(f"attempt {run.job.attempt} continues{', asked to stop' if draining else ''}", None)
        run.thaw(draining=draining)
        end = "in order" if run.failure is None else f"with {type(run.failure).__name__}: {run.failure}"
        self.history.append(f"  attempt {run.job.attempt} ended {end}")
        return run

    @property
    def document(self) -> CheckpointDocument:
        """As it is written now."""
        text = self.store.read().text
        assert text is not None
        return decode(text, job_uid=self.uid)

    @property
    def kept(self) -> dict[int, RetainedCheckpoint]:
        """The checkpoints to go back to."""
        found = (decode_retained(text, key=key, job_uid=self.uid) for key, text in self.retained.read().items())
        return {each.checkpoint_id: each for each in found}

    def fence(self) -> None:
        """Somebody takes the document's transactional ids over: what was open is lost, and no answer decides."""
        self.client.fence_all([each.transactional_id for each in self.document.committables])

    def forget_group_offsets(self) -> None:
        """What the brokers do with the offsets of a group that nobody has committed to for long."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.delete_consumer_groups([self.prefix])[self.prefix].result(30)

    def create_again(self, startup: StartupMode) -> None:
        """A person deletes the resource, and with it all that it owns, and creates it again under the same name."""
        self.kill()
        self._record(f"created again with {startup}", None)
        self.store, self.retained = SharedStore(), MemoryRetainedStore()
        self.uid, self.startup, self._attempt = f"{self.uid}-again", startup, 0

    def begin_stateless(self) -> None:
        """The next attempt has a new revision, which begins without the checkpoint."""
        self.stateless = self._attempt + 1
        self._record("the next attempt begins without the checkpoint", None)

    def expect_again(self, splits: Iterable[KafkaPartitionSplit]) -> None:
        """Readers will see what was read of these ranges once more than otherwise."""
        for split in splits:
            assert split.partition.topic == self.source
            self._again.update(self._partitions[split.partition.partition][split.start : split.stop])

    def written_of(self, splits: Iterable[KafkaPartitionSplit]) -> list[int]:
        """The numbers that the transform makes of these ranges."""
        numbers = [
            number
            for split in splits
            for number in self._partitions[split.partition.partition][split.start : split.stop]
        ]
        return sorted(filter(self._is_kept, numbers))

    def change_prefix(self) -> None:
        """From the next attempt on."""
        self._prefix = f"{self.prefix}.{self._attempt}"
        self._prefixes = list(dict.fromkeys((*self._prefixes, self._prefix)))
        self._record("prefix changes", None)

    def change_naming(self) -> None:
        """From the next attempt on."""
        self.naming = next(each for each in TransactionNaming if each is not self.naming)
        self._record(f"naming changes to {self.naming}", None)

    def change_semantic(self, delivery_guarantee: DeliveryGuarantee) -> None:
        """From the next attempt on."""
        self.delivery_guarantee = delivery_guarantee
        self._record(f"the delivery guarantee changes to {delivery_guarantee}", None)

    def expire(self) -> None:
        """Time passes until the broker has aborted whatever is open."""
        self._record("transactions expire", None)
        deadline = Deadline.after(self.timeout + 30)
        while self.open_transactions():
            assert not deadline.expired, "the broker does not end transactions that are too old"
            time.sleep(deadline.bound(0.1))

    def finish(self, parallelism: int = 2) -> int:
        """Runs to the end of the source and holds the result against what was produced.

        :returns: how many records are there more than once; 0 under ExactlyOnce. With None some may be in ``lost``.
        """
        self._read_all(parallelism)
        while self._frozen:
            self.thaw()
        if self._strays:
            self.thaw_strays()
        if self._thawed or self._delayed:
            # What a superseded attempt began is open until the broker's time-out, or until somebody starts.
            self.kill()
            self._read_all(parallelism)
        self.kill()
        if self._superseded:
            self._abort_by_hand()
        # What is committed is visible once its markers are written.
        still_open = self.open_transactions()
        found, expected = self._found(), self.expected()
        lost, more = expected - found, found - expected
        self.lost = sorted(number for _, number in lost.elements())
        assert self.delivery_guarantee is DeliveryGuarantee.NONE or not lost, f"lost {self.lost[:20]}: {self.history}"
        assert self.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE or not more, (
            f"more than once {sorted(more)[:20]}: {self.history}"
        )
        assert still_open == [], f"open {still_open}: {self.history}"
        self._judge_names()
        return more.total()

    @property
    def topics(self) -> list[str]:
        """Where its records are."""
        return [topic for topic in (self.sink, self.odd, self.letters) if topic]

    @property
    def ends(self) -> dict[int, int]:
        """Behind the last record of each partition of the source that has any."""
        return {partition: len(numbers) for partition, numbers in self._partitions.items()}

    def expected(self) -> Counter[tuple[str, int]]:
        """What readers see in the end of all that is produced by now, by topic and number."""
        every = Counter(range(self._produced)) + self._again
        return Counter({(self._topic(number), number): every[number] for number in every if self._topic(number)})

    def _found(self) -> Counter[tuple[str, int]]:
        found: Counter[tuple[str, int]] = Counter()
        for topic in self.topics:
            numbers = patiently(lambda topic=topic: visibility.numbers(self.sink_bootstrap or self.bootstrap, topic))
            found.update((topic, number) for number in numbers)
        return found

    def _topic(self, number: int) -> str:
        """Where a number belongs; empty where it is left out."""
        if not self._is_kept(number):
            return self.letters
        return self.odd if self.odd and number % 2 else self.sink

    def _is_kept(self, number: int) -> bool:
        """The transform: one number of five is left out, so that a subtask may have read and yet produced nothing."""
        return number % MODULUS != 0 and number not in self._silent

    def _keep(self, numbers: pa.Array) -> pa.Array:
        return pa.array([self._is_kept(number) for number in numbers.to_pylist()], pa.bool_())

    def _topics(self, numbers: pa.Array) -> pa.Array:
        """The column ``topic`` of numbers that are let through."""
        return pa.array([self._topic(number) for number in numbers.to_pylist()], pa.string())

    def _judge_names(self) -> None:
        """No two subtasks of an attempt have shared a transactional id, and a restart would have looked at every one.

        Two attempts may share some,
        one after the other or where the previous one is frozen (``docs/internals/exactly-once.md``).
        """
        for attempt, names in self._names:
            assert not names.shared, f"attempt {attempt} has {names.shared} in several subtasks: {self.history}"
            assert not names.beyond, f"attempt {attempt} has {names.beyond} where nobody looks: {self.history}"
        noted = {name for _, names in self._names for of_one in names.by_subtask.values() for name in of_one}
        noted |= {offsets_id(prefix) for prefix in self._prefixes}
        if self._had_local_pace:
            # A start fences the id of every subtask that there can have been, under every prefix.
            bound = self.document.slots.subtasks
            noted |= {local_id(prefix, subtask) for prefix in self._prefixes for subtask in range(bound)}
        known = patiently(lambda: _known(self.client, self._prefixes))
        assert known <= noted, f"nobody has written under {known - noted}: {self.history}"

    def _abort_by_hand(self) -> None:
        """Under a prefix that the job has left nobody looks any more: it may be another job's by now.

        What a superseded attempt began there is open until the broker's time-out, or until a person ends it.
        """
        left = [each for each in self.open_transactions() if not self._is_current(each)]
        if left:
            self._record(f"a person aborts {left}", None)
            patiently(lambda: self.client.fence_all(left))

    def open_transactions(self) -> list[str]:
        """Ids that are open now, of the job's prefix and those it had."""
        return patiently(lambda: visibility.open_transactions(self.client, *self._prefixes))

    def _is_current(self, transactional_id: str) -> bool:
        return transactional_id.rpartition("-")[0] == self._prefix

    def _read_all(self, parallelism: int) -> None:
        starts = 0
        while (run := self._run) is None or patiently(lambda run=run: run.lag):
            if run is None:
                starts += 1
                assert starts <= self.most_starts, f"no attempt gets through: {self.history}"
                self.start(parallelism)
            else:
                self.checkpoint()

    def close(self) -> None:
        self.kill()
        while self._frozen:
            self._frozen.pop().kill()
        while self._strays:
            self._strays.pop().kill()

    def _after(self, run: AttemptRun, *, ended: bool) -> None:
        self._run = run
        self.two_have_run |= run.two_have_run
        self.failure = run.failure
        if run.failure is not None:
            self.failures.append(run.failure)
            self.history.append(f"  ended by {type(run.failure).__name__}: {run.failure}")
            self.kill()
        elif run.frozen:
            self._frozen.append(run)
            self._run = None
        elif ended or run.killed:
            self.kill()

    def jump(self, by: timedelta) -> None:
        """The clock of the job's nodes is set forward or back."""
        self._time += by
        self._record(f"the clock jumps by {by}", None)

    def _now(self) -> str:
        """A minute later each time, so that every checkpoint is kept."""
        self._time += timedelta(minutes=1)
        return self._time.isoformat()

    def _record(self, what: str, stop: Stop | None) -> None:
        then = "" if stop is None else f", {stop[1] if isinstance(stop[1], End) else 'something'} at {stop[0]}"
        self.history.append(f"{self._attempt}: {what}{then}")

    def _sink_cluster(self) -> KafkaCluster | None:
        if not self.sink_bootstrap:
            return None
        return KafkaCluster(bootstrap_servers=self.sink_bootstrap, cluster_id=self.sink_cluster_id, field=SINK_CLUSTER)

    def _job(self, parallelism: int, pool_size: int, engine: Engine, *, local_pace: bool) -> Job:
        is_local = engine is Engine.CONTINUOUS and local_pace
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=self.listener or self.bootstrap, cluster_id=self.cluster_id),
            source=Source(
                topics=(self.source,), group_id=self.prefix, startup=Startup(mode=self.startup),
                max_offsets_per_checkpoint=_NO_LIMIT if is_local else self.per_checkpoint, on_data_loss=self.data_loss,
            ),
            engine=engine,
            transform=TRANSFORM if engine is Engine.CONTINUOUS else Transform(),
            record_errors=RecordErrors(
                policy=OnRecordError.DEAD_LETTER if self.letters else OnRecordError.FAIL,
                dead_letter_topic=self.letters,
            ),
            sink=Sink(
                kafka=self._sink_cluster(), topic=self.sink,
                topic_from=TopicFrom.COLUMN if self.odd else TopicFrom.SPEC,
                delivery_guarantee=self.delivery_guarantee, transactional_id_prefix=self._prefix,
                transaction_naming=self.naming, on_transaction_lost=self.lost_policy, producers_pool_size=pool_size,
                transaction_timeout_seconds=0 if self.never else self.timeout, properties=self.properties,
            ),
            parallelism=parallelism,
            checkpoint_interval_seconds=1,  # less than any time-out
            checkpoint_interval_millis=_RECORD_MILLIS if is_local else 0,
            commit_interval_millis=_COMMIT_MILLIS if is_local else 0,
            restore=self.restore, start_snapshot=self.start_snapshot,
        )  # fmt: skip
        return Job(
            namespace="ns", name="story", uid=self.uid, generation=1, attempt=self._attempt, spec=spec,
            snapshots=self.snapshots, stateless=self.stateless,
        )  # fmt: skip


def _kind_of_run(job: Job) -> type[AttemptRun]:
    if job.spec.engine is not Engine.CONTINUOUS:
        return AttemptRun
    return LocalPaceRun if job.spec.has_local_pace else ContinuousRun


def _known(client: TransactionClient, prefixes: Iterable[str]) -> set[str]:
    return {row.transactional_id for prefix in prefixes for row in client.list_transactions(prefix)}


def _ends(stop: Stop | None) -> bool:
    return stop is not None and isinstance(stop[1], End)
