"""One attempt of the local pace without Spark: recovery, coordinator and the subtasks' writers are real."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial

import pyarrow as pa

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.dataplane.batch import open_producer
from sparkapp.dataplane.interface import BatchProducer, GivenUp
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.client.config import cluster_config, consumer_config
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.sink.delivery import producer_config
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from sparkapp.sink.local_writer import LocalKafkaWriter
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.spark.state.retained_state import QueryState
from sparkapp.spark.wiring.start import Parts, group_evidence, local_coordinator, recovery_of
from tests.support.protocol.local_contract import LocalSubtasks
from tests.support.protocol.story import Story

_SECONDS = 30.0


class _Gate:
    """Holds a producer's commit back until the test wants it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()
        self._left = False

    def open(self) -> None:
        self._opened.set()

    def leave(self) -> None:
        """Nobody will open it any more."""
        self._left = True
        self._opened.set()

    def producer(self, config: Mapping[str, str]) -> BatchProducer:
        """Opens a producer whose commits pass through the gate, one by one."""
        producer = open_producer(config)
        # By a weak reference: a producer that the test has left ends at once, and not when a cycle is found.
        commit = partial(type(producer).commit_transaction, weakref.proxy(producer))
        vars(producer)["commit_transaction"] = partial(self._commit, commit)
        return producer

    def _commit(self, commit: Callable[[float], bool], timeout: float) -> bool:
        self.reached.set()
        self._opened.wait()
        self._opened.clear()
        if self._left:
            raise GivenUp
        return commit(timeout)


class Instance:
    """A subtask's instance: the real writer with a pool of its own, as in a worker process."""

    def __init__(self, story: Story, job: Job, client: TransactionClient, transactional_id: str) -> None:
        self._story = story
        self._group = job.spec.source.group_id
        self._gate = _Gate()
        shared = cluster_config(job.spec.kafka, security={}, client_id="subtask")
        pool = ProducerPool(
            open_producer=self._gate.producer, client=client, config=producer_config(job, shared), timeout=_SECONDS,
            scope=log_scope(job.spec), commits_itself=True,
        )  # fmt: skip
        self._writer = LocalKafkaWriter(job.spec.sink, pool=pool, transactional_id=transactional_id, timeout=_SECONDS)
        self._writer.open()
        self._committing: Future[bool] = Future()
        self.is_over = False
        # The thread of a commit that no test wants any more would keep the clients for ever.
        weakref.finalize(self, self._gate.leave)

    def write(self, splits: Iterable[KafkaPartitionSplit], mark: str) -> None:
        """A transaction that is complete but for its commit, with the offsets and what the transform makes of them.

        The writer commits in a thread of its own, which stands still before the producer's commit.
        """
        splits = list(splits)
        numbers = pa.array([str(number) for number in self._story.written_of(splits)], pa.string())
        self._writer.write(pa.record_batch({"value": numbers}))
        offsets = {split.partition: split.stop for split in splits}
        self._gate.reached.clear()
        self._committing = run_in_background(
            partial(self._writer.commit, offsets, group_id=self._group, metadata=mark), name="commit"
        )
        self._committing.add_done_callback(lambda _, reached=self._gate.reached: reached.set())
        assert self._gate.reached.wait(2 * _SECONDS)
        if self._committing.done():
            self._committing.result()

    def commit(self) -> None:
        self._gate.open()
        self.is_over = not self._committing.result(2 * _SECONDS)


class LocalRun:
    """The next attempt of the story's job. The test takes the engine's steps, in its order or until it dies.

    :ivar coordinator: of its driver, once it has recovered.
    """

    def __init__(self, story: Story, parallelism: int = 2) -> None:
        self._story = story
        self.job, self._names = story.local_attempt(parallelism)
        self._config = consumer_config(self.job, security={})
        self._client = TransactionClient(cluster_config(self.job.spec.kafka, security={}, client_id="local"))
        self._cluster = KafkaClusterView(self._config, read_committed=True)
        self._instances: dict[int, Instance] = {}

    def recover(self) -> Recovery:
        """As the driver does; the partitions of a first start begin at 0."""
        story, job = self._story, self.job
        control = KafkaTransactionControl(
            job, self._client, self._config, Claim(story.store, job_uid=job.uid, attempt=job.attempt)
        )
        parts = Parts(
            store=story.store, retained=story.retained, control=control, ends=control.ends(), client=self._client,
            cluster=self._cluster, config=self._config, evidence=group_evidence(job, self._config), now=story.now,
            warn=lambda *_: None, engine=QueryState(),
        )  # fmt: skip
        recovery = recovery_of(job, parts)
        self.coordinator = local_coordinator(job, parts, recovery)
        every = [TopicPartition(story.source, number) for number in range(story.partitions)]
        offsets = {partition: recovery.document.offsets.get(partition, 0) for partition in every}
        self._subtasks = LocalSubtasks(self.coordinator, offsets, opened=self._opened, owner=self.owner)
        return recovery

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Where each partition continues."""
        return self._subtasks.offsets

    def open(self, *subtasks: int) -> None:
        """Opens a new instance of these subtasks, or of all."""
        for subtask in subtasks or range(self.job.spec.parallelism):
            self._subtasks.open(subtask)

    def grant(self) -> None:
        self._subtasks.grant(self._cluster.topic_ids([self._story.source]))

    def place(self, *partitions: TopicPartition) -> None:
        """The group gets the starts of these partitions, or of all."""
        for partition in partitions or self.offsets:
            self._subtasks.place(self.owner(partition), partition)

    def placed(self) -> None:
        self._subtasks.placed()

    def start(self) -> Recovery:
        """Everything up to the first read."""
        recovery = self.recover()
        self.open()
        self.grant()
        self.place()
        self.placed()
        return recovery

    def write(self, partition: TopicPartition, count: int) -> None:
        """What the owner of the partition makes of the next offsets, up to the commit."""
        owner = self.owner(partition)
        if self._instances[owner].is_over:
            self.grant_again(owner)
        self._subtasks.write(owner, {partition: count})

    def commit(self, partition: TopicPartition) -> None:
        self._subtasks.commit(self.owner(partition))

    def copy(self, count: int, *partitions: TopicPartition) -> None:
        """Copies the next offsets of these partitions, or of all, each in a transaction of its own."""
        for partition in partitions or self.offsets:
            self.write(partition, count)
            self.commit(partition)

    def record(self) -> None:
        self._subtasks.record()

    def grant_again(self, subtask: int) -> None:
        """A new instance takes over, from its opening to its first read."""
        self.open(subtask)
        mine = self._subtasks.of(subtask)
        self._subtasks.grant_again(subtask)
        if mine:
            self.place(*mine)
        self.placed()

    def drain(self) -> None:
        self._subtasks.drain()
        self.close()

    def owner(self, partition: TopicPartition) -> int:
        return split_owner(partition.topic, partition.partition, self.job.spec.parallelism)

    def _opened(self, subtask: int) -> Instance:
        name = self.coordinator.id_of(subtask)
        self._names.note(subtask, name, self.coordinator.ids_in_use())
        self._instances[subtask] = Instance(self._story, self.job, self._client, name)
        return self._instances[subtask]

    def close(self) -> None:
        """Ends the driver's clients. Writers that are left commit nothing unless the test wants it."""
        self._client.close()
        self._cluster.close()
