"""The coordinator of the two-phase commit: one process, one document, one order of steps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.checkpoint_codec import encode
from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.deadline import Clock, Deadline
from sparkapp.model.errors import KafkaUnreachable, TransactionFenced
from sparkapp.model.job import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.protocol import ProtocolStep, StepHook, no_hook
from sparkapp.model.semantic import OffsetCommitMode, Semantic, effective_offset_commit_mode
from sparkapp.model.settlement import offset_mark
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.model.transaction_naming import NO_SLOTS, TransactionNaming, is_first_start, pool_of_subtask
from sparkapp.model.transactional_id import FIRST_HINT
from sparkapp.sink.committer import Outcome, Settled
from sparkapp.sink.open_transactions import CommitTimes

LOG = logging.getLogger(__name__)

_RENEW_SECONDS = 3600.0
_WITHDRAW_SECONDS = 30.0
"""A group's coordinator that has died is replaced by then; nothing is open meanwhile."""


class Committer(Protocol):
    """Commits the transactions of one checkpoint."""

    def commit(
        self, committables: Sequence[KafkaCommittable], *, after_each: Callable[[KafkaCommittable], None] | None = None
    ) -> Sequence[Settled]: ...


class PreCommits(Protocol):
    """Looks at the transactions of a checkpoint before it is final; see ``sink.open_transactions``."""

    def require(self, committables: Sequence[KafkaCommittable], *, began: float) -> CommitTimes: ...


class GroupOffsets(Protocol):
    """The group's offsets, as far as they move outside transactions; see ``source.offset_committer``."""

    def commit(self, offsets: Mapping[TopicPartition, int], mark: str = "") -> None: ...

    def place(self, offsets: Mapping[TopicPartition, int], mark: str) -> None: ...

    def withdraw(self, partitions: Collection[TopicPartition], timeout: float) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PreCommitted:
    """One checkpoint whose subtasks have all pre-committed.

    :param splits: every known partition with this checkpoint's range.
    :param stops: where partitions were found to end in it; their splits end there, too.
    :param topic_ids: of the splits' topics, as far as they are known.
    :param aligned: whether each subtask wrote exactly what it read, whole partitions of it.
    :param engine: what the engine wants back on a restart.
    :param engine_has_state: whether the engine keeps operator state outside the document.
    """

    checkpoint_id: int
    splits: tuple[KafkaPartitionSplit, ...]
    aligned: bool
    committables: tuple[KafkaCommittable, ...]
    records_out: int
    stops: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    records_skipped: int = 0
    records_dead_lettered: int = 0
    engine: str = ""
    engine_has_state: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A checkpoint that is final and visible."""

    document: CheckpointDocument
    bytes: int
    write_millis: int
    commit_millis: int


class CheckpointCoordinator:
    """Completes checkpoints; used by the engine from one thread.

    :param document: the recovered document, with starting offsets.
    :param version: the store's version of it.
    :param restored_hint: computed from once per life, so repeated checkpoints write the same hint (H10).
    :param now: gives RFC 3339 times.
    :param hook: called at each step; fault tests kill the process there.
    :param clock: that of ``pre_commits``.
    """

    def __init__(
        self,
        job: Job,
        *,
        store: CheckpointStore,
        document: CheckpointDocument,
        version: str,
        pre_commits: PreCommits,
        committer: Committer,
        group_offsets: GroupOffsets | None,
        now: Callable[[], str],
        hook: StepHook = no_hook,
        clock: Clock = time.monotonic,
    ) -> None:
        self._job = job
        self._store = store
        self._claim = Claim(store, job_uid=job.uid, attempt=job.attempt)
        self._document = document
        self._version = version
        self._pre_commits = pre_commits
        self._committer = committer
        self._group_offsets = group_offsets
        self._now = now
        self._hook = hook
        sink, parallelism = job.spec.sink, job.spec.parallelism
        self._hint, self._slots = document.hint, document.slots
        if sink.semantic is not Semantic.EXACTLY_ONCE:
            # Recovery has settled or aborted whatever former lives had open (H16, T10).
            self._hint, self._slots = FIRST_HINT, NO_SLOTS
        elif sink.transaction_naming is TransactionNaming.HINT:
            self._hint = self._hint.advance(parallelism=parallelism, pool_size=sink.producers_pool_size)
        else:
            self._slots = self._slots.with_life(parallelism=parallelism, pool_size=sink.producers_pool_size)
        self._next_free = document.hint.next_free_transactional_id
        self._mode = effective_offset_commit_mode(job.spec.source.offset_commit, sink.semantic)
        self._placed: set[TopicPartition] = set()
        self._kept = set(document.offsets) if document.checkpoint_id else set()
        """Partitions whose offsets the group has from this job."""
        self._moved: set[TopicPartition] = set()
        """Those of them that were committed since offsets were last renewed."""
        self._was_finished = document.finished
        self._committed_id = document.checkpoint_id
        self._clock = clock
        self._began = clock()
        self._running: int | None = None
        self._renew_at = clock() + _RENEW_SECONDS

    @property
    def document(self) -> CheckpointDocument:
        """The last document written."""
        return self._document

    @property
    def next_free(self) -> int:
        """Base of this life's transactional ids by hint: the restored hint's next free id."""
        return self._next_free

    def ids_in_use(self) -> list[str]:
        """Ids that the running checkpoint's tasks may write under, until its transactions are committed.

        Empty where no checkpoint runs. Called by the orphan sweep, from its thread.
        """
        running, sink, parallelism = self._running, self._job.spec.sink, self._job.spec.parallelism
        if running is None:
            return []
        return [
            pool_of_subtask(
                sink.transaction_naming, prefix=sink.transactional_id_prefix, subtask=subtask, parallelism=parallelism,
                pool_size=sink.producers_pool_size, next_free=self._next_free,
            )[running % sink.producers_pool_size]
            for subtask in range(parallelism)
        ]  # fmt: skip

    @property
    def mode(self) -> OffsetCommitMode:
        return self._mode

    def begin(
        self,
        splits: tuple[KafkaPartitionSplit, ...],
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Writes the offsets this life starts from, before anything is read, and the ids that it may write under.

        So a LATEST or group start that dies before its first checkpoint starts again at the same offsets, and a
        restored partition that no longer matches is forgotten once, here. A life of the naming SubtaskAndSlot that
        dies likewise leaves no id behind that its successors do not know of, and one that begins with the first hint
        leaves word that it may have ids. A life without transactions has none to remember.

        :param stops: where each partition of a bounded job ends; fixed from now on.
        :param topic_ids: of the topics that the splits are of.
        """
        transactional = self._job.spec.sink.semantic is Semantic.EXACTLY_ONCE
        hint = self._document.hint if transactional else self._hint
        self._write(
            replace(
                self._document, splits=splits, parallelism=self._job.spec.parallelism, created_at=self._now(),
                hint=hint, slots=self._slots, transactional=transactional and is_first_start(hint, self._slots),
                stops=dict(stops or {}), stopping=self._job.spec.source.stopping.fingerprint,
                finished=False, topic_ids=dict(topic_ids or {}),
            )
        )  # fmt: skip

    def prepare(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        """Begins a checkpoint: marks in the group's offsets where each partition starts, once an attempt, before
        anything of it is written.

        Reads the claim first. Tasks initialise producers, which ends transactions of a later attempt under the same ids
        and the description that proves its commits. The window is the time until the last task has its producer.

        Called by the engine at the begin of each checkpoint, so that a job that never writes leaves its group alone.
        Only where offsets move inside the transactions: the mark tells a lost transaction from one that was committed
        even if the group was ahead of the job, or is new.

        Commits beside the transactions of former checkpoints are over before, or withdrawn: of two offsets the broker
        keeps the one that reached it last, though the other's transaction be committed later.

        :raises CheckpointConflict: superseded. :raises CheckpointError: the document cannot be read.
        :raises KafkaAccessError: the group may not be written; its transactions would be refused, too.
        :raises KafkaUnreachable: a former commit has no answer and may still arrive; nothing is written yet.
        """
        self._claim.require()
        self._began = self._clock()
        self._running = self._document.checkpoint_id + 1
        if self._mode is not OffsetCommitMode.IN_TRANSACTION or self._group_offsets is None:
            return
        read = [split.partition for split in splits if split.size]
        if read and not self._group_offsets.withdraw(read, _WITHDRAW_SECONDS):
            msg = (
                f"a commit of the group's offsets is under way for more than {_WITHDRAW_SECONDS:g} s: were it to come"
                " after the next transaction's, the group would prove the wrong thing"
            )
            raise KafkaUnreachable(msg)
        starts = {split.partition: split.start for split in splits if split.partition not in self._placed}
        if starts:
            self._group_offsets.place(starts, self._mark(self._document.checkpoint_id))
            self._placed |= starts.keys()
            self._note_moved(starts)

    def complete(self, checkpoint: PreCommitted) -> Completed | None:
        """Makes a pre-committed checkpoint final: document first, then the commits, then the group's offsets.

        Returns None for a checkpoint that was completed before: an engine that repeats its last batch after a crash
        must find it a no-op.

        Right before the document the coordinators are asked whether every transaction is still open: subtasks did so
        when each of them was done, and the last one may have come long after the first. Each must stay open for longer
        than write and commit may take. What is left of it bounds the write, and where the driver stood still after it
        nothing is committed: a part of the transactions could have ended, and the next attempt settles them as a whole.

        :raises CheckpointConflict: superseded; nothing of this checkpoint was or will be committed by us.
        :raises TransactionFenced: a transaction was lost, before the document (then nothing is final) or after it; the
            next attempt replays it.
        :raises KafkaUnreachable: the coordinators could not be asked; nothing is final.
        :raises CommitOutcomeUnknown: no answer in time; the next attempt settles it.
        """
        if checkpoint.checkpoint_id <= self._document.checkpoint_id:
            LOG.info("checkpoint %d was completed before, nothing to do", checkpoint.checkpoint_id)
            return None
        self._hook(ProtocolStep.AFTER_FLUSH, checkpoint.checkpoint_id)
        times = None
        if checkpoint.committables:
            times = self._pre_commits.require(checkpoint.committables, began=self._began)
        started = time.monotonic()
        size = self._write(self._next_document(checkpoint), times.write_by if times is not None else None)
        written = time.monotonic()
        self._hook(ProtocolStep.AFTER_WRITE, checkpoint.checkpoint_id)
        if times is not None and times.commit_by.expired:
            msg = (
                f"checkpoint {checkpoint.checkpoint_id} is final, but its transactions may have reached their time-out"
            )
            raise TransactionFenced(msg)
        self._commit(checkpoint)
        self._committed_id, self._running = checkpoint.checkpoint_id, None
        committed = time.monotonic()
        self._hook(ProtocolStep.AFTER_COMMITS, checkpoint.checkpoint_id)
        if self._group_offsets is not None:
            offsets = offsets_to_commit(checkpoint, self._mode)
            if offsets:
                self._group_offsets.commit(offsets, self._mark(checkpoint.checkpoint_id))
            self._note_moved(offsets)
            self._note_moved(split.partition for one in checkpoint.committables for split in one.ranges)
        self.renew()
        return Completed(
            document=self._document,
            bytes=size,
            write_millis=round((written - started) * 1000),
            commit_millis=round((committed - written) * 1000),
        )

    def forget_settled(self) -> None:
        """Writes the last document without its transactions, which are committed; called by the engine of an idle job.

        Brokers forget a transactional id after a week, and a group's offsets as well. A document that still names its
        transactions then could be settled by nobody, although there is nothing to settle. Everything else stays as it
        is, the time of the checkpoint included: it is the same checkpoint. A crash before the write leaves transactions
        to settle that are committed, which is what any crash after the commits leaves; after it, none. One write a
        checkpoint at most.

        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        if self._document.committables and self._committed_id == self._document.checkpoint_id:
            self._write(replace(self._document, committables=()))

    def renew(self) -> None:
        """Commits the offsets of quiet partitions again; called after each checkpoint and by the engine of an idle job.

        Brokers forget each offset of a group without members ``offsets.retention.minutes`` after its last commit, and
        with it the mark that tells a lost transaction from a committed one. They do not tell every user how long that
        is: 7 days by default. One commit an hour is nothing to them, and offsets are at most two hours old.

        A group with members keeps its offsets (KIP-211), so none is renewed with ``groupMembership: Subscribe``.
        """
        now = self._clock()
        if now < self._renew_at or self._committed_id != self._document.checkpoint_id:
            return
        self._renew_at = now + _RENEW_SECONDS
        quiet, self._moved = self._kept - self._moved, set()
        offsets = {one: offset for one, offset in self._document.offsets.items() if one in quiet}
        subscribes = self._job.spec.source.group_membership.subscribes
        if (
            offsets
            and self._group_offsets is not None
            and self._mode is not OffsetCommitMode.DISABLED
            and not subscribes
        ):
            self._group_offsets.commit(offsets, self._mark(self._document.checkpoint_id))

    def _note_moved(self, partitions: Iterable[TopicPartition]) -> None:
        moved = set(partitions)
        self._kept |= moved
        self._moved |= moved

    def commit_ends(self) -> None:
        """Commits to the group where its partitions ended; called by the driver once a bounded job has read everything.

        A transaction that holds what precedes an end carries the offset that its task has read to. It is put right
        after the checkpoint (:func:`offsets_to_commit`), but not by a driver that dies in between.
        """
        if self._group_offsets is not None and self._job.spec.source.stopping.predicate and not self._was_finished:
            self._group_offsets.commit(self._document.offsets, self._mark(self._document.checkpoint_id))

    def drained(self, *, finished: bool = False) -> None:
        """Marks the last checkpoint as an orderly stop: nothing is open, nothing has to be settled.

        :param finished: a bounded job has completed all that it is to read.
        """
        self._write(replace(self._document, drained=True, finished=finished, committables=(), created_at=self._now()))

    def _next_document(self, checkpoint: PreCommitted) -> CheckpointDocument:
        return CheckpointDocument(
            job_uid=self._job.uid,
            attempt=self._job.attempt,
            checkpoint_id=checkpoint.checkpoint_id,
            created_at=self._now(),
            parallelism=self._job.spec.parallelism,
            prefix=self._job.spec.sink.transactional_id_prefix,
            hint=self._hint,
            slots=self._slots,
            splits=checkpoint.splits,
            aligned=checkpoint.aligned,
            committables=tuple(replace(one, attempt=self._job.attempt) for one in checkpoint.committables),
            witness_group=self._job.spec.source.group_id if self._witnessed(checkpoint) else "",
            engine=checkpoint.engine,
            engine_has_state=checkpoint.engine_has_state,
            stops={**self._document.stops, **checkpoint.stops},
            stopping=self._document.stopping,
            cluster_id=self._document.cluster_id,
            topic_ids=checkpoint.topic_ids,
            redeploy_nonce=self._document.redeploy_nonce,
            counters=self._document.counters.plus(
                records_in=sum(split.size for split in checkpoint.splits),
                records_out=checkpoint.records_out,
                skipped=checkpoint.records_skipped,
                dead_lettered=checkpoint.records_dead_lettered,
                committed=len(checkpoint.committables),
            ),
        )

    def _mark(self, checkpoint_id: int) -> str:
        return offset_mark(self._job.uid, self._job.attempt, checkpoint_id)

    def _witnessed(self, checkpoint: PreCommitted) -> bool:
        return self._mode is OffsetCommitMode.IN_TRANSACTION and checkpoint.aligned

    def _write(self, document: CheckpointDocument, deadline: Deadline | None = None) -> int:
        text = encode(document)
        self._version = self._store.write(text, expected=self._version, deadline=deadline)
        self._document = document
        return len(text.encode())

    def _commit(self, checkpoint: PreCommitted) -> None:
        if not checkpoint.committables:
            return
        watched = None if self._hook is no_hook else self._between(checkpoint)
        settled = self._committer.commit(checkpoint.committables, after_each=watched)
        bad = [one for one in settled if one.outcome is not Outcome.COMMITTED]
        if bad:
            shown = ", ".join(f"{one.committable.transactional_id} ({one.answer.name})" for one in bad)
            msg = f"checkpoint {checkpoint.checkpoint_id} is final, but could not be committed: {shown}"
            raise TransactionFenced(msg)

    def _between(self, checkpoint: PreCommitted) -> Callable[[KafkaCommittable], None]:
        left = len(checkpoint.committables)

        def after_each(_: KafkaCommittable) -> None:
            nonlocal left
            left -= 1
            if left:
                self._hook(ProtocolStep.BETWEEN_COMMITS, checkpoint.checkpoint_id)

        return after_each


def offsets_to_commit(checkpoint: PreCommitted, mode: OffsetCommitMode) -> dict[TopicPartition, int]:
    """The offsets that a completed checkpoint commits to the group outside its transactions. Pure.

    Under IN_TRANSACTION these are the ranges of subtasks that produced nothing (a filter kept no record): they have no
    transaction, and the group's lag should not stand still because of that. And those that end before the offset in
    their transaction: the writer did not know of the record that ends the partition.
    """
    read = {split.partition: split.stop for split in checkpoint.splits if split.size}
    if mode is OffsetCommitMode.ON_CHECKPOINTS or (mode is OffsetCommitMode.IN_TRANSACTION and not checkpoint.aligned):
        return read
    if mode is OffsetCommitMode.IN_TRANSACTION:
        inside = {split.partition: split.stop for one in checkpoint.committables for split in one.ranges}
        return {partition: offset for partition, offset in read.items() if inside.get(partition) != offset}
    return {}
