"""A checkpoint that the subtasks write: their work, their answers, and another try of a subtask that failed."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import PreCommitted
from sparkapp.model.checkpoint.split import Assignment, KafkaPartitionSplit
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.partition import TopicPartition
from sparkapp.source.watermarks.subtask_watermark import GivenWatermarks, ReachedWatermarks
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.failures import MAX_FAILURES, original_error, while_reading
from sparkapp.spark.tasks.control_frames import Answer, Work
from sparkapp.spark.tasks.flush import require_delivered
from sparkapp.spark.tasks.write_task import WriteOrder, WriteResult, decode_result

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlan:
    """What the subtasks of a checkpoint read.

    :param splits: every known partition with the range of this checkpoint. An open checkpoint has at least that.
    :param limits: of an open checkpoint: how far each partition may be read until the barrier. Else empty.
    :param assigned: the splits of each subtask.
    :param watermarks: at the begin, by subtask; empty for a job without them.
    :param stops: stopping offsets of a bounded job. :param topic_ids: ids of the splits' topics.
    """

    checkpoint_id: int
    splits: tuple[KafkaPartitionSplit, ...]
    limits: Mapping[TopicPartition, int]
    assigned: Assignment
    watermarks: Mapping[int, GivenWatermarks]
    stops: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]

    def work(self, coordinator: CheckpointCoordinator) -> dict[int, Work]:
        """The work of each subtask.

        :param coordinator: has prepared the checkpoint.
        """
        is_cut, limits = self.assigned.is_cut, self.limits
        return {
            subtask: Work(
                order=WriteOrder(
                    checkpoint_id=self.checkpoint_id,
                    subtask=subtask,
                    next_free=coordinator.next_free,
                    settled=coordinator.settled_id,
                    reusable=coordinator.reusable.of_subtask(subtask),
                    writes_what_it_reads=True,
                    ranges=() if is_cut else ranges,
                    group_id=None if is_cut else coordinator.group_id,
                ),
                splits=ranges,
                limits=tuple(limits[split.partition] for split in ranges) if limits else (),
                watermarks=self.watermarks.get(subtask),
            )
            for subtask, ranges in self.assigned.by_subtask.items()
        }


class RunningCheckpoint:
    """Made and asked by the pipeline, in the engine's thread.

    :param failed_before: the previous checkpoint's ``failed_open``.
    :ivar splits: every known partition; those of an open checkpoint as they were read, once it is pre-committed.
    :ivar began: the moment of the barrier, once it has come.
    :ivar is_open: whether it waits for its barrier.
    :ivar watermarks: that the subtasks have reached.
    :ivar writing: subtasks that have work and have not answered.
    :ivar failed_open: subtasks whose open try ended by an error that no retry resolves.
    """

    def __init__(
        self,
        plan: CheckpointPlan,
        *,
        server: ControlServer,
        coordinator: CheckpointCoordinator,
        failed_before: Collection[int] = (),
    ) -> None:
        self.checkpoint_id = plan.checkpoint_id
        self.splits = plan.splits
        self.began = time.monotonic()
        self._plan = plan
        self._server = server
        self._work = plan.work(coordinator)
        self.is_open = bool(plan.limits)
        self._results: dict[int, WriteResult] = {}
        self.watermarks: dict[int, ReachedWatermarks] = {}
        self.writing: set[int] = set()
        self._failures: Counter[int] = Counter()
        self._open_tries = set(self._work) if self.is_open else set()
        """Subtasks whose try under way began while the checkpoint was open."""
        self._failed_before = failed_before
        self.failed_open: set[int] = set()

    def give(self) -> None:
        """Gives the subtasks their work; called once."""
        self._give(self._work)

    def barrier(self) -> None:
        """Ends an open checkpoint: its subtasks pre-commit what they have read. Nothing changes for another."""
        if self.is_open:
            self.is_open = False
            self.began = time.monotonic()
            self._work = {subtask: work.closed() for subtask, work in self._work.items()}
            self._server.barrier(self.checkpoint_id, self._work)

    def take(self, answer: Answer) -> Mapping[str, Mapping[str, int]]:
        """Takes a subtask's answer; a subtask that failed tries again.

        :returns: totals of the subtask's Kafka clients, by worker.
        :raises KafkaSparkJobError: of a subtask that failed for good.
        """
        if not self.answered(answer):
            return {}
        if answer.failure:
            self._try_again(answer)
            return {}
        result = decode_result(answer.result, lambda subtask: self._work[subtask].order)
        require_delivered([result.failure])
        self._results[answer.subtask] = self._with_ranges(result, self._plan.assigned.by_subtask[answer.subtask])
        if answer.watermarks is not None:
            self.watermarks[answer.subtask] = answer.watermarks
        return result.clients

    def answered(self, answer: Answer) -> bool:
        """Notes that a subtask does not write any more; returns whether the answer is for this checkpoint."""
        if answer.checkpoint_id != self.checkpoint_id:
            return False
        self.writing.discard(answer.subtask)
        return True

    @property
    def has_pre_committed(self) -> bool:
        """Whether a subtask has pre-committed a transaction, which is open until the checkpoint is final."""
        return any(result.committable is not None for result in self._results.values())

    @property
    def is_pre_committed(self) -> bool:
        """Whether every subtask with records has pre-committed."""
        return len(self._results) == len(self._work)

    def pre_committed(self) -> PreCommitted:
        """The checkpoint, once every subtask has pre-committed."""
        results = [self._results[subtask] for subtask in sorted(self._results)]
        return PreCommitted(
            checkpoint_id=self.checkpoint_id,
            splits=self.splits,
            stops=self._plan.stops,
            topic_ids=self._plan.topic_ids,
            aligned=not self._plan.assigned.is_cut,
            committables=tuple(result.committable for result in results if result.committable is not None),
            records_out=sum(result.records for result in results),
            records_skipped=sum(result.skipped for result in results),
            records_dead_lettered=sum(result.dead_letters for result in results),
        )

    def _with_ranges(self, result: WriteResult, splits: tuple[KafkaPartitionSplit, ...]) -> WriteResult:
        """The result of an open checkpoint with the ranges that were read. Other results have those of their order.

        :raises InvalidArgument: the subtask has read too much or too little.
        """
        if not result.stops:
            return result
        read = [
            KafkaPartitionSplit(split.partition, split.start, stop)
            for split, stop in zip(splits, result.stops, strict=True)
        ]
        for split, given in zip(read, splits, strict=True):
            if not given.stop <= split.stop <= self._plan.limits.get(split.partition, given.stop):
                msg = f"subtask {result.index} has read {split}, in place of {given} or a little more"
                raise InvalidArgument(msg)
        stops = {split.partition: split.stop for split in read}
        self.splits = tuple(replace(split, stop=stops.get(split.partition, split.stop)) for split in self.splits)
        if result.committable is None:
            return result
        ranges = tuple(split for split in read if split.size)
        return replace(result, committable=replace(result.committable, ranges=ranges))

    def _try_again(self, answer: Answer) -> None:
        self._failures[answer.subtask] += 1
        failures, work = self._failures[answer.subtask], self._work[answer.subtask]
        error, was_open = original_error(answer.failure), answer.subtask in self._open_tries
        may_retry = not error.fatal or (was_open and answer.subtask not in self._failed_before)
        self._open_tries.discard(answer.subtask)
        if error.fatal and was_open:
            self.failed_open.add(answer.subtask)
        if failures >= MAX_FAILURES or not may_retry:
            raise while_reading(error, work.splits)
        LOG.warning("subtask %d failed for the %d. time and tries again: %s", answer.subtask, failures, error.message)
        # A partition without planned records may be the cause, where its topic is gone or was recreated. The next plan
        # finds that out, and explains it. Where it does not, the next open try fails for good.
        self._work[answer.subtask] = work.closed()
        self._give({answer.subtask: self._work[answer.subtask]})

    def _give(self, work: Mapping[int, Work]) -> None:
        self.writing |= work.keys()
        self._server.give(work)
