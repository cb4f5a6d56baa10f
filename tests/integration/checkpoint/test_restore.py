"""Going back to an earlier checkpoint on a real broker: what was read after it is visible exactly once more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from sparkapp.checkpoint.store import MemoryStore
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.checkpoint_codec import decode
from sparkapp.model.errors import CheckpointNotRetained
from sparkapp.model.partition import TopicPartition
from sparkapp.model.protocol import ProtocolStep
from sparkapp.model.retained_codec import decode_retained
from sparkapp.model.retention import Restore
from tests.support import visibility
from tests.support.committing_job import fill
from tests.support.copying_job import CopyingJob, Crash

RECORDS = 30
"""In each of the two partitions; a checkpoint takes ten in all."""


@pytest.fixture
def job(broker: str, make_topic: Callable[..., str], unique: str) -> Iterator[CopyingJob]:
    source = make_topic(2, "in")
    made = CopyingJob(broker, source, make_topic(1, "out"), unique)
    for partition in range(2):
        fill(broker, TopicPartition(source, partition), RECORDS)
    made.attempt(4)
    yield made
    made.close()


def document(job: CopyingJob) -> CheckpointDocument:
    return decode(job.store.read().text or "", job_uid="uid")


def kept(job: CopyingJob) -> dict[int, dict[TopicPartition, int]]:
    found = (decode_retained(text, key=key, job_uid="uid") for key, text in job.retained.read().items())
    return {one.checkpoint_id: dict(one.offsets) for one in found}


def visible(job: CopyingJob) -> Counter[int]:
    """How often each number of the source is to be read; both partitions hold the same ones."""
    visibility.await_ended(job.client, job.name)
    return Counter(visibility.numbers(job.bootstrap, job.sink))


def expected(before: dict[TopicPartition, int], after: dict[TopicPartition, int]) -> Counter[int]:
    """Everything once, and what lies between the two checkpoints once more."""
    counts: Counter[int] = Counter()
    for partition, end in before.items():
        counts.update(range(RECORDS))
        counts.update(range(after[partition], end))
    return counts


def kill_at(step: ProtocolStep) -> Callable[[ProtocolStep, int], None]:
    def hook(now: ProtocolStep, _: int) -> None:
        if now is step:
            raise Crash

    return hook


class StoreThatDies(MemoryStore):
    """Writes so many more texts, then the driver is gone: before the write, or once it has taken effect."""

    left = -1
    after_effect = False

    def write(self, text: str, *, expected: str) -> str:
        self.left -= 1
        if self.left == 0 and not self.after_effect:
            raise Crash
        version = super().write(text, expected=expected)
        if self.left == 0:
            raise Crash
        return version


def test_what_was_read_after_it_is_visible_once_more_and_all_else_once(job: CopyingJob) -> None:
    before = document(job)
    job.restore = Restore(checkpoint=2, nonce=1)
    after = job.attempt(100)
    assert visible(job) == expected(before.offsets, kept(job)[2])
    assert sum(visible(job).values()) == 2 * RECORDS + 20
    restored = job.recoveries[-1].restored
    assert restored is not None
    assert restored.rewind.records == 20
    assert after.checkpoint_id == 4 + 1 + 4, "the numbers go on: four, the restore, forty records in tens"
    job.attempt(100)
    assert sum(visible(job).values()) == 2 * RECORDS + 20, "the nonce has been served"


@pytest.mark.parametrize(
    "step",
    [ProtocolStep.AFTER_FLUSH, ProtocolStep.AFTER_WRITE, ProtocolStep.BETWEEN_COMMITS, ProtocolStep.AFTER_COMMITS],
)
@pytest.mark.parametrize("fenced", [False, True])
def test_a_crash_in_the_first_checkpoint_after_it_changes_nothing(
    job: CopyingJob, step: ProtocolStep, fenced: bool
) -> None:
    """The marks on the group's offsets prove what became of each transaction, although the group was far ahead."""
    before = document(job)
    job.restore = Restore(checkpoint=2, nonce=1)
    with pytest.raises(Crash):
        job.attempt(100, hook=kill_at(step))
    if fenced:
        job.fence(document(job))
    job.attempt(100)
    assert job.recoveries[-1].restored is None
    assert visible(job) == expected(before.offsets, kept(job)[2])
    if fenced:
        lost = {ProtocolStep.AFTER_WRITE: 2, ProtocolStep.BETWEEN_COMMITS: 1}.get(step, 0)
        assert len(job.recoveries[-1].lost) == lost


@pytest.mark.parametrize("write", [1, 2, 3])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_crash_at_any_write_of_the_restore_neither_loses_nor_repeats_it(
    job: CopyingJob, write: int, after_effect: bool
) -> None:
    before = document(job)
    store = StoreThatDies(job.store.read().text)
    job.store = store
    job.restore = Restore(checkpoint=1, nonce=3)
    store.left, store.after_effect = write, after_effect
    with pytest.raises(Crash):
        job.attempt(100)
    job.attempt(100)
    assert visible(job) == expected(before.offsets, kept(job)[1])


def test_transactions_of_the_current_checkpoint_are_settled_first(job: CopyingJob) -> None:
    with pytest.raises(Crash):
        job.attempt(1, hook=kill_at(ProtocolStep.AFTER_WRITE))
    before = document(job)
    assert before.committables
    job.restore = Restore(checkpoint=3, nonce=1)
    job.attempt(100)
    assert job.recoveries[-1].committed == len(before.committables)
    assert visible(job) == expected(before.offsets, kept(job)[3])


def test_lost_transactions_of_the_current_checkpoint_are_not_read_thrice(job: CopyingJob) -> None:
    with pytest.raises(Crash):
        job.attempt(1, hook=kill_at(ProtocolStep.AFTER_WRITE))
    lost = document(job)
    job.fence(lost)
    job.restore = Restore(checkpoint=3, nonce=1)
    job.attempt(100)
    assert visible(job) == expected({split.partition: split.start for split in lost.splits}, kept(job)[3])


def test_there_and_back_again(job: CopyingJob) -> None:
    """A later checkpoint of before the restore can be gone back to as well: nothing of it is written a third time."""
    job.restore = Restore(checkpoint=1, nonce=1)
    job.attempt(1)
    job.restore = Restore(checkpoint=4, nonce=2)
    job.attempt(100)
    counts = visible(job)
    assert sum(counts.values()) == 2 * RECORDS + 10, "one checkpoint was written again before the way back"
    assert set(counts) == set(range(RECORDS))


def test_a_checkpoint_that_is_not_kept_stops_the_job_where_it_is(job: CopyingJob) -> None:
    before = document(job)
    job.restore = Restore(checkpoint=77, nonce=1)
    with pytest.raises(CheckpointNotRetained, match=r"checkpoint 77 is not kept; kept are 4 \(2026-11-21T08"):
        job.attempt(100)
    assert document(job).offsets == before.offsets
    job.restore = Restore(checkpoint=2, nonce=1)
    job.attempt(100)
    assert visible(job) == expected(before.offsets, kept(job)[2])
