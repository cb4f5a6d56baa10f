"""A document that a person changed: retained checkpoints and marks show it, where they can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from sparkapp.checkpoint.recovery.document_tampering import refuse_lost_state, signs_of_edit
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import retained, retained_key
from sparkapp.model.checkpoint.retained_codec import encode_retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import CheckpointMissing, CheckpointStoreUnavailable
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from tests.support.fakes.memory_retained_store import MemoryRetainedStore
from tests.support.jobs.plain_job import plain_spec

ONE, TWO = TopicPartition("in", 0), TopicPartition("in", 1)
SPEC = plain_spec()
JOB = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=7, spec=SPEC)
DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=3, checkpoint_id=40, created_at="2026-11-21T09:00:00Z", parallelism=2, prefix="p",
    splits=(KafkaPartitionSplit(ONE, 100, 100), KafkaPartitionSplit(TWO, 50, 50)), drained=True,
)  # fmt: skip


def kept(*documents: CheckpointDocument) -> MemoryRetainedStore:
    return MemoryRetainedStore(
        {retained_key(each.checkpoint_id): encode_retained(retained(each)) for each in documents}
    )


def at(offsets: Mapping[TopicPartition, int]) -> tuple[KafkaPartitionSplit, ...]:
    return tuple(KafkaPartitionSplit(each, offset, offset) for each, offset in offsets.items())


@pytest.mark.parametrize(
    "store",
    [
        kept(),
        kept(DOCUMENT),
        kept(replace(DOCUMENT, checkpoint_id=39, splits=at({ONE: 90, TWO: 45}))),
        kept(replace(DOCUMENT, checkpoint_id=41, job_uid="another")),
        MemoryRetainedStore({"checkpoint-41.json": "{", "notes.txt": "mine"}),
    ],
)
def test_what_the_job_wrote_shows_no_signs(store: MemoryRetainedStore) -> None:
    assert signs_of_edit(DOCUMENT, store) == ""


def test_a_claim_of_an_attempt_that_got_no_further_is_no_edit() -> None:
    assert signs_of_edit(replace(DOCUMENT, attempt=6, drained=False), kept(DOCUMENT)) == ""


def test_what_a_later_attempt_wrote_under_the_number_is_no_edit() -> None:
    """Partitions that are no longer subscribed, or offsets that retention has taken, change at a start."""
    later = replace(DOCUMENT, created_at="2026-11-21T09:00:30Z", splits=at({ONE: 120}))
    assert signs_of_edit(later, kept(DOCUMENT)) == ""


def test_edited_offsets_are_named_with_what_they_were() -> None:
    edited = replace(DOCUMENT, splits=at({ONE: 60, TopicPartition("in", 2): 7}))
    assert signs_of_edit(edited, kept(DOCUMENT)) == (
        "offsets of checkpoint 40 were edited, the job resumes from there: in-0 100 -> 60, in-1 50 -> unknown,"
        " in-2 unknown -> 7"
    )


def test_many_edited_offsets_are_counted() -> None:
    before = {TopicPartition("in", number): 10 for number in range(30)}
    was = replace(DOCUMENT, splits=at(before))
    found = signs_of_edit(replace(was, splits=at(dict.fromkeys(before, 5))), kept(was))
    assert found.endswith("in-4 10 -> 5 and 25 more")


def test_an_older_document_is_noticed_by_a_later_one_that_is_kept() -> None:
    later = replace(DOCUMENT, checkpoint_id=47, created_at="2026-11-21T09:07:00Z")
    assert signs_of_edit(DOCUMENT, kept(DOCUMENT, later)).startswith(
        "the state is at checkpoint 40, although 47 of 2026-11-21T09:07:00Z is retained: somebody restored it"
    )


class Away(MemoryRetainedStore):
    def read(self) -> dict[str, str]:
        msg = "no answer"
        raise CheckpointStoreUnavailable(msg)


def test_not_to_know_does_not_stop_a_job_that_has_its_document() -> None:
    assert signs_of_edit(DOCUMENT, Away()) == ""


def test_not_to_know_stops_a_job_without_one() -> None:
    with pytest.raises(CheckpointStoreUnavailable):
        refuse_lost_state(JOB, Away())


def test_a_first_start_is_one_of_which_nothing_is_kept() -> None:
    refuse_lost_state(JOB, kept())
    refuse_lost_state(JOB, kept(replace(DOCUMENT, job_uid="of a deleted job of the same name")))
    with pytest.raises(CheckpointMissing, match="is empty, although checkpoint 40 of 2026-11-21T09") as caught:
        refuse_lost_state(JOB, kept(DOCUMENT))
    assert "checkpoint list --namespace shop --job orders" in caught.value.remedy
    assert "kubectl get ksj orders -n shop -o yaml | kubectl replace --force -f -" in caught.value.remedy
    assert caught.value.fatal
