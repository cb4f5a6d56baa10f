"""Where in an attempt something may happen, and what: ends, losses, and incidents around it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple


class Moment(StrEnum):
    """Where an attempt may end: the steps of a start, and of a checkpoint (:class:`ProtocolStep`'s names)."""

    AFTER_CLAIM = "after-claim"
    AFTER_SETTLE = "after-settle"
    AFTER_ABORT = "after-abort"
    AFTER_BEGIN = "after-begin"
    BEFORE_FLUSH = "before-flush"
    AFTER_FLUSH = "after-flush"
    AFTER_WRITE = "after-write"
    BETWEEN_COMMITS = "between-commits"
    AFTER_COMMITS = "after-commits"


OF_A_START = tuple(Moment)[:4]
OF_A_CHECKPOINT = tuple(Moment)[4:]


class TaskMoment(StrEnum):
    """Further places where something may happen: within the last task of a checkpoint, whose others are done."""

    BEGUN = "task-begun"
    """Nothing is read yet."""
    READ = "task-has-read"
    """The first records are there, none is written."""
    PRODUCED = "task-has-produced"
    """Every record is with the client, nothing is acknowledged for sure."""


class Ahead(NamedTuple):
    """How far the subtasks are with the next checkpoint while one is completed (ADR 50).

    :param at: step of the completed checkpoint at which the next one is begun.
    :param to: where the last of its tasks then stands; None: all have pre-committed.
    """

    at: Moment
    to: TaskMoment | None


AHEAD = tuple(
    Ahead(at, to)
    for at in (Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS)
    for to in (*TaskMoment, None)
)


class DriverMoment(StrEnum):
    """Further places of a driver, in the order in which it comes to them."""

    BEFORE_PREPARE = "before-prepare"
    """The next checkpoint is planned, the group is not asked yet."""
    BEFORE_PLACE = "before-place"
    """The group's marks of the starts are about to be written."""
    BEFORE_OFFSET_COMMIT = "before-offset-commit"
    """The checkpoint is committed, offsets that were in no transaction are about to be."""
    BEFORE_DRAIN = "before-drain"
    """An orderly stop is about to be written."""
    AFTER_DRAIN = "after-drain"
    BEFORE_SWEEP = "before-sweep"
    """Open transactions have been listed and are about to be aborted."""
    BEFORE_EVIDENCE = "before-evidence"
    """A new instance of the local pace is open, the group is not asked yet."""
    AFTER_EVIDENCE = "after-evidence"
    """The group has said where the new instance starts, which is not granted yet."""


class InstanceMoment(StrEnum):
    """Further places in the local pace: within a subtask, which waits there."""

    OPENED = "instance-is-open"
    """The driver does not know yet."""
    COMMITS = "instance-commits"
    """All is with the client, and the commit is about to be sent."""
    COMMITTED = "instance-has-committed"
    """The driver does not know yet."""


class EndMoment(StrEnum):
    """A further place in an orderly stop of the continuous engine."""

    ANSWERED = "subtasks-have-answered"
    """Every subtask has given its last answer. Their tasks still run, and the document is about to be written."""


class EngineStep(NamedTuple):
    """Another place in the local pace: that many steps of the engine after the begin of a checkpoint."""

    number: int


class StoreWrite(NamedTuple):
    """Another place where an attempt may end: a write of the document, counted from 1 in a start or a checkpoint.

    :param effective: once it has taken effect, else before it was sent.
    """

    number: int
    effective: bool


IN_A_RESCALE = (StoreWrite(1, effective=False), StoreWrite(1, effective=True))
"""Where an attempt may end that is rescaled in place between two checkpoints."""

Place = Moment | TaskMoment | DriverMoment | StoreWrite | InstanceMoment | EndMoment | EngineStep


class End(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    STRAND = "strand"
    """It continues, and nobody waits for it: the attempt continues without it."""


class Loss(StrEnum):
    """Processes that end silently while the attempt continues: Spark starts other processes for their tasks."""

    WORKER = "worker"
    """The Python worker of the current task, or of the last task."""
    EXECUTOR = "executor"
    """Every Python worker."""
    STANDS_STILL = "stands-still"
    """The worker of the last task, for a second; only in the continuous engine, where it is a process."""
    STAYS_AWAY = "stays-away"
    """The same worker, and no other has its place until the next checkpoint; only in the continuous engine."""
    COMES_BACK = "comes-back"
    """The same worker, until another has taken its place; then it continues."""


Incident = Callable[[], End | Loss | None]
"""Breaks something around the attempt, which continues unless an end is returned."""
Stop = tuple[Place, End | Incident]


class Killed(BaseException):
    """Ends the thread that is the attempt's process; nothing catches it."""


class TasksLost(Exception):
    """Ends the tasks at hand; they are tried again."""
