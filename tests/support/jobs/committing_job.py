"""A job's driver without Spark: enumerator, coordinator and offset committer as the driver wires them, on a broker."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.group_offsets import offset_committer
from sparkapp.checkpoint.pre_committed import Completed, PreCommitted
from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import DeliveryGuarantee, OffsetCommit
from sparkapp.model.job.client.config import consumer_config
from sparkapp.model.job.sections.kafka import KafkaCluster
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.sections.transform import Transform
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.model.job.startup import Startup, StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.checkpoint_commits import CheckpointCommits
from sparkapp.sink.committer import KafkaCommitter
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.ending.proven_ends import ProvenEnds
from sparkapp.sink.pre_commit_check import PreCommitCheck
from sparkapp.source.enumerator.enumerator_of_job import enumerator_of
from sparkapp.spark.reporting.progress import Progress
from tests.support.fakes.memory_store import MemoryStore
from tests.support.patience import until


@dataclass
class CommittingJob:
    """One attempt whose checkpoints the test decides.

    :param client: properties of this job's clients beyond the address, credentials for instance.
    :param admin: properties of the client that asks, from outside, what the group has committed.
    """

    bootstrap: str
    topics: Sequence[str]
    group_id: str
    offset_commit: OffsetCommit = OffsetCommit.ON_CHECKPOINT
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE
    max_offsets: int = 1_000_000
    prefix: str = "p"
    client: Mapping[str, str] = field(default_factory=dict)
    admin: Mapping[str, str] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = JobSpec(
            kafka=KafkaCluster(bootstrap_servers=self.bootstrap),
            source=Source(
                topics=tuple(self.topics),
                group_id=self.group_id,
                startup=Startup(mode=StartupMode.EARLIEST),
                offset_commit=self.offset_commit,
                max_offsets_per_checkpoint=self.max_offsets,
            ),
            transform=Transform(),
            sink=Sink(topic="out", delivery_guarantee=self.delivery_guarantee, transactional_id_prefix=self.prefix),
        )
        self.job = Job(namespace="test", name="job", uid="uid", generation=1, attempt=1, spec=spec)
        config = {**consumer_config(self.job, security={}), **self.client}
        self.progress = Progress(lambda **fields: self.report.update(fields))
        self.cluster = KafkaClusterView(config, read_committed=True)
        self.enumerator = enumerator_of(spec, self.cluster, warn=lambda *_: None)
        store = MemoryStore()
        claim = Claim(store, job_uid=self.job.uid, attempt=self.job.attempt)
        self.group_offsets = offset_committer(self.job, config, claim, self.progress)
        self.transactions = TransactionClient({"bootstrap.servers": self.bootstrap, **self.client})
        document = CheckpointDocument(
            job_uid="uid", attempt=1, checkpoint_id=0, created_at=_NOW, parallelism=1, prefix=self.prefix
        )
        self.coordinator = CheckpointCoordinator(
            self.job, writer=DocumentWriter(store, document, "0"),
            commits=CheckpointCommits(
                PreCommitCheck(self.transactions), KafkaCommitter(self.transactions, None),
                ProvenEnds(self.transactions, log_scope(self.job.spec)),
            ),
            group_offsets=self.group_offsets, now=lambda: _NOW,
        )  # fmt: skip
        self._recovery = Recovery(
            document=document, version="0", first_start=True, lost=(), committed=0, aborted=0
        )  # fmt: skip

    def start(self) -> None:
        """As far as the driver goes before the first micro-batch."""
        self.progress.recovered(self._recovery)
        self.enumerator.start(None)
        self.coordinator.begin(self.enumerator.unplanned())
        self.progress.started(self.coordinator.document, lambda: self.enumerator.pending)

    def plan(self) -> tuple[KafkaPartitionSplit, ...]:
        return self.enumerator.plan()

    def complete(
        self, splits: tuple[KafkaPartitionSplit, ...], committables: tuple[KafkaCommittable, ...] = ()
    ) -> Completed:
        """The subtasks have pre-committed these splits."""
        completed = self.coordinator.complete(
            PreCommitted(
                checkpoint_id=self.coordinator.document.checkpoint_id + 1, splits=splits, aligned=True,
                committables=committables, records_out=0, stops=dict(self.enumerator.stops),
            )
        )  # fmt: skip
        assert completed is not None
        self.enumerator.complete(splits)
        self.progress.completed(completed, 0.1)
        return completed

    def checkpoint(self) -> Completed:
        """Plans and completes one."""
        return self.complete(self.plan())

    @property
    def commits(self) -> tuple[int, int]:
        """Succeeded and failed, as the report has them once nothing is under way."""
        until(lambda: not (self.group_offsets._waiting or self.group_offsets._busy))
        return self.report.get("commits_succeeded", 0), self.report.get("commits_failed", 0)

    def committed(self, *, stable: bool = True) -> dict[TopicPartition, int]:
        """What the brokers say that the group has committed of the job's partitions.

        :param stable: wait for transactions that hold some of the offsets.
        """
        isolation = "read_committed" if stable else "read_uncommitted"
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": self.group_id, "isolation.level": isolation, **self.admin}
        )
        try:
            asked = [ClientPartition(*partition) for partition in self.enumerator.offsets]
            deadline = Deadline.after(60)
            while True:
                try:
                    found = consumer.committed(asked, timeout=30)
                    break
                except KafkaException as error:
                    # A broker's first group.
                    if error.args[0].code() not in _COMING_UP or deadline.expired:
                        raise
                    time.sleep(0.2)
        finally:
            consumer.close()
        assert all(each.error is None for each in found), found
        return {TopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def await_committed(self, expected: Mapping[TopicPartition, int]) -> None:
        """Waits until the group has these offsets: a transaction's markers are written after its commit is answered."""
        deadline = Deadline.after(20)
        while (found := self.committed()) != expected:
            assert not deadline.expired, found
            time.sleep(0.2)

    def close(self) -> None:
        self.group_offsets.close()
        self.transactions.close()
        self.cluster.close()


_COMING_UP = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}
_NOW = "2026-11-21T12:00:00Z"


def fill(bootstrap: str, partition: TopicPartition, count: int, client: Mapping[str, str] | None = None) -> None:
    """Writes records into one partition."""
    producer = Producer({"bootstrap.servers": bootstrap, **(client or {})})
    for number in range(count):
        producer.produce(partition.topic, str(number), partition=partition.partition)
    assert producer.flush(30) == 0
