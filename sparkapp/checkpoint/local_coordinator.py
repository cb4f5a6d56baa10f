"""The coordinator of the local pace: subtasks commit by themselves, and the document is a record of their commits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.clients.group_offsets import Evidence
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.protocol import StepHook, no_hook


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

    Thread-safe: each method that writes waits for the one before it. A write that is not answered is resolved by the
    next. So the engine may go on after :class:`CheckpointStoreUnavailable`, and call again later.

    The engine's order: :meth:`grant` when all subtasks have opened their producers, then place, :meth:`placed`, read,
    and :meth:`record` in each interval. For an instance that is replaced: :meth:`grant_again` when the new instance has
    opened its producer, then place and read.

    :param document: the recovered document. :param version: the store's version of it.
    :param evidence: the group's stable offsets, read behind a write.
    :param now: gives RFC 3339 times.
    :param hook: called at each step of the protocol.
    """

    def __init__(
        self,
        job: Job,
        *,
        store: CheckpointStore,
        document: CheckpointDocument,
        version: str,
        evidence: Evidence,
        now: Callable[[], str],
        hook: StepHook = no_hook,
    ) -> None:
        self._job = job
        self._store = store
        self._document = document
        self._version = version
        self._evidence = evidence
        self._now = now
        self._hook = hook
        self._lock = threading.Lock()

    @property
    def document(self) -> CheckpointDocument:
        """The last document written."""
        return self._document

    @property
    def committed_id(self) -> int:
        """The newest recorded checkpoint."""
        return self._document.checkpoint_id

    @property
    def mark(self) -> str:
        """The text beside each offset that an instance commits; it may stay the same for the instance's life.

        Sent with the frame that places an instance. Its checkpoint is one that is written already, so recovery never
        takes the document for one that was put back.
        """
        raise NotImplementedError

    def id_of(self, subtask: int) -> str:
        """The transactional id of a subtask's instances, one after the other."""
        raise NotImplementedError

    def ids_in_use(self) -> list[str]:
        """All ids of the attempt's subtasks; called by the orphan sweep, from its thread."""
        raise NotImplementedError

    def grant(
        self,
        splits: tuple[KafkaPartitionSplit, ...],
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        """Grants the first instance of every subtask; nothing may be written before it has returned.

        Called once, after all instances have answered that their producers are open. One swap writes where each
        partition starts, the era, and the bound of the ids. No partition is placed then.

        :param splits: empty ones at the offsets where the partitions start (``enumerator.unplanned()``).
        :param stops: stopping offset of each partition of a bounded job. :param topic_ids: of the splits' topics.
        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        raise NotImplementedError

    def grant_again(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Grants a new instance of a subtask; returns where its partitions start, every one of ``partitions``.

        Called after the new instance has answered that its producer is open, which has fenced the one before it. So the
        group's offsets are final. They are recorded by a swap, the grant. Partitions that were not placed start at the
        document's offset. The instance is to place all of them again, and the engine calls :meth:`placed`.

        :param partitions: known by :meth:`grant` or :meth:`placed`; others are absent from the result.
        :raises StateUncertain: the group was moved, deleted or rolled back by others.
        :raises KafkaAccessError: the group cannot be read. :raises CheckpointError: as :meth:`grant`.
        """
        raise NotImplementedError

    def placed(self, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str] | None = None) -> None:
        """Records that the group has an offset of these partitions from this era; nothing of them is read before.

        Writes nothing where all of them are recorded. A partition that the document does not know yet is added.

        :param starts: where they were placed. :param topic_ids: of new partitions' topics.
        :raises CheckpointConflict: superseded. :raises CheckpointError: see :meth:`CheckpointStore.write`.
        """
        raise NotImplementedError

    def record(
        self, offsets: Mapping[TopicPartition, int], totals: LocalTotals, stops: Mapping[TopicPartition, int] | None = None
    ) -> Completed | None:
        """Records what the subtasks have committed as the next checkpoint; None where nothing was committed since.

        Offsets that are behind the document's are ignored: reports may arrive late.

        :param offsets: next offset of placed partitions, of commits that succeeded.
        :raises CheckpointConflict: superseded; the attempt must stop.
        :raises CheckpointStoreUnavailable: no answer. Data may flow on; call again later.
        """
        raise NotImplementedError

    def drained(self, *, finished: bool = False) -> None:
        """Marks the last record as an orderly stop; called when every subtask has ended after its last commit.

        :param finished: a bounded job has committed all its records.
        :raises CheckpointError: as :meth:`grant`.
        """
        raise NotImplementedError
