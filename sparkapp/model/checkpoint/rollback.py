"""Detection of a state that is older than the job's latest commit, by the marks on the group's offsets."""

from __future__ import annotations

from collections.abc import Iterable

from sparkapp.model.checkpoint.commit_outcome import Mark, mark_of
from sparkapp.model.checkpoint.document import CheckpointDocument


def latest_commit(marks: Iterable[str], job_uid: str) -> Mark | None:
    """The mark of the job's latest checkpoint, and of the latest attempt with that checkpoint. Pure.

    :param marks: texts stored with the group's offsets, by any client.
    :returns: None without a mark of this job: the group is new, has expired, or another client has moved it.
    """
    own = (mark_of(mark, job_uid) for mark in marks)
    return max((mark for mark in own if mark is not None), key=_age, default=None)


def is_older(document: CheckpointDocument, latest: Mark | None) -> bool:
    """Whether the job has written a later document. Pure.

    An attempt writes the document before it commits anything, so a later commit proves a later document. With the same
    checkpoint, a later attempt proves it, too. A pipeline that shuffles marks offsets only after its commits. So
    records of that attempt's next checkpoint may be visible without a mark.
    """
    return latest is not None and _age(latest) > (document.checkpoint_id, document.attempt)


def _age(mark: Mark) -> tuple[int, int]:
    return mark.checkpoint_id, mark.attempt
