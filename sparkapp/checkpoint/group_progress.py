"""The job's offsets in its consumer group, as far as they move outside the subtasks' transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from sparkapp.checkpoint.pre_committed import PreCommitted, offsets_to_commit
from sparkapp.clients.deadline import Clock
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition

_RENEW_SECONDS = 3600.0
_WITHDRAW_SECONDS = 30.0
"""By then, brokers have replaced a group coordinator that died. No transaction is open meanwhile."""


class GroupOffsets(Protocol):
    """Commits offsets of the group outside transactions; see ``source.offset_committer``."""

    def commit(self, offsets: Mapping[TopicPartition, int], mark: str = "") -> None: ...

    def place(self, offsets: Mapping[TopicPartition, int], mark: str) -> None: ...

    def withdraw(self, partitions: Collection[TopicPartition], timeout: float) -> bool: ...


class GroupProgress:
    """Decides which offsets the group gets, and when; used by the checkpoint coordinator.

    Checkpoints are placed in one thread and committed in another; both only add to the sets.

    :param group_offsets: None for a job that commits no offsets.
    :param document: the recovered document.
    """

    def __init__(
        self, job: Job, group_offsets: GroupOffsets | None, *, document: CheckpointDocument, clock: Clock
    ) -> None:
        self._job = job
        self._group_offsets = group_offsets
        self._clock = clock
        self.mode = job.spec.offset_commit_mode
        self._placed: set[TopicPartition] = set()
        self._kept = set(document.offsets) if document.checkpoint_id else set()
        """Partitions whose offsets the group has from this job."""
        self._moved: set[TopicPartition] = set()
        """Partitions among them with a commit since the last renewal."""
        self._was_finished = document.finished
        self._renew_at = clock() + _RENEW_SECONDS

    def place(self, splits: Sequence[KafkaPartitionSplit], checkpoint_id: int) -> None:
        """Marks in the group's offsets where each partition starts, once an attempt.

        Only where offsets move inside the transactions. The mark tells a lost transaction from a committed transaction,
        even if the group was ahead of the job, or is new. Called at the begin of each checkpoint, so that a job that
        never writes does not change its group.

        Commits outside transactions for previous checkpoints are over before, or failed and are withdrawn. Of two
        offsets the broker keeps the offset that reached it last, even if the other offset's transaction is committed
        later. In a pipeline that shuffles such a commit has the only mark of its checkpoint.

        :param checkpoint_id: of the last document.
        :raises KafkaAccessError: the group may not be written; its transactions would be refused, too.
        :raises KafkaUnreachable: a previous commit has no answer and may still arrive; nothing is written yet.
        """
        if self.mode is not OffsetCommitMode.IN_TRANSACTION or self._group_offsets is None:
            return
        read = [split.partition for split in splits if split.size]
        if read and not self._group_offsets.withdraw(read, _WITHDRAW_SECONDS):
            # After the next transaction's commit, its arrival would make the group prove the wrong outcome.
            msg = f"a commit of the group's offsets had no answer within {_WITHDRAW_SECONDS:g} s"
            raise KafkaUnreachable(msg)
        starts = {split.partition: split.start for split in splits if split.partition not in self._placed}
        if starts:
            self._group_offsets.place(starts, self._mark(checkpoint_id))
            self._placed |= starts.keys()
            self._note_moved(starts)

    def moves_inside(self, checkpoint: PreCommitted) -> bool:
        """Whether nothing of the group moves at the end of the checkpoint but by its transactions.

        True as well where no transaction has offsets: then commits simply follow each other. A renewal that is due is
        left to a checkpoint that ends alone, in every mode.
        """
        if self._clock() >= self._renew_at:
            return False
        return self.mode is not OffsetCommitMode.IN_TRANSACTION or not offsets_to_commit(checkpoint, self.mode)

    def commit(self, checkpoint: PreCommitted) -> None:
        """Commits the offsets of a committed checkpoint that are in none of its transactions."""
        if self._group_offsets is None:
            return
        offsets = offsets_to_commit(checkpoint, self.mode)
        if offsets:
            self._group_offsets.commit(offsets, self._mark(checkpoint.checkpoint_id))
        self._note_moved(offsets)
        self._note_moved(split.partition for committable in checkpoint.committables for split in committable.ranges)

    def renew(self, document: CheckpointDocument) -> None:
        """Commits the offsets of quiet partitions again, once an hour.

        Brokers forget each offset of a group without members ``offsets.retention.minutes`` (7 days by default) after
        its last commit. The mark that tells a lost transaction from a committed transaction is lost with it. Not every
        user may read that setting. One commit an hour is cheap, and no offset is older than two hours.

        A group with members keeps its offsets (KIP-211), so none is renewed with ``groupMembership: Subscribe``.
        """
        now = self._clock()
        if now < self._renew_at:
            return
        self._renew_at = now + _RENEW_SECONDS
        quiet, self._moved = self._kept - self._moved, set()
        offsets = {partition: offset for partition, offset in document.offsets.items() if partition in quiet}
        if (
            offsets
            and self._group_offsets is not None
            and self.mode is not OffsetCommitMode.DISABLED
            and not self._job.spec.source.group_membership.subscribes
        ):
            self._group_offsets.commit(offsets, self._mark(document.checkpoint_id))

    def commit_ends(self, document: CheckpointDocument) -> None:
        """Commits where the partitions of a finished bounded job ended.

        A transaction with the records before an end carries the offset that its task has read to. The checkpoint
        corrects it (:func:`offsets_to_commit`), unless the driver dies in between.
        """
        bounded = self._job.spec.source.stopping.predicate and not self._was_finished
        if self._group_offsets is not None and bounded:
            self._group_offsets.commit(document.offsets, self._mark(document.checkpoint_id))

    def _note_moved(self, partitions: Iterable[TopicPartition]) -> None:
        moved = set(partitions)
        self._kept |= moved
        self._moved |= moved

    def _mark(self, checkpoint_id: int) -> str:
        return offset_mark(self._job.uid, self._job.attempt, checkpoint_id)
