"""Where a job of the local pace resumes: the document's lower bounds against the group's offsets (ADR 56)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto

from sparkapp.model import commands
from sparkapp.model.checkpoint.commit_outcome import GroupOffset, mark_of
from sparkapp.model.checkpoint.document import CheckpointDocument, LocalPart
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import (
    GroupOffsetsBehind,
    GroupOffsetsMissing,
    GroupOffsetsMoved,
    StateRolledBack,
    StateUncertain,
)
from sparkapp.model.errors.listed import listed
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition

GroupAnswer = Mapping[TopicPartition, GroupOffset | None]
"""Final offsets of a group, None where it has none. Absent are partitions that do not exist any more, and those of
topics that the spec has left."""


class Resume(Enum):
    """Where a partition resumes, or why that is not known."""

    GROUP = auto()
    DOCUMENT = auto()
    STATE_OLDER = auto()
    BEHIND = auto()
    MOVED = auto()
    MISSING = auto()


def resume_of(bound: int | None, found: GroupOffset | None, *, is_placed: bool, local: LocalPart, uid: str) -> Resume:
    """The table of a partition. Pure.

    The visible records of a partition end at the offset that its era has committed last. In an era document and group
    only grow. So an older offset, or none, is the work of another client, unless the era had not committed yet.

    :param bound: the document's offset; None for a partition that it does not know.
    :param found: the group's offset, read after the last commit that the era can have made.
    """
    mark = None if found is None else mark_of(found.metadata, uid)
    if mark is not None and mark.attempt > local.era:
        return Resume.STATE_OLDER
    if found is not None and mark is not None and mark.attempt == local.era:
        if bound is None and mark.checkpoint_id < local.forgot_at:
            return Resume.DOCUMENT  # Of a topic that was deleted: brokers may keep its offsets.
        return Resume.GROUP if found.offset >= (bound or 0) else Resume.BEHIND
    if not is_placed:
        return Resume.DOCUMENT
    if found is None:
        return Resume.DOCUMENT if local.ended else Resume.MISSING
    return Resume.MOVED if mark is None else Resume.BEHIND


def starts_of(
    document: CheckpointDocument, local: LocalPart, group: GroupAnswer, job: Job
) -> dict[TopicPartition, int]:
    """Where each partition resumes. Pure; called by recovery, and before a subtask's new instance is granted.

    Partitions that do not exist any more keep the document's offset: the enumerator tells what became of them. A
    partition that the document does not know resumes where the era has committed it, and else is new.

    :raises StateRolledBack: an attempt was granted after the document's.
    :raises StateUncertain: the group was moved, set back or deleted by others.
    """
    offsets = document.offsets
    starts = dict(offsets)
    problems: dict[Resume, list[TopicPartition]] = {}
    for partition, found in sorted(group.items()):
        resume = resume_of(
            offsets.get(partition), found, is_placed=partition in local.placed, local=local, uid=document.job_uid
        )
        if resume is Resume.GROUP and found is not None:
            starts[partition] = found.offset
        elif resume is not Resume.DOCUMENT:
            problems.setdefault(resume, []).append(partition)
    for resume in Resume:
        if resume in problems:
            raise _problem(resume, problems[resume], document, group, job)
    return starts


def resumed(
    document: CheckpointDocument, local: LocalPart, group: GroupAnswer, job: Job, *, forced: bool
) -> CheckpointDocument:
    """The document at the offsets where its partitions resume, which decides from now on. Pure.

    Nothing of the era can be committed any more, so it is left out. The era stays for partitions without an answer,
    until a grant, or the begin of a two-phase attempt, leaves them out. Their topic may be in the spec again before.

    :param forced: a restore is due, which replaces the offsets and accepts repeated records.
    :raises StateUncertain: and StateRolledBack, see :func:`starts_of`.
    """
    try:
        starts = starts_of(document, local, group, job)
    except (StateUncertain, StateRolledBack):
        if not forced:
            raise
        starts = document.offsets
    ahead = sum(starts[partition] - offset for partition, offset in document.offsets.items())
    unknown = frozenset() if forced or local.ended else local.placed - group.keys()
    return replace(
        document, local=replace(local, placed=unknown) if unknown else None,
        evidence_group=document.evidence_group if unknown else "", counters=document.counters.plus(records_in=ahead),
        splits=tuple(KafkaPartitionSplit(partition, offset, offset) for partition, offset in sorted(starts.items())),
    )  # fmt: skip


_WHAT = {
    Resume.STATE_OLDER: "a later attempt has committed",
    Resume.BEHIND: "an older offset than the job has committed stands at",
    Resume.MOVED: "somebody else has set",
    Resume.MISSING: "no offset is left of",
}
_ERRORS = {
    Resume.BEHIND: GroupOffsetsBehind,
    Resume.MOVED: GroupOffsetsMoved,
    Resume.MISSING: GroupOffsetsMissing,
}


def _problem(
    resume: Resume, partitions: list[TopicPartition], document: CheckpointDocument, group: GroupAnswer, job: Job
) -> StateUncertain | StateRolledBack:
    offsets = document.offsets
    shown = listed(
        f"{partition} ({_told(group[partition])}, the checkpoint has {offsets.get(partition, 'none')})"
        for partition in partitions
    )
    msg = (
        f"checkpoint {document.checkpoint_id}: in group {document.evidence_group} {_WHAT[resume]} {shown}; how"
        " far the job's output reaches is not known"
    )
    return _ERRORS.get(resume, StateRolledBack)(msg, remedy=_remedy(document, job))


def _told(found: GroupOffset | None) -> str:
    return "none" if found is None else f"offset {found.offset}, text {found.metadata[:60]!r}"


def _remedy(document: CheckpointDocument, job: Job) -> str:
    again = f"start from spec.source.startup:\n{commands.create_again(job)}"
    if not document.checkpoint_id:
        return again
    nonce = max(document.redeploy_nonce, job.spec.restore.nonce) + 1
    accept = {"restore": {"checkpoint": document.checkpoint_id, "nonce": nonce}}
    return (
        "resume from the checkpoint, and what was committed after it is written twice:\n"
        f"{commands.patch(job, accept)}\nor {again}"
    )
