"""Stories that hypothesis invents: any order of work, crashes, pauses, rescales, expiries and other names."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.spec import Engine
from tests.soak.schedule import Schedule
from tests.support.protocol.moments import AHEAD, IN_A_RESCALE, Ahead, End, Place, Stop
from tests.support.protocol.overtaking import IN_A_CHECKPOINT, IN_A_DRAIN, IN_A_FIRST_CHECKPOINT, IN_A_START, MEANWHILE
from tests.support.protocol.story import Story

_EXAMPLES = int(os.environ.get("KAFKASPARK_STORIES", "8"))
_SUBTASKS = st.integers(1, 4)
_ENDS = st.sampled_from(list(End))
_AHEAD = st.none() | st.sampled_from(AHEAD)


class Rescaling(RuleBasedStateMachine):
    """The rules; ``make`` begins a story."""

    make: Callable[[], Story]

    def __init__(self) -> None:
        super().__init__()
        self.story = self.make()
        self.story.produce(20)

    @rule(count=st.integers(1, 60), silent=st.sets(st.integers(0, 2)))
    def produce(self, count: int, silent: set[int]) -> None:
        self.story.produce(count, silent=silent)

    @rule(parallelism=_SUBTASKS, pool=st.integers(2, 4))
    def start(self, parallelism: int, pool: int) -> None:
        self.story.start(parallelism, pool)

    @rule(parallelism=_SUBTASKS, place=st.sampled_from(IN_A_START), end=_ENDS)
    def start_in_vain(self, parallelism: int, place: Place, end: End) -> None:
        self.story.start(parallelism, stop=(place, end))

    @precondition(lambda self: self.story.running)
    @rule(retry=st.booleans(), ahead=_AHEAD)
    def checkpoint(self, retry: bool, ahead: Ahead | None) -> None:
        self.story.checkpoint(retry=retry, ahead=ahead)

    @precondition(lambda self: self.story.running)
    @rule(place=st.sampled_from((*IN_A_FIRST_CHECKPOINT, *IN_A_CHECKPOINT)), end=_ENDS, ahead=_AHEAD)
    def checkpoint_in_vain(self, place: Place, end: End, ahead: Ahead | None) -> None:
        self.story.checkpoint((place, end), ahead=ahead)

    @precondition(lambda self: self.story.runs_continuously)
    @rule(parallelism=_SUBTASKS, stop=st.none() | st.tuples(st.sampled_from(IN_A_RESCALE), _ENDS))
    def rescale_in_place(self, parallelism: int, stop: Stop | None) -> None:
        self.story.rescale(parallelism, stop)

    @precondition(lambda self: self.story.running)
    @rule(place=st.sampled_from(IN_A_DRAIN), end=_ENDS)
    def drain(self, place: Place, end: End) -> None:
        self.story.drain((place, end))

    @precondition(lambda self: self.story.frozen)
    @rule(draining=st.booleans())
    def go_on(self, draining: bool) -> None:
        self.story.thaw(draining=draining)

    @precondition(lambda self: self.story.frozen and self.story.running)
    @rule(place=st.sampled_from(MEANWHILE), draining=st.booleans())
    def go_on_in_anothers_checkpoint(self, place: Place, draining: bool) -> None:
        def thaw() -> None:
            self.story.thaw(draining=draining)

        self.story.checkpoint((place, thaw))

    @rule(change=st.sampled_from([Story.change_prefix, Story.change_naming]))
    def rename(self, change: Callable[[Story], None]) -> None:
        change(self.story)

    def teardown(self) -> None:
        try:
            self.story.finish()
        finally:
            self.story.close()


def machine(make: Callable[[], Story]) -> type[Rescaling]:
    """The rules on stories that ``make`` begins."""
    return type("RescalingStories", (Rescaling,), {"make": staticmethod(make)})


def test_any_story_ends_with_every_record_once(
    broker: str, unique: str, client: TransactionClient, make_topic: Callable[..., str], pytestconfig: pytest.Config
) -> None:
    engine = Engine(pytestconfig.getoption("--engine"))

    def make() -> Story:
        return Story(
            bootstrap=broker, source=make_topic(3, "in"), sink=make_topic(2, "out"),
            prefix=f"{unique}.{uuid.uuid4().hex[:6]}", client=client, engine=engine,
        )  # fmt: skip

    run_state_machine_as_test(
        machine(make),
        settings=settings(
            max_examples=_EXAMPLES, stateful_step_count=10, suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_the_soaks_schedules(
    seed: int, broker: str, unique: str, client: TransactionClient, make_topic: Callable[..., str]
) -> None:
    """One of each kind of those that ``python -m tests.soak`` runs by the thousand, in both engines."""
    Schedule(seed).run(broker, client, make_topic, prefix=unique)
