"""One random schedule: all of it follows from its seed."""

from __future__ import annotations

import random
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka.admin import NewTopic

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.naming import TransactionNaming
from tests.soak.kinds import KINDS, Kind, Pace
from tests.soak.local_steps import LocalSteps
from tests.soak.state.group import Group
from tests.support.kafka.topics import create_topics
from tests.support.protocol.moments import AHEAD, Ahead, DriverMoment, End, Place
from tests.support.protocol.overtaking import (
    IN_A_CHECKPOINT,
    IN_A_DRAIN,
    IN_A_START,
    LOCAL_MEANWHILE,
    MEANWHILE,
    TO,
    Overtaking,
    nothing,
)
from tests.support.protocol.story import Story

_STEPS = 12
_CHANGES = 0.92
_OVERTAKINGS = 0.4
_LONG_TIMEOUT = 60
_SHORT_TIMEOUT = 5
"""Seconds; a checkpoint of a busy machine fits into it."""
_OF_A_CHECKPOINT = (*IN_A_CHECKPOINT, DriverMoment.BEFORE_PREPARE, DriverMoment.BEFORE_PLACE)


@dataclass
class Schedule:
    """Up to a dozen steps of work and faults, then the end of the source and the count of what readers see."""

    seed: int
    kinds: tuple[Kind, ...] = KINDS
    """The seed decides which: with each naming, each of them has as many schedules."""
    breaks: bool = False
    """Whether the broker is killed and frozen meanwhile."""
    history: list[str] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        return self.kinds[self.seed // 2 % len(self.kinds)]

    def run(self, bootstrap: str, client: TransactionClient, make_topic: Callable[..., str], *, prefix: str) -> None:
        """Raises AssertionError, with the story, where a record is lost or repeated or a transaction left open."""
        dice = random.Random(self.seed)
        partitions, namings = dice.randint(1, 6), list(TransactionNaming)
        story = Story(
            bootstrap=bootstrap, source=make_topic(partitions, "in"), sink=make_topic(dice.randint(1, 3), "out"),
            prefix=f"{prefix}.{self.seed}", client=client, partitions=partitions, dice=dice,
            naming=namings[self.seed % len(namings)],
            timeout=_SHORT_TIMEOUT if dice.random() < 0.15 else _LONG_TIMEOUT,
            opens_ahead=dice.random() < 0.5, engine=self.kind.engine, local_pace=self.kind.pace is Pace.LOCAL,
        )  # fmt: skip
        self.history = story.history
        local = None
        if self.kind.pace is Pace.LOCAL:
            local = LocalSteps(story, dice, may_lose=not self.breaks, thaw=lambda: self._thaw(story, dice))
        try:
            parallelism = self._play(story, dice, local)
            if local is not None:
                local.end()
            story.finish(parallelism)
            if local is not None and not self.breaks:
                local.require_no_doubt()
        finally:
            story.close()
            if local is not None:
                local.close()

    def _play(self, story: Story, dice: random.Random, local: LocalSteps | None) -> int:
        """All but the end; returns the parallelism with which the story ends."""
        if story.partitions > 1 and dice.random() < _OVERTAKINGS:
            # Random steps seldom reach it: it needs another attempt with a lead.
            overtaking, story.timeout = Overtaking.thrown(dice, local_pace=local is not None), _LONG_TIMEOUT
            story.history.append(str(overtaking))
            overtaking.play(story, turn=nothing if local is None else local.choose)
            return TO[overtaking.change]
        self._produce(story, dice)
        for _ in range(dice.randint(3, _STEPS)):
            self._step(story, dice, local)
        return dice.randint(1, 4)

    def _step(self, story: Story, dice: random.Random, local: LocalSteps | None) -> None:
        number = dice.random()
        if not story.running or number < 0.15:
            if local is not None and story.attempts:
                local.choose()
            self._start(story, dice)
        elif number < 0.30:
            self._produce(story, dice)
        elif local is not None and story.runs_locally and number < _CHANGES:
            local.step()
        elif number < 0.52:
            meanwhile = self._meanwhile(story, dice)
            story.checkpoint(retry=dice.random() < 0.25, ahead=self._ahead(dice), meanwhile=meanwhile)
        elif number < 0.80:
            stop = dice.choice(_OF_A_CHECKPOINT), self._end(dice)
            story.checkpoint(stop, ahead=self._ahead(dice), meanwhile=self._meanwhile(story, dice))
        elif number < 0.84:
            story.drain((dice.choice(IN_A_DRAIN), self._end(dice)))
        elif number < _CHANGES:
            if story.frozen:
                self._thaw(story, dice)
        else:
            self._change(story, dice)

    @staticmethod
    def _ahead(dice: random.Random) -> Ahead | None:
        return dice.choice(AHEAD) if dice.random() < 0.5 else None

    def _meanwhile(self, story: Story, dice: random.Random) -> Callable[[], None] | None:
        """Records that come before a checkpoint's barrier, in some checkpoints of the continuous engine."""
        if not story.runs_continuously or story.runs_locally or dice.random() < 0.5:
            return None
        return lambda: self._produce(story, dice)

    @staticmethod
    def _change(story: Story, dice: random.Random) -> None:
        number = dice.random()
        if number < 0.25:
            story.change_prefix()
        elif number < 0.5:
            story.change_naming()
        elif story.timeout == _SHORT_TIMEOUT:
            story.expire()

    def _produce(self, story: Story, dice: random.Random) -> None:
        """Of some partitions it may be what the transform leaves out."""
        silent = dice.sample(range(story.partitions), dice.randint(0, story.partitions)) if dice.random() < 0.3 else ()
        story.produce(dice.randint(1, 120), silent=silent)

    def _thaw(self, story: Story, dice: random.Random) -> None:
        """Between two checkpoints of the newest attempt, or in the middle of one."""
        draining = dice.random() < 0.3

        def thaw() -> None:
            story.thaw(draining=draining)

        if dice.random() < 0.5:
            thaw()
        else:
            story.checkpoint((dice.choice(LOCAL_MEANWHILE if story.runs_locally else MEANWHILE), thaw))

    def _start(self, story: Story, dice: random.Random) -> None:
        stop: tuple[Place, End] | None = None
        if dice.random() < 0.25:
            stop = dice.choice(IN_A_START), self._end(dice)
        story.start(dice.randint(1, 5), dice.randint(2, 4), stop, stepwise=dice.random() < 0.6)

    @staticmethod
    def _end(dice: random.Random) -> End:
        return End.FREEZE if dice.random() < 0.3 else End.KILL


class Work(NamedTuple):
    """What a process of the soak runs.

    :param seeds: of a schedule, or of a group of jobs with state.
    :param until: when the time is up, by the monotonic clock. :param kinds: see :class:`Schedule`, as ``breaks``.
    :param keeps_state: whether they are jobs with state, with Spark.
    """

    bootstrap: str
    seeds: Sequence[int]
    until: float
    kinds: tuple[Kind, ...]
    breaks: bool
    keeps_state: bool


def run_schedules(work: Work) -> tuple[Sequence[int], str | None]:
    """Runs schedules in a process of the soak: their seeds, and a trace (empty if clean, None if the time is up)."""
    bootstrap, seeds, until, kinds, breaks, keeps_state = work
    if time.monotonic() > until:
        return seeds, None
    client = TransactionClient({"bootstrap.servers": bootstrap})
    run = uuid.uuid4().hex[:8]

    def make_topic(partitions: int, name: str) -> str:
        topic = f"soak.{run}.{seeds[0]}.{name}"
        create_topics(bootstrap, NewTopic(topic, partitions, 1))
        return topic

    schedule = Group(seeds) if keeps_state else Schedule(seeds[0], kinds, breaks)
    try:
        schedule.run(bootstrap, client, make_topic, prefix=f"soak.{run}")
    except Exception:
        return seeds, traceback.format_exc() + "\n".join(schedule.history)
    finally:
        client.close()
    return seeds, ""
