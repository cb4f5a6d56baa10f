"""A driver freezes, another attempt runs ahead, the driver continues: a story for each place and each lead."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sparkapp.model.job.spec import Engine
from sparkapp.model.partition import split_owner
from tests.support.protocol.attempt import AttemptRun
from tests.support.protocol.moments import (
    OF_A_CHECKPOINT,
    OF_A_START,
    Ahead,
    DriverMoment,
    End,
    EngineStep,
    InstanceMoment,
    Moment,
    Place,
    StoreWrite,
    TaskMoment,
)
from tests.support.protocol.story import Story

FROM = 2
TO = {"same": 2, "up": 3, "down": 1}

IN_A_START: tuple[Place, ...] = (StoreWrite(1, effective=False), DriverMoment.BEFORE_SWEEP, *OF_A_START)
IN_A_FIRST_CHECKPOINT: tuple[Place, ...] = (DriverMoment.BEFORE_PREPARE, DriverMoment.BEFORE_PLACE)
IN_A_CHECKPOINT: tuple[Place, ...] = (
    *TaskMoment, *OF_A_CHECKPOINT, StoreWrite(1, effective=False), DriverMoment.BEFORE_OFFSET_COMMIT,
)  # fmt: skip
IN_A_DRAIN: tuple[Place, ...] = (DriverMoment.BEFORE_DRAIN, DriverMoment.AFTER_DRAIN)
ACTS: Mapping[str, tuple[Place, ...]] = {
    "start": IN_A_START, "first": IN_A_FIRST_CHECKPOINT, "checkpoint": IN_A_CHECKPOINT, "drain": IN_A_DRAIN,
}  # fmt: skip
MEANWHILE: tuple[Place, ...] = (
    TaskMoment.PRODUCED, Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS,
)  # fmt: skip


LOCAL_ACTS: Mapping[str, tuple[Place, ...]] = {
    "start": IN_A_START,
    "first": (
        *(StoreWrite(number, effective=effective) for number in (1, 2) for effective in (False, True)),
        *InstanceMoment, EngineStep(1), EngineStep(4),
    ),
    "checkpoint": (StoreWrite(1, effective=False), StoreWrite(1, effective=True), EngineStep(1)),
    "drain": IN_A_DRAIN,
}  # fmt: skip
"""Those of an attempt of the local pace, whose first checkpoint has a grant before its record."""
LOCAL_MEANWHILE: tuple[Place, ...] = (
    StoreWrite(1, effective=False), StoreWrite(1, effective=True), *InstanceMoment, EngineStep(1), EngineStep(5),
)  # fmt: skip


def nothing() -> None:
    """Happens."""


@dataclass(frozen=True)
class Overtaking:
    """One story.

    :param act: what the driver is in: ``start``, ``first`` (checkpoint), ``checkpoint`` or ``drain``.
    :param place: where it freezes.
    :param ahead: checkpoints that the other attempt completes meanwhile.
    :param change: of the parallelism, by the other attempt.
    :param dies: the other attempt is dead when the driver continues; otherwise it keeps running.
    :param during: where in its next checkpoint the other attempt is then; None: between two of them.
    :param draining: the driver was asked to stop while it stood still.
    """

    act: str
    place: Place
    ahead: int = 0
    change: str = "same"
    dies: bool = False
    during: Place | None = None
    draining: bool = False

    @classmethod
    def thrown(cls, dice: random.Random, *, local_pace: bool = False) -> Overtaking:
        """Any of them.

        :param local_pace: of the attempt that is overtaken.
        """
        acts, meanwhile = (LOCAL_ACTS, LOCAL_MEANWHILE) if local_pace else (ACTS, MEANWHILE)
        act = dice.choice([*acts, "checkpoint"])
        during = dice.choice(meanwhile) if dice.random() < 0.5 else None
        return cls(
            act=act, place=dice.choice(acts[act]), ahead=dice.randrange(3), change=dice.choice(list(TO)),
            dies=dice.random() < 0.4, during=during, draining=dice.random() < 0.3,
        )  # fmt: skip

    def play(self, job: Story, count: int = 30, *, turn: Callable[[], None] = nothing) -> AttemptRun:
        """Up to the superseded driver's end, which the caller may look at; :meth:`Story.finish` is the caller's.

        :param job: with two partitions or more, so that each of two subtasks has one.
        :param count: records of each step; fewer than a checkpoint takes.
        :param turn: called before the other attempt starts.
        """
        silent: set[int] = set()
        if self._next_has_begun(job):
            count *= 2
        elif self.place is not Moment.BETWEEN_COMMITS:
            silent = {each for each in range(job.partitions) if split_owner(job.source, each, FROM) == FROM - 1}
        job.produce(count)
        job.start(FROM)
        job.checkpoint()
        job.produce(count, silent=silent)
        self._freeze(job, count)
        assert job.frozen == 1, f"{self}: {job.history}"
        job.produce(count)
        turn()
        job.start(TO[self.change])
        for _ in range(self.ahead):
            if not job.running:
                job.start(TO[self.change])
            job.checkpoint()
            job.produce(count)
        ended: list[AttemptRun] = []

        def thaw() -> End | None:
            ended.append(job.thaw(draining=self.draining))
            return End.KILL if self.dies else None

        if self.during is not None and job.running:
            job.checkpoint((self.during, thaw))
        elif self.dies:
            job.kill()
        if not ended:
            thaw()
        return ended[0]

    def _freeze(self, job: Story, count: int) -> None:
        stop = (self.place, End.FREEZE)
        if self.act == "start":
            job.checkpoint((Moment.AFTER_WRITE, End.KILL))
            if self.place is DriverMoment.BEFORE_SWEEP:
                job.produce(count)
                job.start(FROM)
                job.checkpoint((Moment.AFTER_FLUSH, End.KILL))
            job.start(FROM, stop=stop)
        elif self.act == "first":
            job.kill()
            job.start(FROM)
            job.checkpoint(stop)
        elif self.act == "drain":
            job.checkpoint()
            job.drain(stop)
        elif self._next_has_begun(job):
            assert isinstance(self.place, Moment)
            job.checkpoint(stop, ahead=Ahead(self.place, None if self.dies else TaskMoment.PRODUCED))
        else:
            job.checkpoint(stop)

    def _next_has_begun(self, job: Story) -> bool:
        """In the continuous engine, at the steps of a checkpoint's completion, with every other parallelism."""
        is_completed = self.act == "checkpoint" and self.place in OF_A_CHECKPOINT[1:]
        return is_completed and job.engine is Engine.CONTINUOUS and self.change != "same"
