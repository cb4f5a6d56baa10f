"""A job that begins at another job's snapshot, on a real broker: what follows the snapshot is written again, once."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.startup import StartupMode
from sparkapp.model.partition import TopicPartition
from tests.support.protocol.moments import End, Moment
from tests.support.protocol.story import Story

Offsets = Mapping[TopicPartition, int]
NAME = "before"


@pytest.fixture
def job(job: Story) -> Story:
    """Has completed four checkpoints; a snapshot holds the second."""
    job.run(4)
    job.snapshots = {NAME: encode_retained(job.kept[2])}
    return job


def after_snapshot(job: Story) -> list[KafkaPartitionSplit]:
    """What the job has read behind the snapshot."""
    earlier, later = job.kept[2].offsets, job.document.offsets
    return [KafkaPartitionSplit(each, earlier[each], end) for each, end in later.items() if earlier[each] < end]


@pytest.mark.parametrize("moment", [None, Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS])
def test_a_new_job_begins_at_the_snapshot_of_a_deleted_job(job: Story, moment: Moment | None) -> None:
    job.expect_again(after_snapshot(job))
    job.start_snapshot = NAME
    job.create_again(StartupMode.LATEST)
    if moment is not None:
        job.start(2)
        job.checkpoint((moment, End.KILL))
    job.run()
    assert job.recovery is not None
    assert (job.recovery.restored is None) == (moment is not None), "a job with a checkpoint resumes"
    job.finish()


def test_the_same_job_goes_back_to_its_snapshot_once(job: Story) -> None:
    job.expect_again(after_snapshot(job))
    job.restore = Restore(snapshot=NAME, nonce=1)
    job.run()
    assert job.recovery is not None
    assert job.recovery.restored is not None
    assert job.recovery.restored.rewind.records == 20
    job.run()
    assert job.recovery.restored is None, "the nonce has been served"
    job.finish()
