"""An orderly stop between the last answers of the subtasks and the ends of their tasks: the document is written there,
and a new revision may take over (ADR 95)."""

from __future__ import annotations

import pytest

from sparkapp.model.job.spec import Engine
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import End, EndMoment, Loss
from tests.support.protocol.story import Story

PACES = pytest.mark.parametrize("local_pace", [False, True], ids=["two-phase", "local-pace"])


def stopping(story: Stories, *, local_pace: bool) -> Story:
    """A job that has written, and has more to read."""
    job = story(engine=Engine.CONTINUOUS, local_pace=local_pace)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.produce(60)
    return job


@PACES
def test_subtasks_that_freeze_there_disturb_no_later_attempt(local_pace: bool, story: Stories) -> None:
    job = stopping(story, local_pace=local_pace)
    job.drain((EndMoment.ANSWERED, job.leave_subtasks))
    assert job.document.drained
    assert job.strays == 2
    job.start(2)
    job.checkpoint()
    job.produce(60)
    job.thaw_strays()
    job.checkpoint()
    job.finish()
    assert job.failures == [], "nobody has fenced the later attempt"


@PACES
def test_subtasks_that_are_killed_there_have_left_nothing_open(local_pace: bool, story: Stories) -> None:
    job = stopping(story, local_pace=local_pace)
    job.drain((EndMoment.ANSWERED, lambda: Loss.EXECUTOR))
    assert job.document.drained
    assert job.open_transactions() == []
    job.finish()
    assert job.failures == []


@PACES
@pytest.mark.parametrize("end", [End.KILL, End.FREEZE])
def test_a_driver_that_ends_there_has_written_no_document(end: End, local_pace: bool, story: Stories) -> None:
    """The next attempt recovers it like any other; a frozen driver's document is refused."""
    job = stopping(story, local_pace=local_pace)
    job.drain((EndMoment.ANSWERED, end))
    assert not job.document.drained
    job.start(2)
    job.checkpoint()
    if end is End.FREEZE:
        job.thaw()
    job.finish()
    assert job.failures == []
