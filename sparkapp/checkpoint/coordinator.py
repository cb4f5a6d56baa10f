"""The coordinator of the two-phase commit: one process, one document, one order of steps."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from sparkapp.checkpoint.attempt_ids import AttemptIds
from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.group_progress import GroupOffsets, GroupProgress
from sparkapp.checkpoint.pre_committed import Completed, PreCommitted, document_after
from sparkapp.clients.deadline import Clock
from sparkapp.clients.transactions.partition_logs import GROUP_TOPIC
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import TransactionFenced
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.protocol import ProtocolStep, StepHook, no_hook
from sparkapp.sink.checkpoint_commits import CheckpointCommits
from sparkapp.sink.pre_commit_check import CommitTimes
from sparkapp.sink.producers.reusable_producers import ReusableProducers

LOG = logging.getLogger(__name__)

_IDLE_PROOF_SECONDS = 0.5
"""For the proof of the last commits where a job is idle; it is asked for again."""


class CheckpointCoordinator:
    """Completes checkpoints in their order.

    While a thread completes a checkpoint, another thread may prepare the next, whose tasks then write (ADR 50).

    Transactional ids follow from the recovered document alone, so repeated checkpoints write the same hint (H10).

    :param writer: of the recovered document, with starting offsets.
    :param commits: checks, ends and proves the transactions of a checkpoint.
    :param group_offsets: None for a job that commits no offsets outside transactions.
    :param now: gives RFC 3339 times.
    :param hook: called at each step of the protocol.
    :param clock: that of ``commits``.
    :ivar job: with the parallelism of the next checkpoint. A rescale in place changes it, here and nowhere else.
    :ivar ids: under which the attempt writes; a rescale in place changes them.
    :ivar committed_id: the newest checkpoint whose transactions are all committed.
    :ivar reusable: producers that a later checkpoint may use again (ADR 62).
    :ivar observe: called at each step, too, and leaves the commits parallel.
    """

    def __init__(
        self,
        job: Job,
        *,
        writer: DocumentWriter,
        commits: CheckpointCommits,
        group_offsets: GroupOffsets | None,
        now: Callable[[], str],
        hook: StepHook = no_hook,
        clock: Clock = time.monotonic,
    ) -> None:
        self.job = job
        self._writer = writer
        self._claim = Claim(writer.store, job_uid=job.uid, attempt=job.attempt)
        document = writer.document
        self._commits = commits
        self._group = GroupProgress(job, group_offsets, document=document, clock=clock)
        self._now = now
        self._hook = hook
        self.observe: StepHook = no_hook
        self.ids = AttemptIds.of(job.spec, hint=document.hint, bounds=document.slots)
        self._prepared_id = self.committed_id = document.checkpoint_id
        self._clock, self._made_at = clock, clock()
        self.reusable = ReusableProducers()
        self._running: dict[int, tuple[float, Collection[str]]] = {}
        """Running checkpoints: their begin, and the ids of their transactions. Two threads change it, atomically."""

    @property
    def document(self) -> CheckpointDocument:
        """The last document written."""
        return self._writer.document

    @property
    def next_free(self) -> int:
        """Base of the transactional ids by hint."""
        return self.ids.next_free

    @property
    def settled_id(self) -> int:
        """The newest checkpoint before which the ids may be used again: the leaders have the markers of all before."""
        return self._commits.settled(self.committed_id)

    def before_flush(self, checkpoint_id: int) -> None:
        """The write tasks of the checkpoint start next. Called by the write stage."""
        self._at(ProtocolStep.BEFORE_FLUSH, checkpoint_id)

    def ids_in_use(self) -> list[str]:
        """Ids that the running checkpoints' tasks may write under, until their commits are proven.

        Producers that are ready ahead (ADR 52) begin nothing once retired. Called by the orphan sweep, in its thread.
        """
        return [*self._commits.unproven_ids, *(each for _, ids in tuple(self._running.values()) for each in ids)]

    @property
    def mode(self) -> OffsetCommitMode:
        return self._group.mode

    @property
    def group_id(self) -> str | None:
        """Group whose offsets the transactions commit; None where they commit none."""
        return self.job.spec.source.group_id if self.mode is OffsetCommitMode.IN_TRANSACTION else None

    def begin(
        self,
        splits: tuple[KafkaPartitionSplit, ...],
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Writes the offsets that this attempt starts from, and its transactional ids, before anything is read.

        So a Latest or group start that dies before its first checkpoint starts again at the same offsets. A restored
        partition that no longer matches is forgotten once, here.

        :param stops: stopping offset of each partition of a bounded job; fixed from now on.
        :param topic_ids: ids of the splits' topics.
        """
        spec = self.job.spec
        begun = replace(
            self.document, splits=splits, parallelism=spec.parallelism, created_at=self._now(),
            stops=dict(stops or {}), stopping=spec.source.stopping.fingerprint,
            finished=False, local=None, topic_ids=dict(topic_ids or {}),
        )  # fmt: skip
        self._writer.write(self.ids.begun(begun, spec))

    def prepare(self, splits: Sequence[KafkaPartitionSplit], writers: Collection[int] | None = None) -> int:
        """Begins a checkpoint, before anything of it is written; called by the engine. Returns its number.

        Reads the claim first. Tasks initialise producers, which ends transactions of a later attempt under the same ids
        and erases the description that proves its commits. The risk lasts until the last task has its producer.

        :param writers: subtasks that may write; None for all. A pipeline of Spark's may write without reading.
        :raises CheckpointConflict: superseded. :raises CheckpointError: the document cannot be read.
        :raises KafkaAccessError: and KafkaUnreachable: see :meth:`GroupProgress.place`. Also where the last commits
            under the checkpoint's ids are not proven in time.
        """
        self._claim.require()
        self._prepared_id = max(self._prepared_id, self.document.checkpoint_id) + 1
        spec = self.job.spec
        writers = range(spec.parallelism) if writers is None else writers
        ids = self.ids.of_checkpoint(spec, self._prepared_id, writers)
        self._commits.require_proven(ids)
        self._running[self._prepared_id] = self._clock(), ids
        self._group.place(splits, self.document.checkpoint_id)
        return self._prepared_id

    def allows_next(self, checkpoint: PreCommitted) -> bool:
        """Whether the next checkpoint may be prepared before this checkpoint is complete.

        Of two offsets of a partition a group keeps the offset that reached it last. Offsets that this checkpoint
        commits outside its transactions would replace offsets in the next checkpoint's transactions.
        """
        return self._group.moves_inside(checkpoint)

    def complete(self, checkpoint: PreCommitted, *, next_runs: bool = False) -> Completed | None:
        """Makes a pre-committed checkpoint final: document first, then the commits, then the group's offsets.

        Returns None for a checkpoint that was completed before: an engine repeats its last batch after a crash.

        Right before the document, the transactions' coordinators confirm that every transaction is still open, for
        longer than write and commit may take. Its remaining time bounds the write. Where the driver was paused after
        the write, nothing is committed: a part of the transactions could have ended. The next attempt settles them.

        :param next_runs: whether the next checkpoint may run meanwhile, by :meth:`allows_next`.
        :raises CheckpointConflict: superseded; this attempt commits nothing of the checkpoint.
        :raises TransactionFenced: a transaction was lost, before the document (then nothing is final) or after it; the
            next attempt replays it.
        :raises KafkaUnreachable: the coordinators could not be asked; nothing is final.
        :raises CommitOutcomeUnknown: no answer in time; the next attempt settles it.
        """
        if checkpoint.checkpoint_id <= self.document.checkpoint_id:
            LOG.info("checkpoint %d was completed before, nothing to do", checkpoint.checkpoint_id)
            return None
        self._at(ProtocolStep.AFTER_FLUSH, checkpoint.checkpoint_id)
        began, _ = self._running.get(checkpoint.checkpoint_id, (self._made_at, ()))
        writes = bool(checkpoint.committables)
        times = self._commits.require_open(checkpoint.committables, began=began) if writes else None
        started = time.monotonic()
        size = self._writer.write(
            self._document_after(checkpoint, times), deadline=times.write_by if times is not None else None
        )
        written = time.monotonic()
        self._at(ProtocolStep.AFTER_WRITE, checkpoint.checkpoint_id)
        if times is not None and times.commit_by.expired:
            msg = f"checkpoint {checkpoint.checkpoint_id} is final, but its transactions may have timed out"
            raise TransactionFenced(msg)
        partitions = times.partitions if times is not None else {}
        self._commits.commit(
            checkpoint.checkpoint_id, checkpoint.committables, partitions, proven=self.reusable.add, hook=self._hook
        )
        self.committed_id = checkpoint.checkpoint_id
        self._running.pop(checkpoint.checkpoint_id, None)
        committed = time.monotonic()
        self._at(ProtocolStep.AFTER_COMMITS, checkpoint.checkpoint_id)
        self._group.commit(checkpoint)
        if not next_runs:
            self.renew()
        return Completed(
            document=self.document,
            bytes=size,
            write_millis=round((written - started) * 1000),
            commit_millis=round((committed - written) * 1000),
        )

    def forget_settled(self) -> None:
        """Writes the last document without its committed transactions; called by the engine of an idle job.

        Brokers forget a transactional id and a group's offsets after a week. Recovery could then not settle a document
        that still names its transactions. Everything else stays as it is, also the time of the checkpoint: it is the
        same checkpoint. A crash before the write leaves committed transactions to settle, as any crash after the
        commits does. At most one write a checkpoint, and none before its commits are proven.

        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        is_committed = self.committed_id == self.document.checkpoint_id
        if self.document.committables and is_committed and self._commits.is_proven(within=_IDLE_PROOF_SECONDS):
            self._writer.write(replace(self.document, committables=()))

    def rescale(self, parallelism: int) -> None:
        """Continues with another number of subtasks; called by the engine while no checkpoint runs (ADR 57).

        Writes the bounds of the new ids before anything is written under them. The document loses its committed
        transactions, because their ranges follow from its parallelism.

        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        self._commits.require_proven()
        job = replace(self.job, spec=replace(self.job.spec, parallelism=parallelism))
        ids = AttemptIds.of(job.spec, hint=self.ids.hint, bounds=self.ids.bounds)
        last = replace(self.document, committables=(), transactional=False)
        self._writer.write(replace(last, parallelism=parallelism, hint=ids.hint, slots=ids.bounds))
        self.job, self.ids = job, ids
        self.reusable.clear()

    def complete_repartition(self, engine: str) -> Completed:
        """Makes a repartition of query state final: a checkpoint that reads and writes no records.

        Called by the attempt before its engine starts. Only from this write on the document names the new state.

        :param engine: the engine's part of the document.
        :raises CheckpointConflict: superseded; the previous state stays valid.
        :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        number = self.document.checkpoint_id + 1
        self._at(ProtocolStep.AFTER_FLUSH, number)
        started = time.monotonic()
        size = self._writer.write(replace(self.document, checkpoint_id=number, engine=engine, created_at=self._now()))
        self._prepared_id = self.committed_id = number
        self._at(ProtocolStep.AFTER_WRITE, number)
        millis = round((time.monotonic() - started) * 1000)
        return Completed(document=self.document, bytes=size, write_millis=millis, commit_millis=0)

    def renew(self) -> None:
        """See :meth:`GroupProgress.renew`; called after each checkpoint and by the engine of an idle job."""
        if self.committed_id == self.document.checkpoint_id:
            self._group.renew(self.document)

    def commit_ends(self) -> None:
        """See :meth:`GroupProgress.commit_ends`; called by the driver once a bounded job has read everything."""
        self._group.commit_ends(self.document)

    def drained(self, *, finished: bool = False) -> None:
        """Marks the last checkpoint as an orderly stop: no transaction is open, recovery has nothing to settle.

        The checkpoint has been retained, and keeps its time: by number and time it is known again.

        :param finished: a bounded job has completed all its records.
        :raises KafkaUnreachable: the last commits are not proven in time; the next attempt proves them.
        """
        self._commits.require_proven()
        self._writer.write(
            replace(self.document, drained=True, finished=finished, committables=(), sink_topics=frozenset())
        )

    def _at(self, step: ProtocolStep, checkpoint_id: int) -> None:
        self.observe(step, checkpoint_id)
        self._hook(step, checkpoint_id)

    def _document_after(self, checkpoint: PreCommitted, times: CommitTimes | None) -> CheckpointDocument:
        topics = {each.topic for found in times.partitions.values() for each in found} if times is not None else set()
        return document_after(
            self.document, checkpoint, self.job, hint=self.ids.hint, slots=self.ids.bounds, mode=self.mode,
            now=self._now(), written=topics - {GROUP_TOPIC},
        )  # fmt: skip
