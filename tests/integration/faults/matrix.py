"""What may break, and when: the table, and nothing else.

A cell is a fault, its moment, and the parallelism with which the job continues. Every cell
ends with every record once for readers of committed records and no transaction open (``Story.finish``).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import cycle, product
from typing import NamedTuple

from sparkapp.model.checkpoint.naming import TransactionNaming
from tests.support.protocol.moments import OF_A_CHECKPOINT, OF_A_START, Moment, Place, StoreWrite, TaskMoment
from tests.support.protocol.overtaking import ACTS, FROM, TO, Overtaking

__all__ = ["FROM", "MATRIX", "TO", "Cell", "Fault", "OvertakingCell", "cells", "overtakings"]

# TO, ``same``: the attempt continues if it can; else it is killed after the checkpoint, and the next attempt starts.
IN_A_CHECKPOINT = (*TaskMoment, *OF_A_CHECKPOINT)
EVERY = (*OF_A_START, *IN_A_CHECKPOINT)


class Fault(StrEnum):
    DRIVER = "driver-killed"
    """With all that its attempt has; the next attempt begins at once."""
    EXECUTOR = "executor-killed"
    """With the tasks of several subtasks, all equally far, and every open producer; the driver keeps running."""
    WORKER = "python-worker-killed"
    """One task's process, and its producers; everything else keeps running."""
    API_SERVER = "api-server-away"
    """For a second, which is less than a write is repeated."""
    API_SERVER_LONG = "api-server-away-for-long"
    """For longer: until the attempt has ended."""
    BROKER = "broker-restarted"
    """The only broker ends and comes back seconds later; the job continues meanwhile."""
    TRANSACTION_COORDINATOR = "transaction-coordinator-killed"
    """The coordinator of the job's transactional ids, of three brokers; it stays away until the job is through."""
    GROUP_COORDINATOR = "group-coordinator-killed"
    """The coordinator of the job's group, which is another broker; it stays away as long."""
    NETWORK = "network-cut-and-healed"
    """Executors do not reach the broker for some seconds; nothing is closed."""
    NETWORK_LONG = "network-cut-for-long"
    """For longer than a task waits: the attempt ends, and executors of the next attempt are on another node."""
    EXECUTOR_SUPERSEDED = "executor-comes-back"
    """Cut off in the middle of a task, and superseded meanwhile; then the network is restored and it continues."""
    CLOCK_AHEAD = "clock-set-ahead"
    CLOCK_BACK = "clock-set-back"
    """The clock of the job's nodes, by an hour."""
    DISK = "disk-full"
    """The volume of the checkpoint's file has no byte left until the attempt has failed."""


@dataclass(frozen=True, slots=True)
class Row:
    """The moments that a fault is tried at, with each change of parallelism; some of them in every run."""

    moments: tuple[Moment | TaskMoment, ...]
    always: tuple[Moment | TaskMoment, ...]


# Of a start only its end: nothing runs in executors before.
_OF_EXECUTORS = (Moment.AFTER_BEGIN, *IN_A_CHECKPOINT)
_OF_A_TASK = (*TaskMoment, Moment.BEFORE_FLUSH)

MATRIX: Mapping[Fault, Row] = {
    Fault.DRIVER: Row(EVERY, (TaskMoment.PRODUCED,)),
    Fault.EXECUTOR: Row(_OF_EXECUTORS, (TaskMoment.PRODUCED,)),
    Fault.WORKER: Row(_OF_EXECUTORS, (TaskMoment.PRODUCED,)),
    Fault.API_SERVER: Row(EVERY, (Moment.AFTER_FLUSH,)),
    Fault.API_SERVER_LONG: Row(EVERY, (Moment.AFTER_FLUSH,)),
    Fault.BROKER: Row(EVERY, (TaskMoment.PRODUCED,)),
    Fault.TRANSACTION_COORDINATOR: Row(EVERY, (Moment.AFTER_WRITE,)),
    Fault.GROUP_COORDINATOR: Row(EVERY, (TaskMoment.PRODUCED,)),
    Fault.NETWORK: Row(_OF_EXECUTORS, (TaskMoment.PRODUCED,)),
    Fault.NETWORK_LONG: Row((Moment.AFTER_BEGIN, *_OF_A_TASK), (TaskMoment.PRODUCED,)),
    Fault.EXECUTOR_SUPERSEDED: Row(
        IN_A_CHECKPOINT, (TaskMoment.PRODUCED, Moment.AFTER_FLUSH, Moment.BETWEEN_COMMITS)
    ),
    Fault.CLOCK_AHEAD: Row(EVERY, (Moment.AFTER_FLUSH,)),
    Fault.CLOCK_BACK: Row(EVERY, (Moment.AFTER_BEGIN,)),
    Fault.DISK: Row(EVERY, (TaskMoment.PRODUCED, Moment.AFTER_WRITE)),
}  # fmt: skip


class Cell(NamedTuple):
    """One story.

    :param always: runs with every ``make test``; the others by ``python -m tests.soak --matrix``.
    """

    fault: Fault
    moment: Moment | TaskMoment
    change: str
    always: bool

    @property
    def name(self) -> str:
        return f"{self.fault}-{self.moment}-{self.change}"


def cells() -> Iterator[Cell]:
    """All cells; those that always run alternate the changes of parallelism."""
    turns = cycle(TO)
    for fault, row in MATRIX.items():
        for moment in row.moments:
            chosen = next(turns) if moment in row.always else ""
            for change in TO:
                yield Cell(fault, moment, change, change == chosen)


class OvertakingCell(NamedTuple):
    """One story of a driver that freezes, is overtaken and continues.

    :param aligned: False for a pipeline that shuffles. :param always: as of :class:`Cell`.
    """

    overtaking: Overtaking
    naming: TransactionNaming
    aligned: bool
    always: bool

    @property
    def name(self) -> str:
        one = self.overtaking
        pipeline = "aligned" if self.aligned else "shuffles"
        return f"overtaken-{one.act}-{_name_of(one.place)}-{one.ahead}-{one.change}-{self.naming}-{pipeline}"


def _name_of(place: Place) -> str:
    return f"write-{place.number}" if isinstance(place, StoreWrite) else str(place)


def overtakings() -> Iterator[OvertakingCell]:
    """Every place where a driver may freeze, with a lead of none, one and two checkpoints and each parallelism.

    Naming, kind of pipeline and what the other attempt is at are thrown for each cell, the same in every run.
    """
    leads = cycle(product(range(3), TO))
    for act, places in ACTS.items():
        for place in places:
            chosen = next(leads)
            for ahead, change in product(range(3), TO):
                dice = random.Random(f"{act} {_name_of(place)} {ahead} {change}")
                overtaking = replace(Overtaking.thrown(dice), act=act, place=place, ahead=ahead, change=change)
                yield OvertakingCell(
                    overtaking, naming=dice.choice(list(TransactionNaming)), aligned=dice.random() < 0.6,
                    always=(ahead, change) == chosen,
                )  # fmt: skip
