"""Documents that people change, on a real broker: an edit does what it says, and all else is exactly once."""

from __future__ import annotations

import json

import pytest

from sparkapp.model.checkpoint.naming import TransactionNaming
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import StateRolledBack
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.startup import StartupMode
from sparkapp.model.partition import TopicPartition
from tests.support.kafka import visibility
from tests.support.protocol.moments import OF_A_CHECKPOINT, End, Moment
from tests.support.protocol.story import Story


def put(job: Story, text: str) -> None:
    """Somebody replaces the document."""
    job.store.write(text, expected=job.store.read().version)


def rewind(job: Story, partition: TopicPartition, offset: int) -> None:
    """A person edits the offset at which a partition continues."""
    body = json.loads(job.store.read().text or "")
    start, _ = body["splits"][partition.topic][str(partition.partition)]
    body["splits"][partition.topic][str(partition.partition)] = [min(start, offset), offset]
    put(job, json.dumps(body))


def test_offsets_of_a_job_at_rest_are_edited(job: Story) -> None:
    job.run(3)
    each = TopicPartition(job.source, 1)
    stop = job.document.offsets[each]
    rewind(job, each, stop - 4)
    job.expect_again([KafkaPartitionSplit(each, stop - 4, stop)])
    job.run()
    assert job.recovery is not None
    assert f"were edited, the job resumes from there: {each} {stop} -> {stop - 4}" in job.recovery.edited
    assert job.recovery.lost == ()
    job.finish()


@pytest.mark.parametrize("moment", [Moment.AFTER_WRITE, Moment.BETWEEN_COMMITS, Moment.AFTER_COMMITS])
def test_offsets_are_edited_while_transactions_are_to_be_settled(job: Story, moment: Moment) -> None:
    """They are committed all the same: an edit of offsets moves the reading and unmakes no writing."""
    job.start(2)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    each = TopicPartition(job.source, 0)
    stop = job.document.offsets[each]
    rewind(job, each, stop - 3)
    job.expect_again([KafkaPartitionSplit(each, stop - 3, stop)])
    job.run()
    assert job.recovery is not None
    assert job.recovery.committed == 2
    job.finish()


@pytest.mark.parametrize("at_rest", [False, True])
def test_an_older_document_is_put_back(job: Story, at_rest: bool) -> None:
    """A backup whose transactions have long been committed, and whose ids others have written under since."""
    if at_rest:
        job.run(2)
    else:
        job.start(2)
        job.checkpoint()
        job.checkpoint()
        job.kill()
    backup, before = job.store.read().text or "", job.document
    assert bool(before.committables) != at_rest
    job.run(3)
    later = job.document.offsets
    job.expect_again([KafkaPartitionSplit(each, before.offsets[each], stop) for each, stop in later.items()])
    put(job, backup)
    job.restore = Restore(checkpoint=before.checkpoint_id, nonce=1)
    job.start(2)
    assert job.recovery is not None
    assert f"at checkpoint {before.checkpoint_id}, although" in job.recovery.edited
    assert job.recovery.committed == len(before.committables)
    job.finish()


@pytest.mark.parametrize("moment", [Moment.BEFORE_FLUSH, Moment.AFTER_FLUSH])
@pytest.mark.parametrize("naming", TransactionNaming)
@pytest.mark.parametrize("aligned", [True, False])
def test_A18_T15_an_older_document_is_put_back_whose_ids_are_in_use_again(
    job: Story, moment: Moment, naming: TransactionNaming, aligned: bool
) -> None:
    """What is open under the ids, half of it perhaps, is nobody's: it has other epochs, and the document's triples
    commit nothing of it (ADR 28)."""
    job.naming, job.aligned, job.workers = naming, aligned, 1
    job.start(2)
    job.checkpoint()
    backup, before = job.store.read().text or "", job.document
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    in_use = set(visibility.open_transactions(job.client, job.prefix))
    visible = sorted(visibility.records(job.bootstrap, job.sink))
    assert in_use & {each.transactional_id for each in before.committables}
    put(job, backup)
    job.start(2)
    assert isinstance(job.failure, StateRolledBack)
    assert sorted(visibility.records(job.bootstrap, job.sink)) == visible, "nothing open was committed"


@pytest.mark.parametrize("moment", OF_A_CHECKPOINT)
def test_the_way_back_by_the_groups_offsets_is_exactly_once(job: Story, moment: Moment) -> None:
    """The state is gone, whatever it said of the transactions: aborted ones took their offsets with them."""
    job.start(2)
    job.checkpoint()
    job.checkpoint((moment, End.KILL))
    job.create_again(StartupMode.GROUP_OFFSETS)
    job.start(3)
    assert job.failure is None
    assert job.recovery is not None
    assert job.recovery.first_start
    job.finish(3)
