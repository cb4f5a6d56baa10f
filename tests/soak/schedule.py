"""One random schedule: all of it follows from its seed."""

from __future__ import annotations

import random
import time
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka.admin import NewTopic

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.job.spec import Engine
from tests.support.kafka.topics import create_topics
from tests.support.protocol.moments import AHEAD, Ahead, DriverMoment, End, Place
from tests.support.protocol.overtaking import IN_A_CHECKPOINT, IN_A_DRAIN, IN_A_START, MEANWHILE, TO, Overtaking
from tests.support.protocol.story import Story

ENGINES = (Engine.MICRO_BATCH, Engine.CONTINUOUS)
_STEPS = 12
_OVERTAKINGS = 0.4
_LONG_TIMEOUT = 60
_SHORT_TIMEOUT = 5
"""Seconds; a checkpoint of a busy machine fits into it."""
_OF_A_CHECKPOINT = (*IN_A_CHECKPOINT, DriverMoment.BEFORE_PREPARE, DriverMoment.BEFORE_PLACE)


@dataclass
class Schedule:
    """Up to a dozen steps of work and faults, then the end of the source and the count of what readers see."""

    seed: int
    engine: Engine | None = None
    """By the seed where it is None: half of the schedules of each naming have either engine."""
    history: list[str] = field(default_factory=list)

    def run(self, bootstrap: str, client: TransactionClient, make_topic: Callable[..., str], *, prefix: str) -> None:
        """Raises AssertionError, with the story, where a record is lost or repeated or a transaction left open."""
        dice = random.Random(self.seed)
        partitions, namings = dice.randint(1, 6), list(TransactionNaming)
        story = Story(
            bootstrap=bootstrap, source=make_topic(partitions, "in"), sink=make_topic(dice.randint(1, 3), "out"),
            prefix=f"{prefix}.{self.seed}", client=client, partitions=partitions, dice=dice,
            naming=namings[self.seed % len(namings)],
            timeout=_SHORT_TIMEOUT if dice.random() < 0.15 else _LONG_TIMEOUT,
            opens_ahead=dice.random() < 0.5, engine=self.engine or list(ENGINES)[self.seed // 2 % 2],
        )  # fmt: skip
        self.history = story.history
        try:
            if partitions > 1 and dice.random() < _OVERTAKINGS:
                # Random steps seldom reach it: it needs another attempt with a lead.
                overtaking, story.timeout = Overtaking.thrown(dice), _LONG_TIMEOUT
                story.history.append(str(overtaking))
                overtaking.play(story)
                story.finish(TO[overtaking.change])
                return
            self._produce(story, dice)
            for _ in range(dice.randint(3, _STEPS)):
                self._step(story, dice)
            story.finish(dice.randint(1, 4))
        finally:
            story.close()

    def _step(self, story: Story, dice: random.Random) -> None:
        number = dice.random()
        if not story.running or number < 0.15:
            self._start(story, dice)
        elif number < 0.30:
            self._produce(story, dice)
        elif number < 0.52:
            story.checkpoint(retry=dice.random() < 0.25, ahead=self._ahead(dice))
        elif number < 0.80:
            story.checkpoint((dice.choice(_OF_A_CHECKPOINT), self._end(dice)), ahead=self._ahead(dice))
        elif number < 0.84:
            story.drain((dice.choice(IN_A_DRAIN), self._end(dice)))
        elif number < 0.92:
            if story.frozen:
                self._thaw(story, dice)
        else:
            self._change(story, dice)

    @staticmethod
    def _ahead(dice: random.Random) -> Ahead | None:
        return dice.choice(AHEAD) if dice.random() < 0.5 else None

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
            story.checkpoint((dice.choice(MEANWHILE), thaw))

    def _start(self, story: Story, dice: random.Random) -> None:
        stop: tuple[Place, End] | None = None
        if dice.random() < 0.25:
            stop = dice.choice(IN_A_START), self._end(dice)
        story.start(dice.randint(1, 5), dice.randint(2, 4), stop, stepwise=dice.random() < 0.6)

    @staticmethod
    def _end(dice: random.Random) -> End:
        return End.FREEZE if dice.random() < 0.3 else End.KILL


def run_schedule(work: tuple[str, int, float, Engine | None]) -> tuple[int, str | None]:
    """Runs a schedule in a process of the soak: its seed, and its trace (empty if clean, None if the time is up).

    :param work: the broker's address, the seed, when the time is up by the monotonic clock, and the engine.
    """
    bootstrap, seed, until, engine = work
    if time.monotonic() > until:
        return seed, None
    client = TransactionClient({"bootstrap.servers": bootstrap})
    run = uuid.uuid4().hex[:8]

    def make_topic(partitions: int, name: str) -> str:
        topic = f"soak.{run}.{seed}.{name}"
        create_topics(bootstrap, NewTopic(topic, partitions, 1))
        return topic

    schedule = Schedule(seed, engine)
    try:
        schedule.run(bootstrap, client, make_topic, prefix=f"soak.{run}")
    except Exception:
        return seed, traceback.format_exc() + "\n".join(schedule.history)
    finally:
        client.close()
    return seed, ""
