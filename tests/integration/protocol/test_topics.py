"""Topics of a column and dead letters are in one transaction: a crash leaves all of a checkpoint's topics or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.protocol.conftest import Stories
from tests.support.kafka import visibility
from tests.support.protocol.moments import End, Loss, Moment, TaskMoment
from tests.support.protocol.story import Story

FROM, TO = 2, 3
MOMENTS = (TaskMoment.PRODUCED, Moment.AFTER_FLUSH, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS)
CRASHES = [*((End.KILL, moment) for moment in MOMENTS), (Loss.EXECUTOR, TaskMoment.PRODUCED)]
"""Of the driver, and of an executor."""


@pytest.fixture
def job(story: Stories, make_topic: Callable[..., str]) -> Story:
    return story(odd=make_topic(2, "odd"), letters=make_topic(1, "letters"))


@pytest.mark.parametrize(("end", "moment"), CRASHES)
def test_two_topics_and_dead_letters_through_a_crash(end: End | Loss, moment: Moment | TaskMoment, job: Story) -> None:
    job.produce(60)
    job.start(FROM)
    job.checkpoint()
    before = seen(job)
    at_the_end: list[dict[str, int]] = []

    def die() -> End | Loss:
        at_the_end.append(seen(job))
        return end

    job.checkpoint((moment, die), abreast=end is Loss.EXECUTOR)
    if moment is not Moment.BETWEEN_COMMITS:
        assert at_the_end == [before], "nothing of the checkpoint is visible in any of the topics"
    job.produce(30)
    assert job.finish(TO) == 0
    assert job.document.counters.records_dead_lettered == 90 // 5


def test_all_topics_of_a_subtask_are_in_its_one_transaction(job: Story) -> None:
    job.produce(60)
    job.start(FROM)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    committables = job.document.committables
    assert len(committables) == FROM
    described = job.client.describe([each.transactional_id for each in committables])
    for each in committables:
        written = {place.topic for place in described[each.transactional_id].partitions}
        assert {job.sink, job.odd, job.letters} <= written
        assert each.records > 0 < each.dead_letters
    assert set(seen(job).values()) == {0}
    job.start(TO)
    assert job.recovery is not None
    assert job.recovery.committed == FROM
    counts = seen(job)
    assert counts[job.letters] == sum(each.dead_letters for each in committables)
    assert counts[job.sink] + counts[job.odd] == sum(each.records for each in committables)
    assert job.finish(TO) == 0


def seen(job: Story) -> dict[str, int]:
    """How many records readers see in each topic, once no transaction is ending."""
    visibility.await_ended(job.client, job.prefix)
    return {topic: len(visibility.records(job.bootstrap, topic)) for topic in (job.sink, job.odd, job.letters)}
