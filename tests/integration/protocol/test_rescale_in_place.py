"""A running attempt gets another number of subtasks, and ends anywhere around it (ADR 57).

With the real pipeline and real processes of subtasks. Every record once, no transaction left open, and no two subtasks
of an attempt under one transactional id.
"""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.job.spec import Engine
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import IN_A_RESCALE, OF_A_CHECKPOINT, Ahead, End, Loss, Moment, Place, Stop
from tests.support.protocol.story import Story

POOL = 4
CHANGES = [(2, 4), (4, 1)]
ENDS = (End.KILL, End.FREEZE)
_STOPS = st.tuples(st.sampled_from((*IN_A_RESCALE, *OF_A_CHECKPOINT)), st.sampled_from(ENDS))
_STEPS = st.lists(st.tuples(st.integers(1, 4), st.none() | _STOPS), min_size=2, max_size=5)
"""Each another parallelism, and where the attempt ends in the change or in the checkpoint behind it, if it does."""
EVERY_PRE_COMMITTED = Ahead(Moment.AFTER_FLUSH, None)


@pytest.fixture(params=list(TransactionNaming))
def story(story: Stories, request: pytest.FixtureRequest) -> Stories:
    """Stories of the continuous engine."""
    return partial(story, engine=Engine.CONTINUOUS, naming=request.param, opens_ahead=True)


def begun(job: Story, parallelism: int) -> Story:
    """An attempt that has completed two checkpoints, with records for more."""
    job.produce(120)
    job.start(parallelism, POOL)
    job.checkpoint(ahead=EVERY_PRE_COMMITTED)
    job.checkpoint()
    job.produce(120)
    return job


def test_up_and_down(story: Stories) -> None:
    job = begun(story(), 2)
    for parallelism in (4, 1, 3, 3, 2):
        job.rescale(parallelism)
        assert job.document.parallelism == parallelism
        job.produce(60)
        job.checkpoint(ahead=EVERY_PRE_COMMITTED)
        job.checkpoint((Moment.AFTER_WRITE, lambda: Loss.WORKER))
    assert job.attempts == 1
    job.drain()
    job.finish()


@pytest.mark.pairs
@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", IN_A_RESCALE)
def test_an_attempt_ends_in_it(place: Place, end: End, before: int, after: int, story: Stories) -> None:
    job = begun(story(), before)
    job.rescale(after, (place, end))
    assert job.document.parallelism == (before if place == IN_A_RESCALE[0] else after)
    job.start(after, POOL)
    job.checkpoint(ahead=EVERY_PRE_COMMITTED)
    job.finish(after)


@pytest.mark.pairs
@pytest.mark.parametrize(("before", "after"), CHANGES)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("place", OF_A_CHECKPOINT)
def test_an_attempt_ends_in_its_first_checkpoint_behind_it(
    place: Place, end: End, before: int, after: int, story: Stories
) -> None:
    job = begun(story(), before)
    job.rescale(after)
    job.checkpoint((place, end), ahead=None if place is Moment.BEFORE_FLUSH else EVERY_PRE_COMMITTED)
    job.start(before, POOL)
    job.checkpoint()
    job.finish(after)


def test_any_sequence_of_changes_and_ends(story: Stories) -> None:
    @settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=_STEPS)
    def runs(steps: list[tuple[int, Stop | None]]) -> None:
        job = begun(story(), 2)
        for parallelism, stop in steps:
            is_in_it = stop is not None and stop[0] in IN_A_RESCALE
            job.rescale(parallelism, stop if is_in_it else None)
            job.produce(30)
            if job.running:
                job.checkpoint(None if is_in_it else stop)
            if not job.running:
                job.start(parallelism, POOL)
        job.finish()

    runs()
