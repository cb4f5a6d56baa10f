"""Whether the state is older than what the job has committed: its marks on the group's offsets tell."""

from __future__ import annotations

from collections.abc import Iterable

from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.settlement import Mark, mark_of


def latest_commit(marks: Iterable[str], job_uid: str) -> Mark | None:
    """The mark of the job's latest checkpoint, and of its latest attempt at that. Pure.

    :param marks: texts beside the group's offsets, anybody's.
    :returns: None where no mark is this job's: the group is new, has expired, or somebody else has moved it.
    """
    ours = (mark_of(one, job_uid) for one in marks)
    return max((one for one in ours if one is not None), key=_age, default=None)


def is_older(document: CheckpointDocument, latest: Mark | None) -> bool:
    """Whether the job has written a later document than this one. Pure.

    The document is written before anything that its checkpoint or attempt commits, so a later commit proves a later
    document. Where the checkpoint is the same, a later attempt proves it: a pipeline that shuffles marks offsets only
    after its commits, so the records of the checkpoint after it may be visible without a mark.
    """
    return latest is not None and _age(latest) > (document.checkpoint_id, document.attempt)


def _age(mark: Mark) -> tuple[int, int]:
    return mark.checkpoint_id, mark.attempt
