"""Real brokers that hold partitions together: some of them can be gone, and the others take over, or nobody."""

from __future__ import annotations

import base64
import contextlib
import shutil
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from localcluster.kafka.broker import Broker
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.kafka.properties import Listener
from localcluster.machine.ports import free_ports
from localcluster.progress import Progress
from localcluster.settings import Settings
from sparkapp.clients.deadline import Deadline
from tests.support.kafka.topics import create_topics

NODES = (1, 2, 3)
TRANSACTIONS = "__transaction_state"
GROUPS = "__consumer_offsets"
_HEAP = "256m"
_SECONDS = 90.0
_OVERRIDES: Mapping[str, str] = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@dataclass(frozen=True)
class Layout:
    """Which brokers there are, and where Kafka's own topics are.

    By default one broker coordinates all transactional ids, and one all groups: killing it hits every one of a job's.

    :ivar voters: the nodes that are controllers, too. :ivar transactions: the nodes with a copy of each partition of
        :data:`TRANSACTIONS`, the preferred leader first; ``groups`` of :data:`GROUPS`.
    """

    nodes: tuple[int, ...] = NODES
    voters: tuple[int, ...] = NODES
    transactions: tuple[tuple[int, ...], ...] = ((1, 2, 3),)
    groups: tuple[tuple[int, ...], ...] = ((2, 3, 1),)
    overrides: Mapping[str, str] = field(default_factory=dict)


class Ensemble:
    """Brokers on free ports. By default three, which are the controllers, too; transaction and group coordinator are
    different brokers at first.

    :param folder: of their data and logs.
    """

    def __init__(self, folder: Path, layout: Layout | None = None) -> None:
        settings = Settings.from_environment()
        self._distribution = KafkaDistribution.of(settings)
        self._distribution.fetch(settings, Progress())
        self._admin: AdminClient | None = None
        self._layout = layout = layout or Layout()
        ports = iter(free_ports(2 * len(layout.nodes)))
        clients, controllers = ({node: next(ports) for node in layout.nodes} for _ in range(2))
        voters = ",".join(f"{node}@127.0.0.1:{controllers[node]}" for node in layout.voters)
        self._brokers = {
            node: self._broker(folder / str(node), node, clients[node], controllers[node], voters)
            for node in layout.nodes
        }

    def _broker(self, folder: Path, node: int, client: int, controller: int, voters: str) -> Broker:
        listener = Listener("HOST", "127.0.0.1", client)
        alone = {} if node in self._layout.voters else {"process.roles": "broker", "listeners": listener.endpoint}
        own = {
            "node.id": str(node), "controller.quorum.voters": voters, **alone,
            # Coordinators look at these, and not at the topics, until their first restart.
            "transaction.state.log.num.partitions": str(len(self._layout.transactions)),
            "offsets.topic.num.partitions": str(len(self._layout.groups)),
        }  # fmt: skip
        return Broker(
            folder, distribution=self._distribution, listeners=[listener], controller_port=controller, heap=_HEAP,
            overrides={**_OVERRIDES, **self._layout.overrides, **own},
        )  # fmt: skip

    @property
    def bootstrap(self) -> str:
        """All of them."""
        return ",".join(broker.bootstrap for broker in self._brokers.values())

    def __enter__(self) -> Self:
        """Starts all of them, and makes Kafka's own topics, which otherwise come with their first use."""
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def _start(self) -> None:
        for node, broker in self._brokers.items():
            self._format(node, broker.directory / "data")
        self.restart_brokers()
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        compacted = {"cleanup.policy": "compact"}
        for name, where in ((TRANSACTIONS, self._layout.transactions), (GROUPS, self._layout.groups)):
            copies = [list(nodes) for nodes in where]
            self._make(NewTopic(name, num_partitions=len(copies), replica_assignment=copies, config=compacted))
        self.settle()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        # A quorum that ends one by one waits for the others; nobody needs the data.
        for broker in self._brokers.values():
            broker.kill()

    def make_topic(self, name: str, partitions: int) -> None:
        """A topic of three copies."""
        self._make(NewTopic(name, num_partitions=partitions, replication_factor=len(NODES)))

    def make_topic_on(self, name: str, nodes: Sequence[int]) -> None:
        """A topic of one partition, with copies on these nodes alone."""
        self._make(NewTopic(name, num_partitions=1, replica_assignment=[list(nodes)]))

    def make_topics(self, *topics: NewTopic) -> None:
        """Topics whose copies the caller has placed."""
        create_topics(self.bootstrap, *topics)

    def delete_topic(self, name: str) -> None:
        """Returns when the controller has deleted it."""
        self._asked.delete_topics([name])[name].result(30)

    def coordinator(self, topic: str) -> int:
        """The node that leads the only partition of :data:`TRANSACTIONS` or :data:`GROUPS`."""
        deadline = Deadline.after(_SECONDS)
        while True:
            # A broker that has just started, or a topic that is a moment old: it is not known everywhere at once.
            partitions = self._asked.list_topics(topic, timeout=20).topics[topic].partitions
            if 0 in partitions and partitions[0].leader in NODES:
                return int(partitions[0].leader)
            assert not deadline.expired, f"{topic} has no leader"
            time.sleep(deadline.bound(0.1))

    def successor(self, topic: str, node: int) -> int:
        """:meth:`coordinator`, once it is another one than this broker, which is frozen."""
        asked = self.addresses(*(other for other in NODES if other != node))
        deadline = Deadline.after(_SECONDS)
        while True:
            with contextlib.suppress(KafkaException):  # asked the frozen one
                found = AdminClient({"bootstrap.servers": asked}).list_topics(topic, timeout=5)
                leader = int(found.topics[topic].partitions[0].leader)
                if leader in NODES and leader != node:
                    return leader
            assert not deadline.expired, f"{topic} is led by {node}"
            time.sleep(deadline.bound(0.1))

    def kill(self, *nodes: int) -> None:
        """Kills brokers; they stay away until :meth:`restart_brokers`."""
        for node in nodes:
            self._brokers[node].kill()

    def is_lost(self, nodes: Collection[int]) -> bool:
        """Whether no broker is left without these."""
        return set(nodes) >= self._brokers.keys()

    def await_gone(self, *nodes: int) -> None:
        """Waits until a broker that is left knows that these have gone: others lead their partitions, or nobody."""
        deadline = Deadline.after(_SECONDS)
        left = AdminClient(
            {"bootstrap.servers": self.addresses(*(each for each in self._brokers if each not in nodes))}
        )
        while True:
            with contextlib.suppress(KafkaException):
                if not left.list_topics(timeout=5).brokers.keys() & set(nodes):
                    return
            assert not deadline.expired, f"{nodes} still have their partitions"
            time.sleep(deadline.bound(0.05))

    def data_of(self, node: int) -> Path:
        """The folder with a broker's partitions."""
        return self._brokers[node].directory / "data"

    def freeze(self, *nodes: int) -> None:
        """Each stands still, as a machine that hangs; until :meth:`thaw`."""
        for node in nodes:
            self._brokers[node].pause()

    def thaw(self, *nodes: int) -> None:
        """Each continues with what it knew."""
        for node in nodes:
            self._brokers[node].resume()

    def addresses(self, *nodes: int) -> str:
        """Of some of them, for a client that asks these first."""
        return ",".join(self._brokers[node].bootstrap for node in nodes)

    def restart_brokers(self) -> None:
        """Starts the brokers that are down; returns with every copy up to date and both coordinators in place."""
        gone = [broker for broker in self._brokers.values() if broker.process is None]
        with ThreadPoolExecutor(len(self._brokers)) as pool:
            list(pool.map(lambda broker: broker.start(_SECONDS), gone))
        if gone and self._admin is not None:
            self.settle()

    def _make(self, topic: NewTopic) -> None:
        create_topics(self.bootstrap, topic)

    def settle(self) -> None:
        """Returns with every copy up to date and both coordinators in place, where all brokers run."""
        deadline = Deadline.after(_SECONDS)
        while not self._is_in_sync():
            assert not deadline.expired, "the brokers do not catch up"
            time.sleep(deadline.bound(0.1))
        # Killed brokers do not get back by themselves, for minutes, what they led.
        while misplaced := self._misplaced():
            with contextlib.suppress(KafkaException):
                self._asked.elect_leaders(ElectionType.PREFERRED, misplaced).result(30)
            assert not deadline.expired, f"{misplaced} are not led by their preferred leaders"
            time.sleep(deadline.bound(0.1))

    def _misplaced(self) -> list[TopicPartition]:
        """Partitions of Kafka's own topics that another broker leads than was asked for."""
        topics = self._asked.list_topics(timeout=20).topics
        return [
            TopicPartition(name, number)
            for name in (TRANSACTIONS, GROUPS)
            for number, each in topics[name].partitions.items()
            if each.leader != each.replicas[0]
        ]

    @property
    def _asked(self) -> AdminClient:
        assert self._admin is not None, "started before"
        return self._admin

    def _is_in_sync(self) -> bool:
        try:
            metadata = self._asked.list_topics(timeout=5)
        except KafkaException:
            return False
        partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
        caught_up = all(len(each.isrs) == len(each.replicas) and each.leader >= 0 for each in partitions)
        return (
            caught_up
            and len(metadata.brokers) == len(self._brokers)
            and {TRANSACTIONS, GROUPS} <= metadata.topics.keys()
        )

    def _format(self, node: int, data: Path) -> None:
        """A copy of the storage that every broker begins with, which only names another node."""
        shutil.copytree(self._distribution.formatted_storage, data)
        directory = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        properties = data / "meta.properties"
        lines = [
            each for each in properties.read_text().splitlines() if not each.startswith(("node.id", "directory.id"))
        ]
        properties.write_text("\n".join([*lines, f"node.id={node}", f"directory.id={directory}", ""]))
