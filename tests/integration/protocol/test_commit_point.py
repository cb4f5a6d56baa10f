"""The last moment before the document is written: a transaction that has ended since its pre-commit is not in it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from sparkapp.model.errors import TransactionFenced
from tests.integration.protocol.conftest import Stories
from tests.support.protocol.moments import Moment
from tests.support.protocol.story import Story


def twin(job: Story) -> None:
    """A second task of one subtask readies its producer, and ends without a record."""
    job.client.fence_all(job.open_transactions()[:1])


def expired(job: Story) -> None:
    """One subtask has kept all others waiting for longer than the transactions live."""
    job.expire()


def nearly_expired(job: Story) -> None:
    """What is left of the oldest transaction is less than a write and a commit may take: 0.6 s of 4."""
    described = job.client.describe(job.open_transactions()).values()
    begun = min(each.start_time_ms for each in described) / 1000
    time.sleep(max(0.0, begun + job.timeout - 0.6 - time.time()))


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("happens", "timeout"), [(twin, 60), (expired, 4), (nearly_expired, 4)])
def test_a_transaction_that_ends_after_its_pre_commit_ends_the_attempt(
    happens: Callable[[Story], None], timeout: int, aligned: bool, story: Stories
) -> None:
    job = story(timeout=timeout, aligned=aligned)
    job.produce(90)
    job.start(2)
    job.checkpoint()
    before = job.document
    job.checkpoint((Moment.AFTER_FLUSH, lambda: happens(job)))
    assert isinstance(job.failure, TransactionFenced)
    assert not job.failure.fatal
    assert job.document == before, "nothing was final"
    job.finish(2)
    assert len(job.failures) == 1, "the next attempt goes through"
