"""A whole exactly-once job without Spark: what driver, engine and tasks do for each checkpoint, on a real broker.

Its parts are the program's own (recovery, enumerator, coordinator, writer, committer, witness); only who calls them is
different. One :meth:`CopyingJob.attempt` is one life of the driver with its tasks; a hook that raises is its crash,
after which its producers stay alive as zombies until the test ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.checkpoint.coordinator import CheckpointCoordinator, PreCommitted
from sparkapp.checkpoint.recovery import Recovery, recover
from sparkapp.checkpoint.retained import CheckpointRetainer, MemoryRetainedStore
from sparkapp.checkpoint.store import CheckpointStore, MemoryStore
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.client_config import consumer_config
from sparkapp.model.deadline import Deadline
from sparkapp.model.job import Job, JobSpec, KafkaCluster, Sink, Source, Transform
from sparkapp.model.positions import Startup, StartupMode
from sparkapp.model.protocol import StepHook, no_hook
from sparkapp.model.retention import Restore, Retention
from sparkapp.model.settlement import offset_mark
from sparkapp.model.split import KafkaPartitionSplit, splits_by_subtask
from sparkapp.model.transactional_id import TransactionalIdHint
from sparkapp.native.batch import open_producer
from sparkapp.sink.committer import KafkaCommitter, Settled
from sparkapp.sink.lingering import abort_lingering
from sparkapp.sink.producer_pool import ProducerPool
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.sink.witness import GroupOffsetsWitness
from sparkapp.sink.writer import KafkaWriter, producer_config
from sparkapp.source.cluster import KafkaClusterView
from sparkapp.source.enumerator import enumerator_of
from sparkapp.source.offset_committer import OffsetCommitter
from tests.support.commit_counter import CommitCounter


class Crash(Exception):
    """The driver is gone; nobody cleans up."""


@dataclass
class CopyingJob:
    """A job that copies a topic's values, subtask by subtask.

    :param per_checkpoint: records of one checkpoint.
    """

    bootstrap: str
    source: str
    sink: str
    name: str
    parallelism: int = 2
    per_checkpoint: int = 10
    store: CheckpointStore = field(default_factory=MemoryStore)
    retained: MemoryRetainedStore = field(default_factory=MemoryRetainedStore)
    restore: Restore = field(default_factory=Restore)
    attempts: int = 0

    def __post_init__(self) -> None:
        self._minute = datetime(2026, 11, 21, 8, tzinfo=UTC)
        self._shared = {"bootstrap.servers": self.bootstrap}
        self._zombies: list[Callable[[], None]] = []
        self.client = TransactionClient(self._shared)
        self.recoveries: list[Recovery] = []

    def now(self) -> str:
        """A minute later each time, so that every checkpoint is kept."""
        self._minute += timedelta(minutes=1)
        return self._minute.isoformat()

    def attempt(self, checkpoints: int, *, hook: StepHook = no_hook) -> CheckpointDocument:
        """A life that recovers, completes so many checkpoints (or as many as there is something to read for) and stops
        in order.

        :raises Crash: whatever the hook or the store raises.
        """
        self.attempts += 1
        job = self._job()
        recovery = recover(
            job, store=self.store, control=_Control(job, self.client, self._shared), now=self.now(),
            retained=self.retained,
        )  # fmt: skip
        self.recoveries.append(recovery)
        with self._clients(job) as (cluster, group_offsets, pool):
            enumerator = enumerator_of(job.spec, cluster, warn=lambda *_: None)
            enumerator.start(None if recovery.first_start else recovery.document.offsets)
            coordinator = CheckpointCoordinator(
                job, store=self.store, document=recovery.document, version=recovery.version,
                committer=KafkaCommitter(self.client, None), group_offsets=group_offsets, now=self.now, hook=hook,
            )  # fmt: skip
            retainer = CheckpointRetainer(
                self.retained, job_uid=job.uid, retention=Retention(), latest=recovery.document.checkpoint_id,
                tell=lambda *event: None,
            )  # fmt: skip
            try:
                coordinator.begin(enumerator.unplanned())
                for _ in range(checkpoints):
                    splits = enumerator.plan()
                    if not any(split.size for split in splits):
                        break
                    self._checkpoint(job, coordinator, pool, splits)
                    enumerator.complete(splits)
                    retainer.offer(coordinator.document)
                coordinator.drained()
            finally:
                retainer.close()
            return coordinator.document

    def fence(self, document: CheckpointDocument) -> None:
        """Somebody takes the document's transactional ids over: what was open is lost, and no answer decides."""
        self.client.fence_all([one.transactional_id for one in document.committables])

    def close(self) -> None:
        for end in self._zombies:
            end()
        self.client.close()

    def _checkpoint(
        self,
        job: Job,
        coordinator: CheckpointCoordinator,
        pool: ProducerPool,
        splits: tuple[KafkaPartitionSplit, ...],
    ) -> None:
        """The engine's part: the order of its steps, and a task for each subtask."""
        number = coordinator.document.checkpoint_id + 1
        coordinator.prepare(splits)
        committables = []
        written = 0
        for subtask, ranges in splits_by_subtask(splits, self.parallelism).items():
            writer = KafkaWriter(
                job.spec.sink, pool=pool, subtask=subtask, parallelism=self.parallelism,
                next_free=coordinator.next_free,
            )  # fmt: skip
            writer.notify_committed(number - 1)
            writer.begin(number)
            writer.write(pa.RecordBatch.from_pydict({"value": self._read(ranges)}))
            mark = offset_mark(job.uid, job.attempt, number)
            committable = writer.pre_commit(ranges, group_id=job.spec.source.group_id, metadata=mark)
            assert committable is not None
            committables.append(committable)
            written += committable.records
        coordinator.complete(
            PreCommitted(
                checkpoint_id=number, splits=splits, aligned=True, committables=tuple(committables), records_out=written
            )
        )

    def _read(self, ranges: Sequence[KafkaPartitionSplit]) -> list[bytes | None]:
        consumer = Consumer({**self._shared, "group.id": f"{self.name}-reader", "isolation.level": "read_committed"})
        values = []
        try:
            deadline = Deadline.after(30)
            for split in ranges:
                consumer.assign([ClientPartition(*split.partition, split.start)])
                for _ in range(split.size):
                    while (message := consumer.poll(1)) is None:
                        assert not deadline.expired, split
                    assert message.error() is None
                    values.append(message.value())
        finally:
            consumer.close()
        return values

    def _job(self) -> Job:
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=self.bootstrap),
            source=Source(
                topics=(self.source,), group_id=self.name, startup=Startup(mode=StartupMode.EARLIEST),
                max_offsets_per_checkpoint=self.per_checkpoint,
            ),
            transform=Transform(),
            sink=Sink(topic=self.sink, transactional_id_prefix=self.name, transaction_timeout_seconds=60),
            parallelism=self.parallelism,
            restore=self.restore,
        )  # fmt: skip
        return Job(namespace="test", name="job", uid="uid", generation=1, attempt=self.attempts, spec=spec)

    @contextmanager
    def _clients(self, job: Job) -> Iterator[tuple[KafkaClusterView, OffsetCommitter, ProducerPool]]:
        config = consumer_config(job, password="")
        cluster = KafkaClusterView(config, read_committed=True)
        group_offsets = OffsetCommitter(config, CommitCounter())
        pool = ProducerPool(
            open_producer=open_producer, client=self.client, config=producer_config(job, self._shared), timeout=30
        )
        try:
            yield cluster, group_offsets, pool
        except BaseException:
            self._zombies.append(pool.close)
            raise
        else:
            pool.close()
        finally:
            group_offsets.close()
            cluster.close()


class _Control:
    """As the driver wires it."""

    def __init__(self, job: Job, client: TransactionClient, shared: dict[str, str]) -> None:
        self._job = job
        self._client = client
        self._shared = shared

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        witness = GroupOffsetsWitness(self._shared, group_id=document.witness_group) if document.witness_group else None
        committer = KafkaCommitter(
            self._client, witness, job_uid=self._job.uid,
            before_witness=lambda: self._abort((document.prefix,), document.hint),
        )  # fmt: skip
        return committer.commit(document.committables)

    def abort_lingering(self, prefixes: Sequence[str], hint: TransactionalIdHint) -> int:
        return self._abort(prefixes, hint)

    def _abort(self, prefixes: Sequence[str], hint: TransactionalIdHint) -> int:
        report = abort_lingering(
            self._client, prefixes, hint=hint, parallelism=self._job.spec.parallelism,
            pool_size=self._job.spec.sink.producers_pool_size,
        )  # fmt: skip
        return len(report.ids)
