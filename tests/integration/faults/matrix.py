"""What may break, and when: the table, and nothing else.

A cell is a fault, its moment, the parallelism with which the job continues, and the engine. Every cell
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
from sparkapp.model.job.spec import Engine
from tests.support.protocol.moments import OF_A_CHECKPOINT, OF_A_START, Ahead, Moment, Place, StoreWrite, TaskMoment
from tests.support.protocol.overtaking import ACTS, FROM, TO, Overtaking

__all__ = ["FROM", "MATRIX", "TO", "Cell", "Fault", "OvertakingCell", "cells", "overtakings"]

# TO, ``same``: the attempt continues if it can; else it is killed after the checkpoint, and the next attempt starts.
IN_A_CHECKPOINT = (*TaskMoment, *OF_A_CHECKPOINT)
ENGINES = (Engine.MICRO_BATCH, Engine.CONTINUOUS)
EVERY = (*OF_A_START, *IN_A_CHECKPOINT)


class Fault(StrEnum):
    DRIVER = "driver-killed"
    """With all that its attempt has; the next attempt begins at once."""
    EXECUTOR = "executor-killed"
    """With the tasks of several subtasks, all equally far, and every open producer; the driver keeps running."""
    WORKER = "python-worker-killed"
    """One task's process, and its producers; everything else keeps running."""
    WORKER_STANDS_STILL = "python-worker-stands-still"
    """The process of a subtask, by SIGSTOP, for a second; Continuous alone: elsewhere it is the task's next second."""
    WORKER_COMES_BACK = "python-worker-comes-back"
    """By SIGSTOP, until another process has taken the subtask's place; then it continues. Continuous alone."""
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
    SINK = "sink-without-leader"
    """The only copy of every sink partition is away for seconds; the coordinator of every transaction is not."""
    SINK_AND_DRIVER = "sink-without-leader-and-driver-killed"
    """At once; the next attempt starts while the sink has no leader."""
    GROUP = "group-without-leader"
    """The same of the group's offsets."""
    GROUP_AND_DRIVER = "group-without-leader-and-driver-killed"
    SOURCE = "source-without-leader"
    TRANSACTION_LOG = "transaction-log-without-leader"
    """The only copy of the transaction log, whose leader coordinates every transaction."""
    TRANSACTION_LOG_AND_DRIVER = "transaction-log-without-leader-and-driver-killed"
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
    """The moments that a fault is tried at, with each change of parallelism; some of them in every run.

    :param always: with the micro-batch engine. :param continuous: with the continuous engine, where two checkpoints are
        under way: one moment for each fault, as everything below the engines is the same. None: no moment.
    """

    moments: tuple[Moment | TaskMoment, ...]
    always: tuple[Moment | TaskMoment, ...]
    continuous: Moment | TaskMoment | None


# Of a start only its end: nothing runs in executors before.
_OF_EXECUTORS = (Moment.AFTER_BEGIN, *IN_A_CHECKPOINT)
_OVERTAKEN_CONTINUOUS = (TaskMoment.PRODUCED, Moment.BETWEEN_COMMITS)
_OF_A_TASK = (*TaskMoment, Moment.BEFORE_FLUSH)
_OF_ENDS = (TaskMoment.PRODUCED, Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS)
"""Around the ends of transactions."""
_AND_A_START = (Moment.AFTER_CLAIM, Moment.AFTER_SETTLE, *_OF_ENDS)

MATRIX: Mapping[Fault, Row] = {
    Fault.DRIVER: Row(EVERY, (TaskMoment.PRODUCED,), Moment.BETWEEN_COMMITS),
    Fault.EXECUTOR: Row(_OF_EXECUTORS, (TaskMoment.PRODUCED,), TaskMoment.PRODUCED),
    Fault.WORKER: Row(_OF_EXECUTORS, (TaskMoment.PRODUCED,), TaskMoment.READ),
    Fault.WORKER_STANDS_STILL: Row(_OF_EXECUTORS, (), TaskMoment.PRODUCED),
    Fault.WORKER_COMES_BACK: Row(_OF_EXECUTORS, (), TaskMoment.PRODUCED),
    Fault.API_SERVER: Row(EVERY, (Moment.AFTER_FLUSH,), Moment.AFTER_FLUSH),
    Fault.API_SERVER_LONG: Row(EVERY, (Moment.AFTER_FLUSH,), Moment.AFTER_FLUSH),
    Fault.BROKER: Row(EVERY, (TaskMoment.PRODUCED,), Moment.BETWEEN_COMMITS),
    Fault.TRANSACTION_COORDINATOR: Row(EVERY, (Moment.AFTER_WRITE,), Moment.AFTER_WRITE),
    Fault.GROUP_COORDINATOR: Row(EVERY, (TaskMoment.PRODUCED,), TaskMoment.PRODUCED),
    Fault.SINK: Row(_AND_A_START, (Moment.AFTER_WRITE,), Moment.BETWEEN_COMMITS),
    Fault.SINK_AND_DRIVER: Row(_OF_ENDS, (Moment.AFTER_FLUSH,), Moment.AFTER_FLUSH),
    Fault.GROUP: Row(_AND_A_START, (Moment.AFTER_WRITE,), None),
    Fault.GROUP_AND_DRIVER: Row(_OF_ENDS, (), None),
    Fault.SOURCE: Row(_AND_A_START, (), None),
    Fault.TRANSACTION_LOG: Row(_AND_A_START, (), None),
    Fault.TRANSACTION_LOG_AND_DRIVER: Row(_OF_ENDS, (), None),
    Fault.NETWORK: Row(_OF_EXECUTORS, (TaskMoment.PRODUCED,), TaskMoment.PRODUCED),
    Fault.NETWORK_LONG: Row((Moment.AFTER_BEGIN, *_OF_A_TASK), (TaskMoment.PRODUCED,), TaskMoment.PRODUCED),
    Fault.EXECUTOR_SUPERSEDED: Row(
        IN_A_CHECKPOINT, (TaskMoment.PRODUCED, Moment.AFTER_FLUSH, Moment.BETWEEN_COMMITS), Moment.AFTER_WRITE
    ),
    Fault.CLOCK_AHEAD: Row(EVERY, (Moment.AFTER_FLUSH,), Moment.AFTER_FLUSH),
    Fault.CLOCK_BACK: Row(EVERY, (Moment.AFTER_BEGIN,), Moment.AFTER_COMMITS),
    Fault.DISK: Row(EVERY, (TaskMoment.PRODUCED, Moment.AFTER_WRITE), Moment.AFTER_FLUSH),
}  # fmt: skip
_CONTINUOUS_ALONE = (Fault.WORKER_STANDS_STILL, Fault.WORKER_COMES_BACK)
_PIPELINED: Mapping[str, TaskMoment | None] = {"same": TaskMoment.PRODUCED, "up": None, "down": TaskMoment.READ}
"""How far the next checkpoint is when a step of a checkpoint is hit in the continuous engine."""


class Cell(NamedTuple):
    """One story.

    :param always: runs with ``make test-all``; the others by ``python -m tests.soak --matrix``.
    """

    fault: Fault
    moment: Moment | TaskMoment
    change: str
    always: bool
    engine: Engine = Engine.MICRO_BATCH

    @property
    def name(self) -> str:
        return f"{_prefix(self.engine)}{self.fault}-{self.moment}-{self.change}"

    @property
    def ahead(self) -> Ahead | None:
        """The next checkpoint, which has begun when the fault strikes: at a moment of its last task, or at a step of
        the checkpoint before. None where one checkpoint is under way."""
        if self.engine is not Engine.CONTINUOUS or self.moment in (*OF_A_START, Moment.BEFORE_FLUSH):
            return None
        if isinstance(self.moment, TaskMoment):
            return Ahead(Moment.AFTER_WRITE, self.moment)
        return Ahead(self.moment, _PIPELINED[self.change])


def cells() -> Iterator[Cell]:
    """All cells; those that always run alternate the changes of parallelism."""
    for engine in ENGINES:
        turns = cycle(TO)
        for fault, row in MATRIX.items():
            if engine is Engine.MICRO_BATCH and fault in _CONTINUOUS_ALONE:
                continue
            always = row.always if engine is Engine.MICRO_BATCH else (row.continuous,)
            for moment in row.moments:
                chosen = next(turns) if moment in always else ""
                for change in TO:
                    yield Cell(fault, moment, change, change == chosen, engine)


class OvertakingCell(NamedTuple):
    """One story of a driver that freezes, is overtaken and continues.

    :param aligned: False for a pipeline that shuffles. :param always: as of :class:`Cell`.
    """

    overtaking: Overtaking
    naming: TransactionNaming
    aligned: bool
    always: bool
    engine: Engine = Engine.MICRO_BATCH

    @property
    def name(self) -> str:
        each = self.overtaking
        pipeline, prefix = "aligned" if self.aligned else "shuffles", _prefix(self.engine)
        return (
            f"{prefix}overtaken-{each.act}-{_name_of(each.place)}-{each.ahead}-{each.change}-{self.naming}-{pipeline}"
        )


def _prefix(engine: Engine) -> str:
    return "" if engine is Engine.MICRO_BATCH else "continuous-"


def _name_of(place: Place) -> str:
    return f"write-{place.number}" if isinstance(place, StoreWrite) else str(place)


def overtakings() -> Iterator[OvertakingCell]:
    """Every place where a driver may freeze, with a lead of none, one and two checkpoints and each parallelism.

    Naming, kind of pipeline and what the other attempt is at are thrown for each cell, the same in every run.
    """
    for engine in ENGINES:
        leads = cycle(product(range(3), TO))
        for act, places in ACTS.items():
            for place in places:
                chosen = next(leads)
                is_tried = engine is Engine.MICRO_BATCH or place in _OVERTAKEN_CONTINUOUS
                for ahead, change in product(range(3), TO):
                    dice = random.Random(f"{act} {_name_of(place)} {ahead} {change}")
                    overtaking = replace(Overtaking.thrown(dice), act=act, place=place, ahead=ahead, change=change)
                    naming, aligned = dice.choice(list(TransactionNaming)), dice.random() < 0.6
                    yield OvertakingCell(
                        overtaking, naming=naming, aligned=aligned or engine is Engine.CONTINUOUS,
                        always=is_tried and (ahead, change) == chosen, engine=engine,
                    )  # fmt: skip
