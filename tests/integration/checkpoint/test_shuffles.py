"""Going back where the pipeline shuffles: no ranges are in the document, so only the coordinators know what became of
its transactions."""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import StateUncertain
from sparkapp.model.job.sections.retention import Restore
from tests.support.kafka import visibility
from tests.support.protocol.moments import End, Moment
from tests.support.protocol.story import Story


@pytest.fixture
def job(job: Story) -> Story:
    job.aligned = False
    return job


def uncertain(job: Story, message: str) -> None:
    """Two attempts stop with the words, leave nothing open, write nothing and let the document name what it named."""
    before, visible = job.document, sorted(visibility.records(job.bootstrap, job.sink))
    for _ in range(2):
        job.start(2)
        assert isinstance(job.failure, StateUncertain), job.failure
        assert message in job.failure.message
    assert job.document.redeploy_nonce == before.redeploy_nonce, "the restore has not been served"
    assert job.document.committables == before.committables
    assert visibility.open_transactions(job.client, job.prefix) == []
    assert sorted(visibility.records(job.bootstrap, job.sink)) == visible


def test_what_was_read_after_a_kept_checkpoint_is_visible_once_more(job: Story) -> None:
    job.run(4)
    earlier = job.kept[2].offsets
    job.expect_again([KafkaPartitionSplit(each, earlier[each], end) for each, end in job.document.offsets.items()])
    job.restore = Restore(checkpoint=2, nonce=1)
    job.run()
    assert job.recovery is not None
    assert job.recovery.restored is not None
    job.finish()


@pytest.mark.parametrize("moment", [Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS])
def test_C03_a_restore_does_not_pass_over_transactions_that_prove_nothing(job: Story, moment: Moment) -> None:
    job.run(2)
    job.start(2)
    job.checkpoint((moment, End.KILL))
    job.fence()
    job.restore = Restore(checkpoint=1, nonce=1)
    uncertain(job, "checkpoint 3: neither committed nor lost could be proven")


def test_P11_an_older_document_whose_ids_were_used_since_stops_the_job(job: Story) -> None:
    """Its transactions are committed. Producers of later attempts have the ids, and no offset is in a transaction."""
    job.run(1)  # the ids of a first start are used by no later one
    job.start(2)
    job.checkpoint()
    job.checkpoint()
    job.kill()
    backup, before = job.store.read().text or "", job.document
    assert before.committables
    job.run(2)
    job.store.write(backup, expected=job.store.read().version)
    job.restore = Restore(checkpoint=before.checkpoint_id, nonce=1)
    uncertain(job, f"checkpoint {before.checkpoint_id}: neither committed nor lost could be proven")


def test_an_older_document_of_a_job_at_rest_is_gone_on_from(job: Story) -> None:
    job.run(2)
    backup, before = job.store.read().text or "", job.document
    assert not before.committables
    job.run(3)
    job.expect_again(
        [KafkaPartitionSplit(each, before.offsets[each], end) for each, end in job.document.offsets.items()]
    )
    job.store.write(backup, expected=job.store.read().version)
    job.restore = Restore(checkpoint=before.checkpoint_id, nonce=1)
    job.finish()
