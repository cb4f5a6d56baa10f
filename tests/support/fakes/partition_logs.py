"""Coordinator and partition leaders of a few ids in memory, with markers that can be left out.

It is never kinder than brokers: a fence and a time-out increment epochs as they do, and an end without a leader leaves
its marker out and is called complete. Real brokers judge in ``tests/integration/protocol/test_hanging.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.partition_logs import GROUP_TOPIC, LogScope, OpenInLogs
from sparkapp.clients.transactions.states import (
    EndTxn,
    OpenProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from sparkapp.model.checkpoint.committable import MAX_PRODUCER_EPOCH
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition

GROUP = TopicPartition(GROUP_TOPIC, 3)
_NEW_PRODUCERS = 1_000


@dataclass
class Log:
    """A partition: its open producers, and what their markers have decided."""

    has_leader: bool = True
    open: dict[int, OpenProducer] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    waiting: dict[int, list[str]] = field(default_factory=dict)


class FakeCluster:
    """:param partitions: of the job, without the group's, which exists, too."""

    def __init__(self, *partitions: TopicPartition) -> None:
        self.partitions = {partition: Log() for partition in (*partitions, GROUP)}
        self.ids: dict[str, TransactionDescription] = {}
        self.refused: frozenset[str] = frozenset()
        self.ended_again: list[tuple[EndTxn, frozenset[TopicPartition], str]] = []
        self.asked = 0
        self.interrupts = 0
        """Repairs whose coordinator moves behind their first request."""
        self.logs = self

    # -- what producers and coordinators do ----------------------------------------------------------------------------

    def initialise(self, transactional_id: str) -> tuple[int, int]:
        """InitProducerId: aborts what is open. A producer whose epochs are used up is replaced."""
        now = self.ids.get(transactional_id)
        if now is None:
            now = TransactionDescription(
                state=TransactionState.EMPTY, producer_id=len(self.ids) + 1, producer_epoch=-1, timeout_ms=1,
                start_time_ms=-1,
            )  # fmt: skip
        elif now.state is TransactionState.ONGOING:
            self.ids[transactional_id] = replace(now, producer_epoch=now.producer_epoch + 1)
            self.end(transactional_id, commit=False)
            now = self.ids[transactional_id]
        producer_id, epoch = now.producer_id, now.producer_epoch + 1
        if epoch >= MAX_PRODUCER_EPOCH:
            producer_id, epoch = producer_id + _NEW_PRODUCERS, 0
        self.ids[transactional_id] = replace(
            now, state=TransactionState.EMPTY, producer_id=producer_id, producer_epoch=epoch, partitions=frozenset()
        )
        return producer_id, epoch

    def write(self, transactional_id: str, record: str, *partitions: TopicPartition) -> None:
        """A record into each of the partitions, in the id's open transaction or a new transaction."""
        now = self.ids[transactional_id]
        known = now.partitions if now.state is TransactionState.ONGOING else frozenset()
        self.ids[transactional_id] = replace(
            now, state=TransactionState.ONGOING, partitions=known | frozenset(partitions)
        )
        for partition in partitions:
            log = self.partitions[partition]
            assert log.has_leader
            before = log.open.get(now.producer_id)
            start = before.start_offset if before is not None else 0
            log.open[now.producer_id] = OpenProducer(now.producer_id, now.producer_epoch, start)
            log.waiting.setdefault(now.producer_id, []).append(record)

    def end(self, transactional_id: str, *, commit: bool) -> None:
        """The coordinator's end: partitions without a leader get no marker."""
        now = self.ids[transactional_id]
        for partition in now.partitions:
            self._mark(partition, now.producer_id, now.producer_epoch, commit=commit)
        state = TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT
        self.ids[transactional_id] = replace(now, state=state, partitions=frozenset())

    def expire(self, transactional_id: str) -> None:
        """The transaction's time-out."""
        now = self.ids[transactional_id]
        self.ids[transactional_id] = replace(now, producer_epoch=now.producer_epoch + 1)
        self.end(transactional_id, commit=False)

    def lead(self, partition: TopicPartition, *, present: bool) -> None:
        self.partitions[partition].has_leader = present

    def _mark(self, partition: TopicPartition, producer_id: int, epoch: int, *, commit: bool) -> None:
        log = self.partitions[partition]
        if not log.has_leader:
            return
        found = log.open.get(producer_id)
        assert found is None or found.epoch <= epoch
        log.open.pop(producer_id, None)
        (log.committed if commit else log.aborted).extend(log.waiting.pop(producer_id, []))

    # -- what clients ask ----------------------------------------------------------------------------------------------

    def describe(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, TransactionDescription]:
        return {each: self.ids[each] for each in transactional_ids if each in self.ids}

    def list_transactions(self, prefix: str, *, deadline: Deadline | None = None) -> list[TransactionListing]:
        return [
            TransactionListing(transactional_id=each, producer_id=now.producer_id, state=now.state)
            for each, now in self.ids.items()
            if each.startswith(f"{prefix}-")
        ]

    def fence_all(
        self, transactional_ids: Iterable[str], *, deadline: Deadline | None = None
    ) -> dict[str, tuple[int, int]]:
        return {each: self.initialise(each) for each in transactional_ids}

    def end_again(
        self, end: EndTxn, partitions: Collection[TopicPartition], *, group_id: str = "", deadline: Deadline
    ) -> None:
        now = self.ids[end.transactional_id]
        if (now.producer_id, now.producer_epoch) != (end.producer_id, end.producer_epoch):
            raise KafkaAccessError("INVALID_PRODUCER_EPOCH")
        self.ended_again.append((end, frozenset(partitions), group_id))
        every = {*partitions, *([GROUP] if group_id else [])}
        if not every:
            assert now.state is TransactionState.ONGOING
        assert every <= self.partitions.keys()
        self.ids[end.transactional_id] = replace(
            now, state=TransactionState.ONGOING, partitions=now.partitions | frozenset(every)
        )
        if self.interrupts:
            self.interrupts -= 1
            raise KafkaUnreachable("NOT_COORDINATOR")
        self.end(end.transactional_id, commit=end.commit)

    def open_in(
        self, partitions: Collection[TopicPartition] | LogScope, *, deadline: Deadline | None = None
    ) -> OpenInLogs:
        self.asked += 1
        asked = self._of_scope(partitions) if isinstance(partitions, LogScope) else partitions
        readable = [each for each in asked if each.topic not in self.refused and each in self.partitions]
        if any(not self.partitions[each].has_leader for each in readable):
            raise KafkaUnreachable("no leader")
        refused = frozenset(each.topic for each in asked if each.topic in self.refused)
        found = {each: tuple(self.partitions[each].open.values()) for each in readable if self.partitions[each].open}
        return OpenInLogs(open=found, refused=refused, answered=frozenset(readable))

    def _of_scope(self, scope: LogScope) -> list[TopicPartition]:
        return [
            each
            for each in self.partitions
            if (bool(scope.groups) if each == GROUP else scope.topics is None or each.topic in scope.topics)
        ]

    def group_partition(self, group_id: str, *, deadline: Deadline | None = None) -> TopicPartition | None:
        return GROUP
