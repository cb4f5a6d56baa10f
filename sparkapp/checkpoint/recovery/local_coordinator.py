"""The coordinator of the local pace: subtasks commit by themselves, and the document is a record of their commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.pre_committed import Completed, PreCommitted, document_after
from sparkapp.checkpoint.recovery.local_starts import starts_of
from sparkapp.clients.group_offsets import Evidence
from sparkapp.model.checkpoint.commit_outcome import offset_mark
from sparkapp.model.checkpoint.document import CheckpointDocument, LocalPart
from sparkapp.model.checkpoint.naming import local_id
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.log_scope import sink_topics
from sparkapp.sink.producers.reusable_producers import ReusableProducers

Existing = Callable[[Collection[TopicPartition]], Collection[TopicPartition]]
"""Which of these partitions exist under the topic id that they were read with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTotals:
    """What the subtasks have committed since the attempt's grant, all instances together; each value only grows.

    :param records_out: records to the sink topics. :param transactions: that were committed, also with offsets alone.
    """

    records_out: int = 0
    skipped: int = 0
    dead_lettered: int = 0
    transactions: int = 0


class LocalCoordinator:
    """Grants the instances of the subtasks and records what they have committed; made by the driver after recovery.

    An instance is a subtask's producer with its only initialisation. It writes nothing before it is granted by a swap
    of the document that followed its initialisation. A later attempt claims the document, fences every id and then
    reads the group, so it reads every commit of this attempt (ADR 45).

    The engine's order: :meth:`grant` when all subtasks have opened their producers, then place, :meth:`placed`, read,
    and :meth:`record` in each interval. For an instance that is replaced: :meth:`grant_again` when the new instance has
    opened its producer, then place, :meth:`placed` and read.

    Thread-safe: one write at a time. The engine may continue after :class:`CheckpointStoreUnavailable`, and call again
    later.

    :param writer: of the recovered document.
    :param evidence: the stable offsets of the job's group, read behind a write.
    :param now: gives RFC 3339 times.
    :ivar job: its parallelism is that of the attempt: a rescale is another attempt's.
    """

    def __init__(self, job: Job, *, writer: DocumentWriter, evidence: Evidence, now: Callable[[], str]) -> None:
        self.job = job
        self._writer = writer
        self._evidence = evidence
        self._now = now
        self._recorded = LocalTotals()
        self.reusable = ReusableProducers()  # the sweep asks for them; a local producer is never an orphan's
        self._lock = threading.Lock()

    @property
    def document(self) -> CheckpointDocument:
        """The last document written."""
        return self._writer.document

    @property
    def committed_id(self) -> int:
        """The newest recorded checkpoint."""
        return self.document.checkpoint_id

    @property
    def mark(self) -> str:
        """The text that an instance commits with each offset. It may keep the first text that it was given.

        The text names a checkpoint that is written. So recovery never takes the document for an older document.
        """
        return offset_mark(self.job.uid, self.job.attempt, self.document.checkpoint_id)

    def id_of(self, subtask: int) -> str:
        """The transactional id of a subtask's instances, one after the other."""
        return local_id(self.job.spec.sink.transactional_id_prefix, subtask)

    def ids_in_use(self) -> list[str]:
        """All ids of the attempt's subtasks; called by the orphan sweep, from its thread."""
        return [self.id_of(subtask) for subtask in range(self.job.spec.parallelism)]

    def grant(
        self,
        splits: tuple[KafkaPartitionSplit, ...],
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Grants the first instance of every subtask, which may write from then on.

        Called once, after all instances have answered that their producers are open. One swap writes where each
        partition starts, the era, and the bound of the ids. No partition is placed then. It has a checkpoint number of
        its own, so that every mark of the attempt proves that an earlier document is older.

        :param splits: empty splits, at the offsets where the partitions start (``enumerator.unplanned()``).
        :param stops: stopping offset of each partition of a bounded job. :param topic_ids: of the splits' topics.
        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        spec = self.job.spec
        with self._lock:
            self._writer.write(
                replace(
                    self.document, local=LocalPart(era=self.job.attempt), splits=splits, aligned=True,
                    checkpoint_id=self.document.checkpoint_id + 1, committables=(),
                    parallelism=spec.parallelism, created_at=self._now(), evidence_group=spec.source.group_id,
                    slots=self.document.slots.with_attempt(parallelism=spec.parallelism, pool_size=1),
                    transactional=False, engine="", engine_has_state=False, drained=False, finished=False,
                    stops=dict(stops or {}), stopping=spec.source.stopping.fingerprint,
                    topic_ids=dict(topic_ids or {}), sink_topics=sink_topics(spec),
                )
            )  # fmt: skip

    def grant_again(self, partitions: Collection[TopicPartition], existing: Existing) -> dict[TopicPartition, int]:
        """Grants a new instance of a subtask; returns where its partitions start.

        Called after the new instance has answered that its producer is open, which has fenced the previous instance. So
        the group's offsets are final. The swap that follows is the grant. A partition that was not placed starts at the
        document's offset.

        :param partitions: of the subtask. Partitions that are in no document yet are absent from the result.
        :param existing: asked when the offsets are read, because brokers remove those of a deleted topic. Partitions
            that it leaves out are absent from the result.
        :raises StateUncertain: the group was moved, deleted or set back by others.
        :raises KafkaAccessError: the group cannot be read. :raises CheckpointError: as :meth:`grant`.
        """
        with self._lock:
            document, local = self.document, self._granted()
            known = sorted(document.offsets.keys() & set(partitions))
            committed = self._evidence.committed(known)
            # Before the offsets are judged: they may be those of a successor.
            self._writer.write(replace(document, created_at=self._now()))
            there = existing(known)
            starts = starts_of(document, local, {each: committed.get(each) for each in there}, self.job)
            return {partition: starts[partition] for partition in known if partition in there}

    def placed(self, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str] | None = None) -> None:
        """Records that the group has an offset of these partitions from this era; nothing of them is read before.

        Writes nothing where all of them are recorded. A partition that the document does not know yet is added.

        :param starts: where they were placed. :param topic_ids: of new partitions' topics.
        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        with self._lock:
            document, local = self.document, self._granted()
            if starts.keys() <= local.placed:
                return
            new = (
                KafkaPartitionSplit(partition, offset, offset)
                for partition, offset in starts.items()
                if partition not in document.offsets
            )
            topics = {partition.topic for partition in starts}
            ids = {topic: topic_id for topic, topic_id in (topic_ids or {}).items() if topic in topics}
            self._writer.write(
                replace(
                    document, local=replace(local, placed=local.placed | starts.keys()), created_at=self._now(),
                    splits=tuple(sorted((*document.splits, *new))), topic_ids={**document.topic_ids, **ids},
                )
            )  # fmt: skip

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Leaves out partitions that do not exist any more: what comes back under their names is new.

        Called when every instance that has read them is fenced, or the group could get another offset of them. It takes
        a checkpoint number, as :meth:`grant` does: brokers may keep an offset of them, and its mark is older.

        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        with self._lock:
            document, local = self.document, self._granted()
            splits = tuple(split for split in document.splits if split.partition not in partitions)
            topics = {split.partition.topic for split in splits}
            number = document.checkpoint_id + 1
            self._writer.write(
                replace(
                    document, checkpoint_id=number, splits=splits,
                    local=replace(local, placed=local.placed.difference(partitions), forgot_at=number),
                    topic_ids={topic: known for topic, known in document.topic_ids.items() if topic in topics},
                    created_at=self._now(),
                )
            )  # fmt: skip

    def record(
        self,
        offsets: Mapping[TopicPartition, int],
        totals: LocalTotals,
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> Completed | None:
        """Records what the subtasks have committed as the next checkpoint; None where nothing is new.

        Offsets behind the document's are ignored, because reports may overtake each other. So are offsets of partitions
        that are not recorded as placed.

        :param offsets: next offset of partitions, by commits that succeeded. :param totals: since the grant.
        :param stops: as in :meth:`grant`.
        :param topic_ids: that are known now. An id was not known where a broker that lagged was asked for it.
        :raises CheckpointConflict: superseded; the attempt must stop.
        :raises CheckpointStoreUnavailable: no answer. Subtasks may continue; the next record includes these offsets.
        """
        with self._lock:
            document, local, before, stops = self.document, self._granted(), self._recorded, dict(stops or {})
            splits = tuple(
                KafkaPartitionSplit(split.partition, split.stop, max(split.stop, offsets.get(split.partition, 0)))
                if split.partition in local.placed
                else KafkaPartitionSplit(split.partition, split.stop, split.stop)
                for split in document.splits
            )
            topics = {split.partition.topic for split in document.splits}
            new = {topic: topic_id for topic, topic_id in (topic_ids or {}).items() if topic in topics}
            ids = {**new, **document.topic_ids}
            known = (document.stops, document.topic_ids)
            if totals == before and (stops, ids) == known and not any(split.size for split in splits):
                return None
            checkpoint = PreCommitted(
                checkpoint_id=document.checkpoint_id + 1, splits=splits, aligned=True, committables=(),
                records_out=totals.records_out - before.records_out, stops=stops, topic_ids=ids,
                records_skipped=totals.skipped - before.skipped,
                records_dead_lettered=totals.dead_lettered - before.dead_lettered,
            )  # fmt: skip
            following = document_after(
                document, checkpoint, self.job, hint=document.hint, slots=document.slots,
                mode=OffsetCommitMode.IN_TRANSACTION, now=self._now(),
            )  # fmt: skip
            counters = following.counters.plus(committed=totals.transactions - before.transactions)
            started = time.monotonic()
            size = self._writer.write(replace(following, local=local, counters=counters))
            self._recorded = totals
            millis = round((time.monotonic() - started) * 1000)
            return Completed(document=self.document, bytes=size, write_millis=millis, commit_millis=0)

    def drained(self, *, finished: bool = False) -> None:
        """Marks the last record as an orderly stop; called when all that was committed is recorded, and all have ended.

        :param finished: a bounded job has committed all its records.
        :raises CheckpointError: as :meth:`grant`.
        """
        with self._lock:
            local = self.document.local
            if local is not None and local.era == self.job.attempt:
                local = replace(local, ended=True)
            ended = replace(self.document, local=local, drained=True, finished=finished)
            self._writer.write(replace(ended, sink_topics=frozenset()))

    def _granted(self) -> LocalPart:
        local = self.document.local
        if local is None or local.era != self.job.attempt:
            msg = "no instance has been granted"
            raise InvalidArgument(msg)
        return local
