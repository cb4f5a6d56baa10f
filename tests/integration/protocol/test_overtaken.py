"""Overtaken drivers by name: what a random story has found (``tests/support/protocol/overtaking.py``)."""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.errors import CheckpointConflict
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import DriverMoment, Moment
from tests.support.protocol.overtaking import Overtaking


@pytest.mark.parametrize("naming", TransactionNaming)
@pytest.mark.parametrize("act", ["checkpoint", "first"])
def test_A4_the_next_checkpoint_of_a_superseded_driver_takes_no_id_over(
    act: str, naming: TransactionNaming, story: Stories
) -> None:
    """A pipeline that shuffles: attempt 2 has committed all that its document names, and is dead. Tasks of attempt 1's
    next checkpoint would initialise these ids, and with them the only proof of the commits would be gone."""
    place = Moment.AFTER_COMMITS if act == "checkpoint" else DriverMoment.BEFORE_PREPARE
    job = story(aligned=False, naming=naming)
    superseded = Overtaking(act=act, place=place, ahead=1, dies=True).play(job)
    assert isinstance(superseded.failure, CheckpointConflict), superseded.failure
    named = [each.transactional_id for each in job.document.committables]
    assert named
    epochs = {each.transactional_id: each.producer_epoch for each in job.document.committables}
    assert {each: found.producer_epoch for each, found in job.client.describe(named).items()} == epochs
    job.finish(2)
    assert job.failures == []
