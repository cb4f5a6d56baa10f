"""The steps of a schedule of the local pace: work and faults of an attempt whose subtasks commit by themselves."""

from __future__ import annotations

import random
from collections.abc import Callable

from sparkapp.model.errors import (
    GroupOffsetsBehind,
    GroupOffsetsMissing,
    GroupOffsetsMoved,
    StateRolledBack,
    StateUncertain,
)
from tests.soak.kinds import KINDS, Pace
from tests.support.kafka.late_requests import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    TXN_OFFSET_COMMIT,
    LateRequests,
)
from tests.support.protocol.moments import DriverMoment, End, EngineStep, InstanceMoment, Loss, Place, StoreWrite
from tests.support.protocol.overtaking import IN_A_DRAIN
from tests.support.protocol.story import Story

LOSSES = (Loss.WORKER, Loss.EXECUTOR, Loss.STANDS_STILL, Loss.COMES_BACK)
DOUBTS = (GroupOffsetsBehind, GroupOffsetsMissing, GroupOffsetsMoved, StateRolledBack, StateUncertain)
"""Errors of an attempt for which nobody but a person or a broker that lost data can be the cause."""
_REQUESTS = (END_TXN, END_TXN, TXN_OFFSET_COMMIT, TXN_OFFSET_COMMIT, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN,
             INIT_PRODUCER_ID)  # fmt: skip
_LATE = 0.4
_STAYS = 0.7


class LocalSteps:
    """Made for a schedule of the local pace.

    :param may_lose: subtasks may reach the broker by a way that loses answers and requests.
    :param thaw: the schedule's own step for frozen attempts.
    """

    def __init__(self, story: Story, dice: random.Random, *, may_lose: bool, thaw: Callable[[], None]) -> None:
        self._story, self._dice, self._thaw = story, dice, thaw
        loses = dice.random() < _LATE
        self._way = LateRequests(story.bootstrap) if loses and may_lose else None
        if self._way is not None:
            story.executors = self._way.address

    def choose(self) -> None:
        """Engine and pace of the next attempt: mostly the local pace."""
        kind = KINDS[-1] if self._dice.random() < _STAYS else self._dice.choice(KINDS[:-1])
        self._story.engine, self._story.local_pace = kind.engine, kind.pace is Pace.LOCAL

    def step(self) -> None:
        """One step of the running attempt, which has the local pace."""
        story, number = self._story, self._dice.random()
        if number < 0.15:
            story.checkpoint()
        elif number < 0.45:
            self._checkpoint(self._end())
        elif number < 0.70:
            self._checkpoint(self._loss)
        elif number < 0.76:
            story.drain()
        elif number < 0.80:
            story.drain((self._dice.choice(IN_A_DRAIN), self._end()))
        elif number < 0.85:
            story.kill_driver()
        elif number < 0.92 and self._way is not None:
            self._lose(self._way)
        elif story.strays:
            story.thaw_strays()
        elif story.frozen:
            self._thaw()
        else:
            story.checkpoint()

    def place(self) -> Place:
        """Where something happens in a checkpoint."""
        dice = self._dice
        writes = tuple(StoreWrite(dice.choice((1, 1, 2, 3)), effective=effective) for effective in (False, True))
        groups: tuple[tuple[Place, ...], ...] = (
            writes, tuple(InstanceMoment), (EngineStep(dice.randint(1, 15)),),
            (DriverMoment.BEFORE_EVIDENCE, DriverMoment.AFTER_EVIDENCE),
        )  # fmt: skip
        return dice.choice(dice.choice(groups))

    def end(self) -> None:
        """Before the count: the requests that are kept arrive."""
        if self._way is not None and self._way.withheld:
            self._story.history.append("what was withheld arrives")
            self._story.repeat_requests()  # perhaps of an attempt that began behind the fault
            self._way.deliver()

    def close(self) -> None:
        """Ends the way."""
        if self._way is not None:
            self._way.close()

    def require_no_doubt(self) -> None:
        """No attempt was in doubt of where to resume."""
        doubts = [error for error in self._story.failures if isinstance(error, DOUBTS)]
        assert not doubts, f"{doubts}: {self._story.history}"

    def _checkpoint(self, what: End | Callable[[], Loss]) -> None:
        """Records come while it runs, so that there is something to commit."""
        story, count, place = self._story, self._dice.randint(1, 60), self.place()
        if place in (DriverMoment.BEFORE_EVIDENCE, DriverMoment.AFTER_EVIDENCE):
            story.checkpoint((EngineStep(1), self._loss), meanwhile=lambda: story.produce(count))
            if not story.running:
                return
        story.checkpoint((place, what), meanwhile=lambda: story.produce(count))

    def _lose(self, way: LateRequests) -> None:
        """A request arrives late and twice, or its answer is lost; or what was withheld arrives."""
        number, request = self._dice.random(), self._dice.choice(_REQUESTS)
        self._story.repeat_requests()
        if way.withheld and number < 0.5:
            self._story.history.append("what was withheld arrives")
            way.deliver()
        elif number < 0.75:
            self._story.history.append(f"request {request} is withheld")
            way.withhold(request)
        else:
            self._story.history.append(f"the answer to request {request} is lost")
            way.swallow(request, end=True)
        self._story.produce(self._dice.randint(1, 60))
        self._story.checkpoint()

    def _loss(self) -> Loss:
        loss = self._dice.choice(LOSSES)
        self._story.history.append(f"  a subtask: {loss}")
        return loss

    def _end(self) -> End:
        return End.FREEZE if self._dice.random() < 0.4 else End.KILL
