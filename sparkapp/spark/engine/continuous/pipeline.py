"""At most two checkpoints at a time: the subtasks write the next while a checkpoint becomes final (ADR 50)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.split import Assignment, KafkaPartitionSplit, assign, splits_by_owner
from sparkapp.model.errors import SubtaskMissing
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.lost_producers import LOST_SECONDS
from sparkapp.source.watermarks.job_watermarks import JobWatermarks
from sparkapp.source.watermarks.subtask_watermark import GivenWatermarks
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.engine.continuous.running_checkpoint import CheckpointPlan, RunningCheckpoint
from sparkapp.spark.tasks.client_totals import merge
from sparkapp.spark.tasks.flush import require_delivered

_PAUSE = 0.1
"""Longest pause in seconds between two looks at the connections of subtasks that write."""

_PRE_COMMITTED_SECONDS = 60.0
"""Longest wait for a place while other subtasks have pre-committed. Readers wait for these transactions, and only
another attempt ends them. Spark replaces a lost executor within some seconds."""

LOG = logging.getLogger(__name__)

_ALONE_SECONDS = 0.02
_ALONE_SHARE = 0.1
"""As a part of the interval, if that is shorter: so much of their time can subtasks with a backlog lose."""

_WRITERS_SECONDS = 5.0
"""For the subtasks to end their writes when the attempt fails. A transaction begins within a second."""


@dataclass(frozen=True, slots=True)
class _Completing:
    """A checkpoint whose document is written and whose transactions are committed, in a thread of their own."""

    checkpoint: RunningCheckpoint
    allows_next: bool
    done: Future[Completed | None]
    since: float


class CheckpointPipeline:
    """Used by the engine, in its thread.

    The order of the protocol stays: a checkpoint is completed only when the previous checkpoint is complete. Only the
    subtasks' work is ahead of it, and nothing of that is visible or in a document.

    :param watermarks: None for a job without them.
    :param may_complete: whether a pre-committed checkpoint may become final; asked often until it may.
    :ivar clients: totals of the workers' Kafka clients, by worker.
    """

    def __init__(
        self,
        parts: PaceParts[CheckpointCoordinator],
        *,
        may_complete: Callable[[], bool] = lambda: True,
        watermarks: JobWatermarks | None = None,
    ) -> None:
        self._server = parts.server
        self._enumerator = parts.enumerator
        self._coordinator = parts.coordinator
        self._completed = parts.completed
        self._await_subtasks = parts.await_subtasks
        self._may_complete = may_complete
        self._watermarks = watermarks
        self._running: RunningCheckpoint | None = None
        self._completing: _Completing | None = None
        self._failed_open: frozenset[int] = frozenset()
        self._awaits_since: float | None = None
        """Since when :attr:`awaits_place` holds."""
        self.clients: dict[str, Mapping[str, int]] = {}

    @property
    def parallelism(self) -> int:
        """Of the next checkpoint."""
        return self._spec.parallelism

    @property
    def _spec(self) -> JobSpec:
        return self._coordinator.job.spec

    @property
    def oldest(self) -> int | None:
        """The oldest checkpoint that has begun and is not complete."""
        if self._completing is not None:
            return self._completing.checkpoint.checkpoint_id
        return None if self._running is None else self._running.checkpoint_id

    @property
    def alone_until(self) -> float:
        """No new plan before this time, so that the commits of a checkpoint get the processors; in the past for none.

        The plan of the next checkpoint and its first records would delay them.
        """
        if self._completing is None or self._completing.done.done():
            return -math.inf
        return self._completing.since + min(_ALONE_SECONDS, self._spec.checkpoint_interval * _ALONE_SHARE)

    @property
    def takes_next(self) -> bool:
        """Whether the next checkpoint may begin."""
        return self._running is None and (self._completing is None or self._completing.allows_next)

    def begin(
        self, splits: tuple[KafkaPartitionSplit, ...], limits: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Gives the subtasks the next checkpoint; called while :attr:`takes_next`.

        :param splits: every known partition with the range of this checkpoint.
        :param limits: how far each partition may be read until :meth:`barrier` (ADR 61). None where the ranges are
            fixed: then no barrier follows.
        :raises KafkaSparkJobError: of the coordinator.
        """
        coordinator = self._coordinator
        spec = self._spec
        if limits:
            assigned = self._open_assignment(splits)
            widest = tuple(replace(split, stop=limits[split.partition]) for split in splits)
        else:
            assigned = assign(splits, spec.parallelism, spec.source.max_records_per_split)
            widest = splits
        self._awaits_since = None
        checkpoint_id = coordinator.prepare(widest, writers=assigned.by_subtask.keys())
        watermarks = self._given_watermarks(splits, assigned)
        plan = CheckpointPlan(
            checkpoint_id=checkpoint_id, splits=splits, limits=limits or {}, assigned=assigned, watermarks=watermarks,
            stops=dict(self._enumerator.stops), topic_ids=dict(self._enumerator.topic_ids),
        )  # fmt: skip
        self._running = RunningCheckpoint(
            plan, server=self._server, coordinator=coordinator, failed_before=self._failed_open
        )
        coordinator.before_flush(checkpoint_id)
        self._running.give()

    @property
    def is_open(self) -> bool:
        """Whether the subtasks write a checkpoint whose barrier has not come."""
        return self._running is not None and self._running.is_open

    def barrier(self) -> None:
        """Ends the checkpoint that the subtasks write, if it is open."""
        if self._running is not None:
            self._running.barrier()

    @property
    def awaits_place(self) -> bool:
        """Whether subtasks have not answered, and all of these are lost without an adopter."""
        return self._running is not None and bool(self._running.writing) and not self._writers

    def ids_of(self, subtask: int) -> Collection[str]:
        """Ids under which a lost subtask writes the running checkpoint; empty where it has answered.

        Empty, too, where another subtask may still adopt its work: the adopter fences it.
        """
        if self._running is None or subtask not in self._running.writing or not self.awaits_place:
            return ()
        return self._coordinator.ids.of_checkpoint(self._spec, self._running.checkpoint_id, [subtask])

    def rescale(self, parallelism: int) -> None:
        """Changes the number of subtasks of the next checkpoint; called while no checkpoint runs.

        :raises CheckpointError: of the document.
        """
        self._coordinator.rescale(parallelism)
        if self._watermarks is not None:
            self._watermarks.rescale(parallelism)

    def look(self) -> None:
        """Finds idle partitions while there is nothing to begin; called often."""
        if self._watermarks is not None and self.oldest is None and self._watermarks.is_look_due:
            self._watermarks.look(self._enumerator.unplanned(), ends=self._ends(), stops=self._enumerator.stops)

    def advance(self, seconds: float, *, draining: bool = False) -> None:
        """Does what can be done, and waits for an answer or the end of a completion, at most so long.

        :param draining: a stop is asked for.
        :raises SubtaskMissing: a checkpoint can wait for a place no longer.
        :raises KafkaSparkJobError: of a subtask that failed for good, or of the coordinator.
        """
        if self._completing is not None and self._completing.done.done():
            self._join()
        running = self._running
        if running is not None and running.is_pre_committed and self._completing is None and self._may_complete():
            self._complete(running)
            return
        answer = self._server.answer(seconds)
        if answer is None:
            self._await_subtasks()
            self._require_place(draining=draining)
        elif answer.checkpoint_id is None:
            require_delivered([answer.failure])  # of a subtask that was ended by a rescale
        elif self._running is not None:
            merge(self.clients, self._running.take(answer))

    def give_up_unseen(self) -> None:
        """Drops a checkpoint that no subtask has seen, because none was ever connected; called at a stop.

        Nothing of it is written, and no place may ever come for it.
        """
        if self._running is not None and self._completing is None and self._server.withdraw():
            LOG.info("checkpoint %d is given up: no executor has come", self._running.checkpoint_id)
            self._running = None

    def end(self) -> None:
        """Waits for the checkpoint that is being completed, and until no subtask writes; called at an end of any kind.

        The error of a checkpoint that was pre-committed is the cause of any other. After a failure the attempt may end
        its open transactions: a subtask would begin another behind that.

        :raises KafkaSparkJobError: the checkpoint failed.
        """
        try:
            self._join()
        finally:
            self.barrier()
            self._await_writers(Deadline.after(_WRITERS_SECONDS))

    def _require_place(self, *, draining: bool) -> None:
        """Another attempt would wait for the same place, so the wait is limited only for the sake of others.

        :raises SubtaskMissing: a stop waits, or readers do.
        """
        running, now = self._running, time.monotonic()
        if running is None or not self.awaits_place:
            self._awaits_since = None
            return
        self._awaits_since = now if self._awaits_since is None else self._awaits_since
        limit = LOST_SECONDS if draining else _PRE_COMMITTED_SECONDS
        if now - self._awaits_since >= limit and (draining or running.has_pre_committed):
            msg = f"subtasks {sorted(running.writing)} have had no place for {limit:g} s, and no other does their work"
            raise SubtaskMissing(msg)

    def _join(self) -> None:
        """:raises KafkaSparkJobError: the checkpoint that is being completed failed."""
        if self._completing is None:
            return
        ended, self._completing = self._completing, None
        completed = ended.done.result()
        self._enumerator.complete(ended.checkpoint.splits)
        if completed is not None:
            self._completed(completed, time.monotonic() - ended.checkpoint.began)

    def _await_writers(self, deadline: Deadline) -> None:
        while self._running is not None and self._writers and not deadline.expired:
            answer = self._server.answer(deadline.bound(_PAUSE))
            if answer is not None:
                self._running.answered(answer)

    @property
    def _writers(self) -> set[int]:
        """The subtasks whose work of the running checkpoint is being done."""
        return set() if self._running is None else self._running.writing & self._server.writers

    def _open_assignment(self, splits: tuple[KafkaPartitionSplit, ...]) -> Assignment:
        """A subtask without planned records takes part if it is connected: no checkpoint waits for its place."""
        ready = self._server.ready
        owners = splits_by_owner(splits, self.parallelism)
        taking_part = {
            subtask: part for subtask, part in owners.items() if subtask in ready or any(split.size for split in part)
        }
        return Assignment(taking_part, is_cut=False)

    def _given_watermarks(
        self, splits: tuple[KafkaPartitionSplit, ...], assigned: Assignment
    ) -> Mapping[int, GivenWatermarks]:
        if self._watermarks is None:
            return {}
        stops = self._enumerator.stops
        return self._watermarks.begin(splits, assigned.by_subtask, ends=self._ends(), stops=stops)

    def _ends(self) -> dict[TopicPartition, int]:
        """The last known end of each partition."""
        pending = self._enumerator.pending or {}
        return {each: offset + pending.get(each, 0) for each, offset in self._enumerator.offsets.items()}

    def _complete(self, checkpoint: RunningCheckpoint) -> None:
        self._running = None
        self._failed_open = frozenset(checkpoint.failed_open)
        self._enumerator.begin(checkpoint.splits)
        if self._watermarks is not None:
            self._watermarks.end(checkpoint.watermarks)
        pre_committed = checkpoint.pre_committed()
        allows_next = self._coordinator.allows_next(pre_committed)
        complete = partial(self._coordinator.complete, pre_committed, next_runs=allows_next)
        done = run_in_background(complete, name=f"checkpoint-{checkpoint.checkpoint_id}")
        self._completing = _Completing(checkpoint, allows_next, done, time.monotonic())
        done.add_done_callback(lambda _: self._server.wake())
