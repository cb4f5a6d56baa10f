"""Faults of leaders: a partition's only copy is away while transactions end, and their coordinator is not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import NewTopic

from sparkapp.clients.transactions.probes import partition_of
from tests.integration.faults.matrix import TO, Cell, Fault
from tests.integration.faults.rig import Rig
from tests.support.kafka.three_brokers import Ensemble, Layout
from tests.support.protocol.log_verdict import open_in_groups, verdict_of
from tests.support.protocol.moments import End, Moment
from tests.support.protocol.story import Story

_STAYS, _GOES = 1, 2
_ONE_COPY = dict.fromkeys(
    (
        "default.replication.factor", "min.insync.replicas", "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr", "offsets.topic.replication.factor", "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
    ),
    "1",
)  # fmt: skip
_GROUPS = ((_STAYS,), (_GOES,))
LEADERS = Layout((_STAYS, _GOES), (_STAYS,), transactions=((_STAYS,),), groups=_GROUPS, overrides=_ONE_COPY)
COORDINATORS = Layout((_STAYS, _GOES), (_STAYS,), transactions=((_GOES,),), groups=_GROUPS, overrides=_ONE_COPY)
_AWAY_SECONDS = 3.0
_RECORDS = 30
_AGAIN = 4
"""Checkpoints: more than a subtask has ids."""


class LeaderRig(Rig):
    """The broker goes that has what the fault names, and is back seconds later.

    :param dies: the driver, as the broker goes: the next attempt starts in the outage.
    """

    def __init__(self, cell: Cell, folder: Path, ensemble: Ensemble, *, goes: str, dies: bool) -> None:
        super().__init__(cell, folder)
        self.bootstrap = ensemble.bootstrap
        self._ensemble = ensemble
        self._goes, self._dies = goes, dies
        self._returning: threading.Timer | None = None

    def aftermath(self, story: Story) -> None:
        """In the outage, and behind it until ids of transactions that ended in it come again and are aborted."""
        if self._dies:
            story.start(TO[self.cell.change])
        if story.running:
            story.checkpoint()
        assert self._returning is not None
        self._returning.join()
        for _ in range(_AGAIN):
            self._work(story)
        self._work(story, (Moment.AFTER_FLUSH, End.KILL))

    def judge(self, story: Story) -> None:
        """The logs agree with what readers see, and hold nothing open."""
        problems = verdict_of(self._ensemble, story) or open_in_groups(self._ensemble)
        assert not problems, f"{problems}: {story.history}"

    def _work(self, story: Story, stop: tuple[Moment, End] | None = None) -> None:
        story.produce(_RECORDS)
        if not story.running:
            story.start(TO[self.cell.change])
        if story.running:
            story.checkpoint(stop)

    def _strike(self, story: Story) -> End | None:
        self._ensemble.kill(_GOES)
        self._ensemble.await_gone(_GOES)
        self._returning = threading.Timer(_AWAY_SECONDS, self._ensemble.restart_brokers)
        self._returning.start()
        return End.KILL if self._dies else None

    def _clean_up(self) -> None:
        if self._returning is not None:
            self._returning.join()
        self._ensemble.restart_brokers()

    def _name(self) -> str:
        """Of a group whose offsets are where they should be."""
        wanted = _GROUPS.index((_GOES if self._goes == "group" else _STAYS,))
        return next(name for name in iter(super()._name, "") if partition_of(name, len(_GROUPS)) == wanted)

    def _make_topic(self, name: str, partitions: int) -> None:
        node = _GOES if name.endswith({"sink": ".out", "source": ".in"}.get(self._goes, "nothing")) else _STAYS
        self._ensemble.make_topics(NewTopic(name, partitions, replica_assignment=[[node]] * partitions))


_KINDS: Mapping[Fault, tuple[str, bool]] = {
    Fault.SINK: ("sink", False),
    Fault.SINK_AND_DRIVER: ("sink", True),
    Fault.GROUP: ("group", False),
    Fault.GROUP_AND_DRIVER: ("group", True),
    Fault.SOURCE: ("source", False),
    Fault.TRANSACTION_LOG: ("log", False),
    Fault.TRANSACTION_LOG_AND_DRIVER: ("log", True),
}


class LeaderRigs:
    """Their brokers, which start with the first cell."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._ensembles: dict[str, Ensemble] = {}

    def makers(self, cell: Cell, folder: Path) -> dict[Fault, Callable[[], Rig]]:
        """What makes the rig of each fault."""

        def maker(goes: str, dies: bool) -> Callable[[], Rig]:
            return lambda: LeaderRig(cell, folder, self._ensemble(goes), goes=goes, dies=dies)

        return {fault: maker(goes, dies) for fault, (goes, dies) in _KINDS.items()}

    def _ensemble(self, goes: str) -> Ensemble:
        name, layout = ("coordinators", COORDINATORS) if goes == "log" else ("leaders", LEADERS)
        if name not in self._ensembles:
            self._ensembles[name] = self._stack.enter_context(Ensemble(self._folder / name, layout))
        return self._ensembles[name]
