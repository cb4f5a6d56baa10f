"""Asks the leaders of partitions which transactions are open in their logs (ADR 68).

A coordinator may call a transaction complete whose marker it has not written to a partition (KAFKA-20734). The
partition's leader knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.connection import KafkaConnection, RefusedWireError, RetriableWireError
from sparkapp.clients.transactions.partition_requests import KnownLeader, PartitionWire, ProducersAt, TopicsAt
from sparkapp.clients.transactions.probes import partition_of
from sparkapp.clients.transactions.states import OpenProducer
from sparkapp.model.errors import KafkaAccessError, KafkaUnreachable
from sparkapp.model.partition import TopicPartition, named

GROUP_TOPIC = "__consumer_offsets"
_AT_ONCE = 1_000
"""Partitions of one request."""
_METADATA_SECONDS = 3.0
"""For a broker's metadata: another broker is asked at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenInLogs:
    """Open transactions by partition, of any producer.

    :param refused: topics that the user may not read, so that nothing is known of them.
    :param answered: the partitions whose leaders have answered.
    """

    open: Mapping[TopicPartition, tuple[OpenProducer, ...]]
    refused: frozenset[str] = frozenset()
    answered: frozenset[TopicPartition] = frozenset()

    def of(self, producer_id: int) -> dict[TopicPartition, OpenProducer]:
        """The partitions where this producer has a transaction open."""
        return {
            partition: producer
            for partition, found in self.open.items()
            for producer in found
            if producer.producer_id == producer_id
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScope:
    """Partitions that a job's transactions can have written to.

    :param topics: sink topics; None for every topic that the user may describe.
    :param groups: whose offsets are in the transactions.
    """

    topics: frozenset[str] | None
    groups: frozenset[str] = frozenset()


class PartitionLogs:
    """Asks the leaders of partitions; thread-safe, part of the transaction client.

    :param timeout: seconds for one call, except where a call takes its own deadline.
    """

    def __init__(self, connection: KafkaConnection, *, timeout: float) -> None:
        self._connection = connection
        self._wire = PartitionWire(connection)
        self._timeout = timeout
        self._leaders: dict[TopicPartition, int] = {}
        self._groups: dict[str, TopicPartition] = {}

    def open_in(
        self, partitions: Collection[TopicPartition] | LogScope, *, deadline: Deadline | None = None
    ) -> OpenInLogs:
        """What is open in these partitions. Partitions that no broker knows hold nothing.

        :raises KafkaUnreachable: a partition has no leader that answers in time.
        """
        used = deadline or Deadline.after(self._timeout)
        return self._connection.run(used, lambda: self._open_in(partitions, used))

    def group_partition(self, group_id: str, *, deadline: Deadline | None = None) -> TopicPartition | None:
        """The partition of a group's offsets; None where it cannot be seen, or no group has offsets yet.

        :raises KafkaUnreachable: no broker answers in time.
        """
        used = deadline or Deadline.after(self._timeout)

        async def ask() -> TopicPartition | None:
            return _group_partition(group_id, (await self._looked_up({GROUP_TOPIC}, used)).leaders)

        if group_id not in self._groups and (found := self._connection.run(used, ask)) is not None:
            self._groups[group_id] = found  # The number of partitions never changes.
        return self._groups.get(group_id)

    async def _open_in(self, asked: Collection[TopicPartition] | LogScope, deadline: Deadline) -> OpenInLogs:
        found: dict[TopicPartition, tuple[OpenProducer, ...]] = {}
        refused: set[str] = set()
        if isinstance(asked, LogScope):
            waiting, hidden = await self._partitions_of(asked, deadline)
            refused |= hidden
        else:
            waiting = set(asked)
        pauses = deadline.pauses(0.02, 0.5)
        while True:
            unknown = {partition for partition in waiting if partition not in self._leaders}
            if unknown:
                known = await self._looked_up({partition.topic for partition in unknown}, deadline)
                refused |= known.hidden
                waiting = {each for each in waiting if each in known.leaders or each not in unknown}
                waiting = {each for each in waiting if each.topic not in known.hidden}
            answers = await self._answers(waiting, deadline)
            for partition, answer in answers.items():
                if answer.is_answer:
                    found[partition] = answer.open
                elif answer.is_refused:
                    refused.add(partition.topic)
                else:
                    self._leaders.pop(partition, None)
            waiting = {each for each in waiting if each not in found and each.topic not in refused}
            if not waiting:
                break
            await self._connection.sleep(next(pauses))
            if deadline.expired:
                msg = f"no leader has told what is open in {named(sorted(waiting))}"
                raise KafkaUnreachable(msg, remedy=_NO_LEADER)
        return OpenInLogs(
            open={each: some for each, some in found.items() if some}, refused=frozenset(refused),
            answered=frozenset(found),
        )  # fmt: skip

    async def _answers(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, ProducersAt]:
        """Absent are partitions without a leader, and those whose leader does not answer."""
        at: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            if (node := self._leaders.get(partition)) is not None:
                at.setdefault(node, []).append(partition)
        requests = [(node, part) for node, every in at.items() for part in _parts(every)]

        async def ask(request: tuple[int, list[TopicPartition]]) -> dict[TopicPartition, ProducersAt]:
            node, part = request
            try:
                return await self._wire.producers_at(part, node, _within(deadline))
            except RetriableWireError:
                for partition in part:
                    self._leaders.pop(partition, None)
                return {}
            except RefusedWireError as error:
                raise KafkaAccessError(str(error)) from error

        answers = await self._connection.gather(ask, requests)
        return {partition: answer for found in answers for partition, answer in found.items()}

    async def _partitions_of(self, scope: LogScope, deadline: Deadline) -> tuple[set[TopicPartition], frozenset[str]]:
        group = {GROUP_TOPIC} if scope.groups else set()
        known = await self._looked_up(None if scope.topics is None else scope.topics | group, deadline)
        found = {each for each in known.leaders if each.topic != GROUP_TOPIC}
        for group_id in scope.groups:
            partition = _group_partition(group_id, known.leaders)
            found |= set() if partition is None else {partition}
        return found, known.hidden

    async def _looked_up(self, topics: Collection[str] | None, deadline: Deadline) -> TopicsAt:
        """What the brokers know together: the leader of the latest epoch counts.

        A broker that is cut off may still name itself. A broker that lags may not know a young topic. So a topic is
        gone only where no broker knows it.
        """
        pauses = deadline.pauses(0.02, 0.5)
        while True:
            nodes = [broker.node_id for broker in self._connection.cluster.brokers()] or [None]
            answers = await self._connection.gather(lambda node: self._topics_at(topics, node, deadline), nodes)
            heard = [answer for answer in answers if answer is not None]
            if heard:
                latest: dict[TopicPartition, KnownLeader] = {}
                for answer in heard:
                    for partition, leader in answer.leaders.items():
                        before = latest.get(partition)
                        if before is None or before.epoch < leader.epoch:
                            latest[partition] = leader
                for partition, leader in latest.items():
                    if leader.node is None:
                        self._leaders.pop(partition, None)
                    else:
                        self._leaders[partition] = leader.node
                return TopicsAt(latest, frozenset.intersection(*(answer.hidden for answer in heard)))
            if deadline.expired:
                msg = "no broker has told the leaders of " + (
                    "its partitions" if topics is None else ", ".join(sorted(topics))
                )
                raise KafkaUnreachable(msg)
            await self._connection.sleep(next(pauses))

    async def _topics_at(self, topics: Collection[str] | None, node: Any, deadline: Deadline) -> TopicsAt | None:
        try:
            return await self._wire.topics_at(topics, node, _within(deadline))
        except RetriableWireError:
            return None


_NO_LEADER = (
    "bring the brokers of these partitions back: `kafka-topics.sh --bootstrap-server BROKERS --describe"
    " --unavailable-partitions` lists them; the job continues by itself"
)


def _within(deadline: Deadline) -> Deadline:
    return Deadline.after(deadline.bound(_METADATA_SECONDS), clock=deadline.clock)


def _group_partition(group_id: str, leaders: Mapping[TopicPartition, KnownLeader]) -> TopicPartition | None:
    count = sum(1 for partition in leaders if partition.topic == GROUP_TOPIC)
    return TopicPartition(GROUP_TOPIC, partition_of(group_id, count)) if count else None


def _parts(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    rest = iter(partitions)
    while part := list(islice(rest, _AT_ONCE)):
        yield part
