"""Pipelines that shuffle: no source ranges are in their transactions, so only the coordinators know the outcomes.

Lost as a whole a checkpoint is read and written again. What is proven neither committed nor lost, or is both in parts,
stops the job: with nothing repeated, nothing open, and words that say what to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from localcluster.kafka.broker import Broker
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.errors import StateUncertain
from tests.integration.protocol.conftest import Stories
from tests.support.kafka import visibility
from tests.support.kafka.topics import create_topics
from tests.support.protocol.moments import OF_A_CHECKPOINT, End, Moment
from tests.support.protocol.story import Story

_EVERY = [number for number in range(40) if number % 5]
"""Of a source of one checkpoint, by what the transform keeps."""


def _stopped(job: Story, *names: str) -> list[int]:
    """The job stops as uncertain and says of which transactions; gives the numbers that readers see."""
    for _ in range(2):
        job.start(2)
        assert isinstance(job.failure, StateUncertain), job.failure
        assert all(name in job.failure.message for name in names), job.failure
        assert "compare the sink topic with its source" in job.failure.remedy
    assert visibility.open_transactions(job.client, job.prefix) == []
    numbers = visibility.numbers(job.bootstrap, job.sink)
    assert len(set(numbers)) == len(numbers), "written twice"
    return sorted(numbers)


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_I01_an_attempt_that_is_killed_in_a_checkpoint(moment: Moment, story: Stories) -> None:
    job = story(aligned=False)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    job.produce(30)
    job.finish(3)


@pytest.mark.parametrize("moment", [each for each in OF_A_CHECKPOINT if each is not Moment.BETWEEN_COMMITS])
def test_P11_a_checkpoint_that_timed_out_as_a_whole_goes_back(moment: Moment, story: Stories) -> None:
    """The coordinators still know these very transactions, and that they have aborted them."""
    job = story(aligned=False, timeout=5)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    splits = job.document.splits
    job.expire()
    job.start(3)
    assert job.recovery is not None
    lost = tuple(split for split in splits if split.size) if moment is Moment.AFTER_WRITE else ()
    assert job.recovery.lost == lost
    job.produce(30)
    job.finish(3)


def test_P11_a_checkpoint_that_timed_out_when_a_part_was_committed_stops_the_job(story: Stories) -> None:
    job = story(aligned=False, timeout=5)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    committed_before = set(visibility.numbers(job.bootstrap, job.sink))
    job.checkpoint((Moment.BETWEEN_COMMITS, End.KILL))
    lost = job.document.committables[1].transactional_id
    job.expire()
    numbers = _stopped(job, "checkpoint 2 is part committed", f"lost: {lost} (PRODUCER_FENCED)")
    assert committed_before < set(numbers) < {number for number in range(60) if number % 5}


def test_P11_a_checkpoint_of_which_a_part_timed_out_and_none_is_committed_goes_back(story: Stories) -> None:
    """The others are still open: they are aborted, for committed they would be a part that nothing can complete."""
    job = story(aligned=False)
    job.produce(60)
    job.start(2)
    job.checkpoint()
    job.checkpoint((Moment.AFTER_WRITE, End.KILL))
    splits = job.document.splits
    first, second = job.document.committables
    # As the time-out of one of them, which may be some seconds older, would end it.
    triple = EndTxn(
        transactional_id=first.transactional_id, producer_id=first.producer_id,
        producer_epoch=first.producer_epoch, commit=False,
    )  # fmt: skip
    assert job.client.end_all([triple]) == [EndTxnAnswer.NONE]
    assert set(job.open_transactions()) >= {second.transactional_id}
    job.start(3)
    assert job.recovery is not None
    assert job.recovery.lost == tuple(split for split in splits if split.size)
    job.produce(30)
    job.finish(3)


@pytest.mark.parametrize("moment", [Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS])
def test_C03_ids_that_were_taken_over_prove_nothing(moment: Moment, story: Stories) -> None:
    """PRODUCER_FENCED for what was committed as for what was not, and the new producer's begin wipes the rest."""
    job = story(aligned=False)
    job.produce(40)
    job.start(2)
    job.checkpoint((moment, End.KILL))
    job.fence()
    numbers = _stopped(job, "neither committed nor lost", "(PRODUCER_FENCED)")
    assert (numbers == _EVERY) == (moment is Moment.AFTER_COMMITS)


def test_C07_ids_that_have_expired_prove_nothing(unique: str, tmp_path: Path) -> None:
    """The checkpoint was committed whole, long ago: reading it again would write each of its records twice."""
    overrides = {
        "transactional.id.expiration.ms": "5000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    }
    with (
        Broker.ephemeral(tmp_path, heap="256m", overrides=overrides) as broker,
        _job_on(broker.bootstrap, unique) as job,
    ):
        job.produce(40)
        job.start(2)
        job.checkpoint((Moment.AFTER_COMMITS, End.KILL))
        ids = [each.transactional_id for each in job.document.committables]
        assert len(ids) == 2
        _await(lambda: not job.client.describe(ids))
        numbers = _stopped(
            job, "neither committed nor lost", *(f"{each} (INVALID_PRODUCER_ID_MAPPING)" for each in ids)
        )
        assert numbers == _EVERY


@contextmanager
def _job_on(bootstrap: str, prefix: str) -> Iterator[Story]:
    create_topics(bootstrap, NewTopic("in", 3, 1), NewTopic("out", 2, 1))
    client = TransactionClient({"bootstrap.servers": bootstrap})
    job = Story(bootstrap=bootstrap, source="in", sink="out", prefix=prefix, client=client, aligned=False)
    try:
        yield job
    finally:
        job.close()
        client.close()


def _await(holds: Callable[[], bool]) -> None:
    deadline = Deadline.after(60)
    while not holds():
        assert not deadline.expired
        time.sleep(0.2)
