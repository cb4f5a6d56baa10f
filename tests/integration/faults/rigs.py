"""For each fault of the matrix a Kafka to break and what breaks it; created once a run, restarted after each story."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from localcluster.kafka.broker import Broker
from localcluster.kafka.distribution import KafkaDistribution
from localcluster.kafka.properties import Listener
from localcluster.machine.ports import free_ports
from localcluster.progress import Progress
from localcluster.settings import Settings
from sparkapp.checkpoint.store import FileStore
from sparkapp.model.errors import KafkaUnreachable, PreCommitFailed, ReadTimedOut, VolumeFull
from tests.integration.faults.job_rigs import ApiServerRig, ComesBackRig, KubernetesFixture, LongAwayRig, ProcessRig
from tests.integration.faults.leader_rigs import LeaderRigs
from tests.integration.faults.matrix import TO, Cell, Fault
from tests.integration.faults.rig import Rig
from tests.support.jobs.volume import small_volume
from tests.support.kafka.cut_network import Network
from tests.support.kafka.three_brokers import GROUPS, TRANSACTIONS, Ensemble
from tests.support.protocol.moments import End, Loss, Moment, TaskMoment
from tests.support.protocol.story import Story

_IN_A_TASK = (*TaskMoment, Moment.BEFORE_FLUSH)
QUICK_ABORTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


class BrokerRig(Rig):
    def __init__(self, cell: Cell, folder: Path, broker: Broker) -> None:
        super().__init__(cell, folder)
        self.bootstrap = broker.bootstrap
        self._broker = broker
        self._starting: threading.Thread | None = None

    def _strike(self, story: Story) -> None:
        self._broker.stop()
        self._starting = threading.Thread(target=self._broker.start)
        self._starting.start()

    def judge(self, story: Story) -> None:
        """It was away for less than anybody's patience; librdkafka may lose the group's coordinator over it."""
        _assert_continues(story)

    def _clean_up(self) -> None:
        if self._starting is not None:
            self._starting.join()
        self._broker.start()


class CoordinatorRig(Rig):
    def __init__(self, cell: Cell, folder: Path, ensemble: Ensemble, topic: str) -> None:
        super().__init__(cell, folder)
        self.bootstrap = ensemble.bootstrap
        self._ensemble = ensemble
        self._topic = topic

    def _strike(self, story: Story) -> None:
        self._ensemble.kill(self._ensemble.coordinator(self._topic))

    def judge(self, story: Story) -> None:
        """The others take over within anybody's patience."""
        _assert_continues(story)

    def _clean_up(self) -> None:
        self._ensemble.restart_brokers()

    def _make_topic(self, name: str, partitions: int) -> None:
        self._ensemble.make_topic(name, partitions)


class NetworkRig(Rig):
    """One broker with two listeners: drivers and tests use one, executors the other, which is behind the network."""

    CUT_SECONDS = 1.5

    def __init__(self, cell: Cell, folder: Path, fixture: NetworkFixture) -> None:
        super().__init__(cell, folder)
        self.bootstrap = fixture.broker.bootstrap
        self._network = fixture.network
        self._healing: threading.Timer | None = None

    def _furnish(self, story: Story) -> None:
        story.executors = self._network.address

    def _strike(self, story: Story) -> End | None:
        self._network.cut()
        story.delay_requests()
        self._healing = threading.Timer(self.CUT_SECONDS, self._network.heal)
        self._healing.start()
        return None

    def judge(self, story: Story) -> None:
        assert story.failures == [], "the cut was shorter than a task's patience"

    def _clean_up(self) -> None:
        if self._healing is not None:
            self._healing.join()
        self._network.heal()


class LongCutRig(NetworkRig):
    def _furnish(self, story: Story) -> None:
        super()._furnish(story)
        story.patience = 2.0
        # What librdkafka waits for, whatever it is asked to.
        story.properties = {"socket.timeout.ms": "2000"}

    def _strike(self, story: Story) -> None:
        self._network.cut()

    def aftermath(self, story: Story) -> None:
        if story.running:  # struck before the first task of this attempt
            story.checkpoint()
        failure = story.failure
        assert isinstance(failure, KafkaUnreachable | PreCommitFailed | ReadTimedOut), failure
        assert failure.remedy
        story.executors = ""
        story.patience = 30.0
        story.properties = {}

    def judge(self, story: Story) -> None:
        assert len(story.failures) == 1


class SupersededRig(NetworkRig):
    def _strike(self, story: Story) -> End:
        self._network.cut()
        # In a task it continues, into the cut. Elsewhere its producers hold the open transactions.
        return End.STRAND if self.cell.moment in _IN_A_TASK else End.FREEZE

    def aftermath(self, story: Story) -> None:
        assert story.frozen == 1
        story.executors = ""
        story.start(TO[self.cell.change])
        if story.running:
            story.checkpoint()
        self._network.heal()
        story.thaw()

    def judge(self, story: Story) -> None:
        """The new attempt may be fenced by the old one, and starts again then; it never takes more than that."""
        assert len(story.failures) <= 1


class ClockRig(Rig):
    def __init__(self, cell: Cell, folder: Path, bootstrap: str, jump: timedelta) -> None:
        super().__init__(cell, folder)
        self.bootstrap = bootstrap
        self._jump = jump

    def _strike(self, story: Story) -> None:
        story.jump(self._jump)

    def judge(self, story: Story) -> None:
        assert story.failures == []
        assert max(story.kept) == story.document.checkpoint_id, "checkpoints are kept by the new clock, too"


class DiskRig(Rig):
    def __init__(self, cell: Cell, folder: Path, bootstrap: str) -> None:
        super().__init__(cell, folder)
        self.bootstrap = bootstrap
        self._mounts = ExitStack()

    def _furnish(self, story: Story) -> None:
        self._volume = self._mounts.enter_context(small_volume(self.folder / "volume"))
        story.store = FileStore(self._volume.folder / "state")

    def _strike(self, story: Story) -> None:
        self._volume.fill()

    def aftermath(self, story: Story) -> None:
        if story.running:  # struck after the last write of this start or checkpoint
            story.checkpoint()
        failure = story.failure
        assert isinstance(failure, VolumeFull), failure
        assert str(self._volume.folder) in failure.message
        assert "enlarge the claim" in failure.remedy
        assert not failure.fatal
        self._volume.free()

    def judge(self, story: Story) -> None:
        assert len(story.failures) == 1

    def _clean_up(self) -> None:
        self._mounts.close()


class NetworkFixture:
    """The broker of :class:`NetworkRig`, and its network."""

    def __init__(self, folder: Path) -> None:
        settings = Settings.from_environment()
        distribution = KafkaDistribution.of(settings)
        distribution.fetch(settings, Progress())
        direct, behind, controller, door = free_ports(4)
        listeners = [Listener("HOST", "127.0.0.1", direct), Listener("EXECUTORS", "127.0.0.1", behind)]
        self.broker = Broker(
            folder, distribution=distribution, listeners=listeners, controller_port=controller, heap="256m",
            overrides={
                # Clients that connect through the network are sent through it again.
                "advertised.listeners": f"{listeners[0].endpoint},EXECUTORS://127.0.0.1:{door}",
                **QUICK_ABORTS,
            },
        )  # fmt: skip
        self.network = Network(("127.0.0.1", behind), port=door)

    def close(self) -> None:
        self.network.close()
        self.broker.kill()


class Rigs:
    """Makes rigs, and what they share, with its first use; ``shared`` is a broker that nobody breaks."""

    def __init__(self, folder: Path, shared: str) -> None:
        self._folder = folder
        self._shared = shared
        self._open = ExitStack()
        self._broker: Broker | None = None
        self._ensemble: Ensemble | None = None
        self._network: NetworkFixture | None = None
        self._kubernetes: KubernetesFixture | None = None
        self._leaders = LeaderRigs(folder / "leaders", self._open)

    def rig(self, cell: Cell, folder: Path) -> Rig:
        hour = timedelta(hours=1)
        shared = self._shared
        make: dict[Fault, Callable[[], Rig]] = {
            Fault.BROKER: lambda: BrokerRig(cell, folder, self._own_broker()),
            Fault.TRANSACTION_COORDINATOR: lambda: CoordinatorRig(cell, folder, self._own_ensemble(), TRANSACTIONS),
            Fault.GROUP_COORDINATOR: lambda: CoordinatorRig(cell, folder, self._own_ensemble(), GROUPS),
            **self._leaders.makers(cell, folder),
            Fault.NETWORK: lambda: NetworkRig(cell, folder, self._own_network()),
            Fault.NETWORK_LONG: lambda: LongCutRig(cell, folder, self._own_network()),
            Fault.EXECUTOR_SUPERSEDED: lambda: SupersededRig(cell, folder, self._own_network()),
            Fault.CLOCK_AHEAD: lambda: ClockRig(cell, folder, shared, hour),
            Fault.CLOCK_BACK: lambda: ClockRig(cell, folder, shared, -hour),
            Fault.DISK: lambda: DiskRig(cell, folder, shared),
            Fault.DRIVER: lambda: ProcessRig(cell, folder, shared, End.KILL),
            Fault.EXECUTOR: lambda: ProcessRig(cell, folder, shared, Loss.EXECUTOR),
            Fault.WORKER: lambda: ProcessRig(cell, folder, shared, Loss.WORKER),
            Fault.WORKER_STANDS_STILL: lambda: ProcessRig(cell, folder, shared, Loss.STANDS_STILL),
            Fault.WORKER_COMES_BACK: lambda: ComesBackRig(cell, folder, shared, Loss.COMES_BACK),
            Fault.API_SERVER: lambda: ApiServerRig(cell, folder, shared, self._own_kubernetes()),
            Fault.API_SERVER_LONG: lambda: LongAwayRig(cell, folder, shared, self._own_kubernetes()),
        }
        return make[cell.fault]()

    def close(self) -> None:
        self._open.close()

    def _own_kubernetes(self) -> KubernetesFixture:
        if self._kubernetes is None:
            self._kubernetes = KubernetesFixture(self._folder / "kubernetes", self._open)
        return self._kubernetes

    def _own_broker(self) -> Broker:
        if self._broker is None:
            broker = Broker.ephemeral(self._folder / "broker", heap="256m", overrides=QUICK_ABORTS)
            self._broker = self._open.enter_context(broker)
        return self._broker

    def _own_ensemble(self) -> Ensemble:
        if self._ensemble is None:
            self._ensemble = self._open.enter_context(Ensemble(self._folder / "ensemble"))
        return self._ensemble

    def _own_network(self) -> NetworkFixture:
        if self._network is None:
            self._network = NetworkFixture(self._folder / "network")
            self._open.callback(self._network.close)
            self._network.broker.start()
        return self._network


def _assert_continues(story: Story) -> None:
    """By itself, or by one more attempt, where the engine would only have tried the task again."""
    assert len(story.failures) <= 1, story.failures
    assert all(isinstance(each, KafkaUnreachable) and "gives no answer" in each.message for each in story.failures), (
        story.failures
    )
