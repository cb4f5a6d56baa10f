"""A job that has nothing to do for longer than brokers remember ids: its document has nothing left to settle."""

from __future__ import annotations

import pytest

from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import End, Moment, StoreWrite


@pytest.mark.parametrize("aligned", [True, False])
def test_a_job_that_was_idle_continues_where_its_ids_are_forgotten(aligned: bool, story: Stories) -> None:
    job = story(aligned=aligned)
    job.produce(30)
    job.start(2)
    job.checkpoint()
    committed = job.document
    assert len(committed.committables) == 2
    job.checkpoint()
    assert job.document.committables == ()
    assert job.document.checkpoint_id == committed.checkpoint_id
    assert job.document.offsets == committed.offsets
    job.kill()
    # What a week does: the triples and the group's offsets mean nothing to the brokers any more.
    job.client.fence_all([each.transactional_id for each in committed.committables])
    job.forget_group_offsets()
    job.produce(30)
    job.finish(3)
    assert job.failures == []


@pytest.mark.parametrize("effective", [False, True])
def test_a_crash_at_the_write_of_an_idle_job_is_harmless(effective: bool, story: Stories) -> None:
    job = story()
    job.produce(30)
    job.start(2)
    job.checkpoint()
    job.checkpoint((StoreWrite(1, effective), End.KILL))
    assert len(job.document.committables) == (0 if effective else 2)
    job.produce(30)
    job.finish(3)


def test_an_attempt_leaves_nothing_to_settle_before_it_reads(story: Stories) -> None:
    job = story()
    job.produce(60)
    job.start(2)
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    settled = job.document
    job.start(3, stop=(StoreWrite(2, effective=True), End.KILL))
    assert job.document.committables == (), "the write after the claim, before anything else can fail"
    assert job.document.offsets == settled.offsets
    job.client.fence_all([each.transactional_id for each in settled.committables])
    job.forget_group_offsets()
    job.finish(1)
    assert job.failures == []
