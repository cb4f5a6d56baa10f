"""A start without the checkpoint: a step of recovery, after the transactions of earlier attempts are settled (ADR 97).

The document keeps what later starts need for exactly once: its number, the transactional ids, the clusters, the totals.
It loses what belongs to records: offsets, ends, the engine's text, and with it the state of operators. The write of
that document is the start. A crash before it leaves the request to the next attempt. A crash behind it leaves a
document without offsets, where the next attempt begins as a new job does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkapp.model.checkpoint.document import CheckpointDocument, StatelessStart
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a stateless start has left behind.

    :param checkpoint_id: the last completed checkpoint, and ``created_at`` its time.
    :param offsets: where each partition would have resumed.
    :param had_state: operators kept state.
    """

    checkpoint_id: int
    created_at: str
    offsets: Mapping[TopicPartition, int]
    had_state: bool

    def describe(self, starts: Mapping[TopicPartition, int]) -> str:
        """The effect on the records, for an event.

        :param starts: where the partitions begin instead.
        """
        both = self.offsets.keys() & starts.keys()
        again = sum(max(self.offsets[each] - starts[each], 0) for each in both)
        skipped = sum(max(starts[each] - self.offsets[each], 0) for each in both)
        text = f"begins without checkpoint {self.checkpoint_id} of {self.created_at} (spec.upgrade.mode Stateless):"
        text += f" {again} record(s) are read and written again, {skipped} record(s) are skipped"
        return text + ("; operators begin with empty state" if self.had_state else "")


def leave_behind(document: CheckpointDocument, job: Job, *, after: int) -> tuple[CheckpointDocument, Left]:
    """The document of a stateless start; the caller writes it.

    It is a checkpoint of its own with the next number, as a restore is. So no number ever has two sets of offsets, and
    query state counts from there. A restore without a target is served by it, as by a first start.

    :param document: with nothing left to settle. :param after: the highest number that the job has given, where the
        document may be older.
    """
    number = max(document.checkpoint_id, after) + 1
    begun = replace(
        document,
        checkpoint_id=number,
        splits=(),
        topic_ids={},
        stops={},
        stopping="",
        engine="",
        engine_has_state=False,
        aligned=True,
        evidence_group="",
        local=None,
        finished=False,
        drained=False,
        redeploy_nonce=max(document.redeploy_nonce, job.spec.restore.nonce),
        stateless=StatelessStart(asked_by=job.stateless, checkpoint_id=number),
    )
    left = Left(
        checkpoint_id=document.checkpoint_id, created_at=document.created_at, offsets=document.offsets,
        had_state=document.engine_has_state,
    )  # fmt: skip
    return begun, left


def noted(job: Job, document: CheckpointDocument | None) -> StatelessStart | None:
    """The request as served, where nothing is left behind: a first start, or ``spec.restore`` names a checkpoint.

    :param document: None where the state is empty.
    """
    before = None if document is None else document.stateless
    if not job.stateless:
        return before
    return StatelessStart(asked_by=job.stateless, checkpoint_id=0 if before is None else before.checkpoint_id)
