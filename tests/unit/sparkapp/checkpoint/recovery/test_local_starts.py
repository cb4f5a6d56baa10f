"""Where a partition of the local pace resumes: the table of ADR 56."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from sparkapp.checkpoint.recovery.local_starts import Resume, resume_of, resumed, starts_of
from sparkapp.model.checkpoint.commit_outcome import GroupOffset, offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument, LocalPart
from sparkapp.model.checkpoint.naming import SlotBounds
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    GroupOffsetsBehind,
    GroupOffsetsMissing,
    GroupOffsetsMoved,
    StateRolledBack,
    StateUncertain,
)
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from tests.support.jobs.plain_job import plain_spec

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
ERA = 5


def of(attempt: int, offset: int, uid: str = "uid") -> GroupOffset:
    return GroupOffset(offset, offset_mark(uid, attempt, 9))


BY_HAND, ANOTHER_JOB = GroupOffset(100), of(ERA, 100, "another")
UNPLACED_IS_THE_DOCUMENTS = [of(4, 100), of(4, 99), of(4, 101), BY_HAND, GroupOffset(500), ANOTHER_JOB, None]


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (of(ERA, 100), Resume.GROUP),
        (of(ERA, 170), Resume.GROUP),
        (of(ERA, 99), Resume.BEHIND),
        (of(6, 100), Resume.STATE_OLDER),
        (of(6, 99), Resume.STATE_OLDER),
    ],
)
def test_marks_of_the_era_and_of_later_eras_decide(found: GroupOffset, placed: bool, expected: Resume) -> None:
    for ended in (True, False):
        local = LocalPart(era=ERA, ended=ended)
        assert resume_of(100, found, is_placed=placed, local=local, uid="uid") is expected


def test_a_mark_on_an_unknown_partition_counts_from_the_last_deletion_on() -> None:
    """Brokers may keep the offset of a deleted topic, and its successor has the name."""
    known = partial(resume_of, None, of(ERA, 170), is_placed=False, uid="uid")
    assert known(local=LocalPart(era=ERA, forgot_at=9)) is Resume.GROUP
    assert known(local=LocalPart(era=ERA, forgot_at=10)) is Resume.DOCUMENT


@pytest.mark.parametrize("found", UNPLACED_IS_THE_DOCUMENTS)
def test_a_partition_that_is_not_placed_resumes_at_the_document(found: GroupOffset | None) -> None:
    assert resume_of(100, found, is_placed=False, local=LocalPart(era=ERA), uid="uid") is Resume.DOCUMENT


@pytest.mark.parametrize(
    ("found", "ended", "expected"),
    [
        (of(4, 100), False, Resume.BEHIND),
        (of(4, 170), True, Resume.BEHIND),
        (BY_HAND, False, Resume.MOVED),
        (BY_HAND, True, Resume.MOVED),
        (ANOTHER_JOB, False, Resume.MOVED),
        (None, False, Resume.MISSING),
        (None, True, Resume.DOCUMENT),
    ],
)
def test_a_placed_partition_has_the_eras_offset_or_somebody_interfered(
    found: GroupOffset | None, ended: bool, expected: Resume
) -> None:
    local = LocalPart(era=ERA, ended=ended)
    assert resume_of(100, found, is_placed=True, local=local, uid="uid") is expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [(of(ERA, 3), Resume.GROUP), (of(6, 3), Resume.STATE_OLDER), (of(4, 3), Resume.DOCUMENT), (None, Resume.DOCUMENT)],
)
def test_a_partition_that_the_document_does_not_know(found: GroupOffset | None, expected: Resume) -> None:
    assert resume_of(None, found, is_placed=False, local=LocalPart(era=ERA), uid="uid") is expected


def document(*, checkpoint_id: int = 9) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid="uid", attempt=ERA, checkpoint_id=checkpoint_id, created_at="", parallelism=2, prefix="p",
        slots=SlotBounds(2, 1), evidence_group="group", redeploy_nonce=3,
        splits=(KafkaPartitionSplit(A0, 80, 100), KafkaPartitionSplit(A1, 0, 50)),
        local=LocalPart(era=ERA, placed=frozenset({A0, A1})),
    )  # fmt: skip


SPEC = plain_spec(source=Source(topics=("a",), group_id="group"))
JOB = Job(namespace="shop", name="orders", uid="uid", generation=1, attempt=6, spec=SPEC)


def starts(group: dict[TopicPartition, GroupOffset | None]) -> dict[TopicPartition, int]:
    known = document()
    assert known.local is not None
    return starts_of(known, known.local, group, JOB)


def test_the_group_is_ahead_and_has_a_partition_that_the_document_does_not_know() -> None:
    assert starts({A0: of(ERA, 170), A1: of(ERA, 50), A2: of(ERA, 7)}) == {A0: 170, A1: 50, A2: 7}


def test_a_new_partition_starts_as_any_other_new_partition() -> None:
    assert starts({A0: of(ERA, 100), A1: of(ERA, 50), A2: None}) == {A0: 100, A1: 50}


def test_a_partition_that_does_not_exist_any_more_keeps_the_documents_offset() -> None:
    assert starts({A0: of(ERA, 170)}) == {A0: 170, A1: 50}


@pytest.mark.parametrize(
    ("group", "kind", "message"),
    [
        (
            {A0: of(ERA, 170), A1: None},
            GroupOffsetsMissing,
            r"no offset is left of a-1 \(none, the checkpoint has 50\)",
        ),
        ({A0: GroupOffset(3), A1: None}, GroupOffsetsMoved, r"somebody else has set a-0 \(offset 3, text ''"),
        ({A0: of(4, 170), A1: GroupOffset(3)}, GroupOffsetsBehind, "than the job has committed stands at a-0"),
        ({A0: of(4, 170), A1: of(6, 50)}, StateRolledBack, "a later attempt has committed a-1"),
    ],
)
def test_the_worst_problem_stops_the_job(
    group: dict[TopicPartition, GroupOffset | None], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        starts(group)
    assert '"checkpoint":9,"nonce":4' in caught.value.remedy.replace(" ", "")  # type: ignore[attr-defined]
    assert "kubectl replace" in caught.value.remedy  # type: ignore[attr-defined]


def test_without_a_record_there_is_no_checkpoint_to_name() -> None:
    known = document(checkpoint_id=0)
    assert known.local is not None
    with pytest.raises(StateUncertain) as caught:
        starts_of(known, known.local, {A0: None, A1: None}, JOB)
    assert "restore" not in caught.value.remedy


def test_the_result_is_a_document_that_decides() -> None:
    known = document()
    assert known.local is not None
    found = resumed(known, known.local, {A0: of(ERA, 170), A1: of(ERA, 50)}, JOB, forced=False)
    assert (found.local, found.evidence_group, found.offsets) == (None, "", {A0: 170, A1: 50})
    assert found.counters.records_in == 70


def test_a_restore_needs_no_group() -> None:
    known = document()
    assert known.local is not None
    found = resumed(known, known.local, {A0: None, A1: None}, JOB, forced=True)
    assert (found.local, found.offsets) == (None, known.offsets)


def test_the_era_decides_about_a_topic_that_the_spec_has_left() -> None:
    """The topic may be back before anything is granted, and the document has only a lower bound of its offsets."""
    known = document()
    assert known.local is not None
    without = resumed(known, known.local, {A0: of(ERA, 170)}, JOB, forced=False)
    assert without.offsets == {A0: 170, A1: 50}
    assert without.local == LocalPart(era=ERA, placed=frozenset({A1}))
    found = resumed(without, without.local, {A0: of(ERA, 170), A1: of(ERA, 90)}, JOB, forced=False)
    assert (found.local, found.evidence_group, found.offsets) == (None, "", {A0: 170, A1: 90})
    assert found.counters.records_in == 70 + 40


def test_offsets_of_an_era_that_ended_in_order_are_exact() -> None:
    known = document()
    assert known.local is not None
    found = resumed(known, replace(known.local, ended=True), {A0: of(ERA, 100)}, JOB, forced=False)
    assert (found.local, found.evidence_group, found.offsets) == (None, "", {A0: 100, A1: 50})
