"""One random schedule: all of it follows from its seed."""

from __future__ import annotations

import random
import time
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka.admin import NewTopic

from sparkapp.model.transaction_naming import TransactionNaming
from sparkapp.sink.transaction_client import TransactionClient
from tests.support.protocol_moments import OF_A_CHECKPOINT, OF_A_START, End, Moment
from tests.support.protocol_story import Story
from tests.support.topics import create_topics

_STEPS = 12
_SHORT_TIMEOUT = 2


@dataclass
class Schedule:
    """Up to a dozen steps of work and faults, then the end of the source and the count of what readers see."""

    seed: int
    told: list[str] = field(default_factory=list)

    def run(self, bootstrap: str, client: TransactionClient, make_topic: Callable[..., str], *, prefix: str) -> None:
        """Raises AssertionError, with the story, where a record is lost or repeated or a transaction left open."""
        dice = random.Random(self.seed)
        partitions, namings = dice.randint(1, 6), list(TransactionNaming)
        story = Story(
            bootstrap=bootstrap, source=make_topic(partitions, "in"), sink=make_topic(dice.randint(1, 3), "out"),
            prefix=f"{prefix}.{self.seed}", client=client, partitions=partitions, dice=dice,
            naming=namings[self.seed % len(namings)],
            timeout=_SHORT_TIMEOUT if dice.random() < 0.15 else 60,
        )  # fmt: skip
        self.told = story.told
        try:
            story.produce(dice.randint(1, 120))
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
            story.produce(dice.randint(1, 120))
        elif number < 0.55:
            story.checkpoint(retry=dice.random() < 0.25)
        elif number < 0.85:
            story.checkpoint((dice.choice(OF_A_CHECKPOINT), self._end(dice)))
        elif number < 0.92:
            if story.frozen:
                story.thaw()
        elif number < 0.94:
            story.change_prefix()
        elif number < 0.96:
            story.change_naming()
        elif story.timeout == _SHORT_TIMEOUT:
            story.expire()

    def _start(self, story: Story, dice: random.Random) -> None:
        stop: tuple[Moment, End] | None = None
        if dice.random() < 0.25:
            stop = dice.choice(OF_A_START), self._end(dice)
        story.start(dice.randint(1, 5), dice.randint(2, 4), stop, stepwise=dice.random() < 0.6)

    @staticmethod
    def _end(dice: random.Random) -> End:
        return End.FREEZE if dice.random() < 0.3 else End.KILL


def run_one(work: tuple[str, int, float]) -> tuple[int, str | None]:
    """One schedule in a process of the soak: its seed, and its trace (empty if clean, None if the time is up).

    :param work: the broker's address, the seed, and when the time is up by the monotonic clock.
    """
    bootstrap, seed, until = work
    if time.monotonic() > until:
        return seed, None
    client = TransactionClient({"bootstrap.servers": bootstrap})
    run = uuid.uuid4().hex[:8]

    def make_topic(partitions: int, name: str) -> str:
        topic = f"soak.{run}.{seed}.{name}"
        create_topics(bootstrap, NewTopic(topic, partitions, 1))
        return topic

    schedule = Schedule(seed)
    try:
        schedule.run(bootstrap, client, make_topic, prefix=f"soak.{run}")
    except Exception:
        return seed, traceback.format_exc() + "\n".join(schedule.told)
    finally:
        client.close()
    return seed, ""
