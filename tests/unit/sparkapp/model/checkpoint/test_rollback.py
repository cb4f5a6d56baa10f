"""What the marks on a group's offsets prove about the age of a document."""

from __future__ import annotations

import pytest

from sparkapp.model.checkpoint.commit_outcome import Mark, offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.rollback import is_older, latest_commit

DOCUMENT = CheckpointDocument(
    job_uid="uid", attempt=4, checkpoint_id=40, created_at="", parallelism=1, prefix="p"
)  # fmt: skip


@pytest.mark.parametrize(
    ("attempt", "checkpoint", "older"),
    [(4, 40, False), (3, 40, False), (4, 41, True), (1, 41, True), (5, 40, True), (9, 39, False), (4, 0, False)],
)
def test_a_later_checkpoint_or_a_later_attempt_of_it_proves_a_later_document(
    attempt: int, checkpoint: int, older: bool
) -> None:
    latest = latest_commit([offset_mark("uid", 1, 7), offset_mark("uid", attempt, checkpoint)], "uid")
    assert is_older(DOCUMENT, latest) is older


@pytest.mark.parametrize(
    "marks", [[], [""], ["by hand"], [offset_mark("other", 9, 99)], ["uid"], ["uid/9"], ["uid/9/"], ["uid/9/x"],
              ["uid/-1/99"], ["uid/9/99/1"], ["uid/²/99"]],
)  # fmt: skip
def test_what_is_nobodys_or_anothers_proves_nothing(marks: list[str]) -> None:
    assert latest_commit(marks, "uid") is None
    assert not is_older(DOCUMENT, None)


def test_the_latest_mark_counts_however_few_partitions_have_it() -> None:
    marks = [offset_mark("uid", 9, 12), offset_mark("uid", 2, 41), "", offset_mark("other", 3, 77)]
    assert latest_commit(marks, "uid") == Mark(attempt=2, checkpoint_id=41)
