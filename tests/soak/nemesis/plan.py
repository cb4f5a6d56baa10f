"""What a seed stands for: the brokers, the outage of its round, where the story's partitions are, and the moment."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka.admin import NewTopic

from sparkapp.clients.transactions.probes import partition_of
from sparkapp.model.checkpoint.naming import TransactionNaming
from tests.soak.kinds import KINDS, Kind, Pace
from tests.support.kafka.three_brokers import Layout
from tests.support.protocol.moments import (
    OF_A_CHECKPOINT,
    OF_A_START,
    DriverMoment,
    End,
    EngineStep,
    InstanceMoment,
    Loss,
    Moment,
    Place,
    StoreWrite,
    TaskMoment,
)

STORIES = 24
"""Schedules of a round: one outage strikes all of them."""
ROUNDS = 6
"""Rounds of an ensemble: then it is another one."""
SURVIVOR = 1
"""The node that is the only controller."""
_QUICK = {
    "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300", "replica.lag.time.max.ms": "5000",
    "num.network.threads": "2", "num.io.threads": "4",
}  # fmt: skip
_COPIES = (
    "default.replication.factor", "min.insync.replicas", "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr", "offsets.topic.replication.factor", "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
)  # fmt: skip


class Struck(StrEnum):
    """What an outage can take away for all of a round."""

    LEADERS = "leaders"
    """Of sinks, sources and groups. The coordinator of every transactional id survives."""
    COORDINATORS = "coordinators"
    """Of the transaction log, too: half of the ids have no coordinator."""
    ALL = "all"
    """The only broker."""


@dataclass(frozen=True)
class Ground:
    """The brokers of some rounds.

    :ivar copies: of the groups' offsets and of the transaction log; of other topics at most so many.
    """

    struck: Struck
    copies: int

    @property
    def victims(self) -> tuple[int, ...]:
        """Brokers that may go while the controller stays."""
        return () if self.struck is Struck.ALL else tuple(range(SURVIVOR + 1, SURVIVOR + 1 + self.copies))

    @property
    def nodes(self) -> tuple[int, ...]:
        return (SURVIVOR, *self.victims)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Where the copies of each partition of the groups' offsets are: with the survivor, and without it."""
        return ((SURVIVOR, *self.victims[1:]), self.victims) if self.victims else ((SURVIVOR,),)

    @property
    def layout(self) -> Layout:
        transactions = self.groups if self.struck is Struck.COORDINATORS else self.groups[:1]
        few = dict.fromkeys(_COPIES, "1")
        return Layout(
            self.nodes, (SURVIVOR,), transactions=transactions, groups=self.groups, overrides={**_QUICK, **few}
        )


_GROUNDS = (
    Ground(Struck.LEADERS, 1), Ground(Struck.LEADERS, 2), Ground(Struck.ALL, 1), Ground(Struck.COORDINATORS, 1),
    Ground(Struck.LEADERS, 3), Ground(Struck.LEADERS, 1), Ground(Struck.COORDINATORS, 2), Ground(Struck.ALL, 1),
)  # fmt: skip


@dataclass(frozen=True)
class Outage:
    """Of a round.

    :ivar nodes: the brokers that are killed. :ivar seconds: that they stay away, from when nobody counts on them.
    :ivar behind: seconds after the stories have continued; None: the partitions have no leader before they continue.
    :ivar freezes: the brokers stand still instead, and continue with what they knew.
    """

    nodes: tuple[int, ...]
    seconds: float
    behind: float | None
    freezes: bool = False


def round_of(seed: int) -> int:
    """A round's number."""
    return seed // STORIES


def ground_of(number: int) -> Ground:
    """Of a round."""
    return _GROUNDS[number // ROUNDS % len(_GROUNDS)]


def outage_of(number: int) -> Outage:
    """Of a round. Mostly it takes every copy without the survivor's, sometimes less or more."""
    dice, ground = random.Random(f"outage {number}"), ground_of(number)
    share = dice.random()
    if not ground.victims or share < 0.12:
        return Outage(ground.nodes, 0.0, dice.uniform(0, 0.4))
    nodes = ground.victims if share < 0.75 else ground.victims[-dice.randint(1, ground.copies) :]
    behind = dice.uniform(0, 0.4) if dice.random() < 0.25 else None
    return Outage(nodes, dice.uniform(1.0, 6.0), behind, freezes=dice.random() < 0.25)


@dataclass(frozen=True)
class Plan:
    """Of a story. Its prefix is its group, too, and names the group's partition by its hash.

    :ivar sink: where the copies of each partition are; ``source`` and ``letters``, of dead letters, likewise. A story
        without dead letters has no such partition. :ivar min_in_sync: ``min.insync.replicas`` of all.
    :ivar crash: where the attempt ends whose successor is struck in its start; None: an attempt is struck later.
    :ivar end: of the struck attempt; None: it continues. :ivar loss: of subtasks, behind the struck moment.
    :ivar starts_at_once: the next attempt, while the outage lasts. :ivar again: checkpoints behind the outage, so that
        ids are used again. :ivar last: how the attempt ends behind these; None: in order.
    """

    seed: int
    kind: Kind
    naming: TransactionNaming
    aligned: bool
    group: tuple[int, ...]
    sink: tuple[tuple[int, ...], ...]
    source: tuple[tuple[int, ...], ...]
    letters: tuple[tuple[int, ...], ...]
    min_in_sync: int
    parallelism: int
    pool: int
    crash: Place | None
    act: str
    place: Place | None
    end: End | None
    loss: Loss | None
    starts_at_once: bool
    again: int
    last: Place | None

    def prefix(self, run: str) -> str:
        """A name whose group is in the partition that the plan wants.

        :param run: of the soak.
        """
        groups = ground_of(round_of(self.seed)).groups
        names = (f"n{run}.{self.seed}.{number}" for number in range(1000))
        return next(name for name in names if groups[partition_of(name, len(groups))] == self.group)

    def topics(self, prefix: str) -> list[NewTopic]:
        """Source, sink and dead letters."""
        settings = {"min.insync.replicas": str(self.min_in_sync)}
        return [
            NewTopic(f"{prefix}.{name}", len(where), replica_assignment=[list(each) for each in where], config=settings)
            for name, where in (("in", self.source), ("out", self.sink), ("dead", self.letters))
            if where
        ]


def plan_of(seed: int, kinds: Sequence[Kind] = KINDS) -> Plan:
    """Everything follows from the seed, and from the kinds that are chosen for all."""
    dice = random.Random(f"plan {seed}")
    number = round_of(seed)
    outage, ground = outage_of(number), ground_of(number)
    kind = kinds[seed % len(kinds)]
    namings = list(TransactionNaming)
    aligned = kind != KINDS[0] or dice.random() < 0.75
    local = kind.pace is Pace.LOCAL
    has_letters = kind == KINDS[0] and dice.random() < 0.25
    struck = ("letters",) if has_letters and dice.random() < 0.5 else _struck(dice)
    parallelism = dice.randint(1, 2)
    act, crash, place = _moment(dice, local=local, aligned=aligned)
    return Plan(
        seed=seed, kind=kind, naming=namings[seed // len(kinds) % len(namings)], aligned=aligned,
        group=ground.groups[-1] if "group" in struck else ground.groups[0],
        sink=_copies(dice, ground, outage, dice.randint(1, 2), struck="sink" in struck),
        source=_copies(dice, ground, outage, dice.randint(parallelism, 3), struck="source" in struck),
        letters=_copies(dice, ground, outage, 1, struck="letters" in struck) if has_letters else (),
        min_in_sync=dice.choice((1, 2)), parallelism=parallelism, pool=dice.randint(2, 3),
        crash=crash, act=act, place=place, end=End.KILL if dice.random() < 0.6 else None,
        loss=dice.choice((Loss.WORKER, Loss.EXECUTOR)) if local and dice.random() < 0.4 else None,
        starts_at_once=dice.random() < 0.75, again=dice.randint(0, 4),
        last=dice.choice(_CRASHES_LOCAL if local else _CRASHES) if dice.random() < 0.75 else None,
    )  # fmt: skip


def _struck(dice: random.Random) -> tuple[str, ...]:
    """What has no leader."""
    return dice.choice(
        (("sink",), ("sink",), ("sink",), ("group",), ("group",), ("source",), ("sink", "group"), ("sink", "group"),
         ("sink", "source", "group"))
    )  # fmt: skip


def _copies(
    dice: random.Random, ground: Ground, outage: Outage, partitions: int, *, struck: bool
) -> tuple[tuple[int, ...], ...]:
    """Where each partition is, all with as many copies. Of a struck topic one at least is left without a leader; of
    another topic leaders only change, where its copies allow that."""
    copies = dice.randint(1, min(len(outage.nodes), ground.copies))
    lost = tuple(dice.sample(outage.nodes, copies))
    left = (*dice.sample(ground.victims, copies - 1), SURVIVOR)
    made = [lost if struck and dice.random() < 0.7 else left for _ in range(partitions)]
    if struck:
        made[dice.randrange(partitions)] = lost
    return tuple(made)


_CRASHES = (TaskMoment.PRODUCED, Moment.AFTER_FLUSH, Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS)
_CRASHES_LOCAL = (*InstanceMoment, EngineStep(3))
_STARTS: tuple[Place, ...] = (*OF_A_START, DriverMoment.BEFORE_SWEEP)
_CHECKPOINTS: tuple[Place, ...] = (TaskMoment.PRODUCED, *OF_A_CHECKPOINT, Moment.AFTER_FLUSH, Moment.AFTER_WRITE)
_DRAINS: tuple[Place, ...] = (DriverMoment.BEFORE_DRAIN, DriverMoment.AFTER_DRAIN)


def _moment(dice: random.Random, *, local: bool, aligned: bool) -> tuple[str, Place | None, Place | None]:
    """Act, crash before it, and place in it."""
    number = dice.random()
    if number < 0.3:
        return "start", dice.choice(_CRASHES_LOCAL if local else _CRASHES), dice.choice(_STARTS)
    if number < 0.4:
        return "drain", None, dice.choice(_DRAINS)
    if number < 0.5:
        return "between", None, None
    if local:
        write = StoreWrite(1, effective=dice.random() < 0.5)
        return (
            "checkpoint",
            None,
            dice.choice((*InstanceMoment, *InstanceMoment, EngineStep(dice.randint(1, 8)), write)),
        )
    places = _CHECKPOINTS if aligned else (*_CHECKPOINTS, *[DriverMoment.BEFORE_OFFSET_COMMIT] * 3)
    return "checkpoint", None, dice.choice(places)
