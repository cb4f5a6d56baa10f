"""The coordinators of both paces, without a document that anybody writes; for units of the engines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from sparkapp.checkpoint.attempt_ids import AttemptIds
from sparkapp.checkpoint.pre_committed import Completed, PreCommitted
from sparkapp.checkpoint.recovery.local_coordinator import LocalTotals
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import NO_SLOTS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import CheckpointStoreUnavailable
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.transactional_id import FIRST_HINT
from sparkapp.sink.producers.reusable_producers import ReusableProducers
from tests.support.patience import PATIENCE


class FakeCoordinator:
    """In place of :class:`sparkapp.checkpoint.coordinator.CheckpointCoordinator`.

    :ivar may_complete: until it is set, no checkpoint becomes final. :ivar error: why none does.
    :ivar inside: whether all offsets are in transactions, so that the next checkpoint may begin.
    :ivar failure: why nothing is forgotten. :ivar log: what was asked, and each checkpoint that is final.
    :ivar forgotten: number of calls that forget what is settled. :ivar renewed: of those that renew the document.
    """

    mode, ids = OffsetCommitMode.IN_TRANSACTION, AttemptIds(4, FIRST_HINT, NO_SLOTS)
    next_free = ids.next_free

    def __init__(self, document: CheckpointDocument, job: Job) -> None:
        self.document = document
        self.job = job
        self.log: list[Any] = []
        self.writers: list[set[int]] = []
        self.prepared = self.committed_id = self.settled_id = document.checkpoint_id
        self.reusable = ReusableProducers()
        self.may_complete = threading.Event()
        self.may_complete.set()
        self.inside = True
        self.error: Exception | None = None
        self.failure: Exception | None = None
        self.forgotten = self.renewed = 0

    def prepare(self, splits: tuple[KafkaPartitionSplit, ...], *, writers: Collection[int]) -> int:
        self.writers.append(set(writers))
        self.prepared += 1
        self.log.append(("prepare", splits))
        return self.prepared

    def before_flush(self, checkpoint_id: int) -> None:
        self.log.append(("give", checkpoint_id))

    def allows_next(self, _: PreCommitted) -> bool:
        return self.inside

    def complete(self, checkpoint: PreCommitted, *, next_runs: bool) -> Completed:
        assert self.may_complete.wait(PATIENCE)
        assert next_runs is self.inside
        if self.error is not None:
            raise self.error
        self.log.append(checkpoint)
        self.committed_id = self.settled_id = checkpoint.checkpoint_id
        self.document = replace(self.document, checkpoint_id=checkpoint.checkpoint_id, splits=checkpoint.splits)
        return Completed(document=self.document, bytes=1, write_millis=1, commit_millis=1)

    def forget_settled(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.forgotten += 1

    def renew(self) -> None:
        self.renewed += 1

    @property
    def group_id(self) -> str:
        return self.job.spec.source.group_id

    @property
    def pre_committed(self) -> list[PreCommitted]:
        """The checkpoints that are final."""
        return [entry for entry in self.log if isinstance(entry, PreCommitted)]


class FakeLocalCoordinator:
    """In place of :class:`sparkapp.checkpoint.recovery.local_coordinator.LocalCoordinator`.

    :param document: what recovery has claimed. :param job: of the attempt. :param group: where the group is.
    :ivar calls: name and arguments of each call that came through. :ivar unavailable: number of calls that do not.
    """

    mark = "uid/1/0"

    def __init__(self, document: CheckpointDocument, job: Job, *, group: int) -> None:
        self.document = document
        self.job = job
        self.calls: list[tuple[Any, ...]] = []
        self.unavailable = 0
        self._group = group

    def id_of(self, subtask: int) -> str:
        return f"{self.document.prefix}-{subtask}.0"

    def grant(
        self,
        splits: tuple[KafkaPartitionSplit, ...],
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> None:
        self._note("grant", len(splits))

    def grant_again(
        self, partitions: Collection[TopicPartition], existing: Callable[..., object]
    ) -> dict[TopicPartition, int]:
        self._note("grant_again", sorted(partitions))
        return dict.fromkeys(partitions, self._group)

    def placed(self, starts: Mapping[TopicPartition, int], topic_ids: Mapping[str, str] | None = None) -> None:
        self._note("placed", dict(starts))

    def record(
        self,
        offsets: Mapping[TopicPartition, int],
        totals: LocalTotals,
        stops: Mapping[TopicPartition, int] | None = None,
        topic_ids: Mapping[str, str] | None = None,
    ) -> Completed:
        self._note("record", dict(offsets), totals)
        before = self.document.offsets
        splits = tuple(KafkaPartitionSplit(each, before.get(each, at), at) for each, at in offsets.items())
        return Completed(document=replace(self.document, splits=splits), bytes=1, write_millis=1, commit_millis=1)

    def _note(self, *call: Any) -> None:
        if self.unavailable:
            self.unavailable -= 1
            raise CheckpointStoreUnavailable("no answer")
        self.calls.append(call)
