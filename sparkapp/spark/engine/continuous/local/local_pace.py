"""The local pace: subtasks commit their own transactions, and the driver grants, places and records (ADR 56)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.model.checkpoint.split import ENDLESS, KafkaPartitionSplit
from sparkapp.model.errors import SubtaskMissing
from sparkapp.model.partition import TopicPartition, split_owner
from sparkapp.sink.ending.lost_producers import LOST_SECONDS
from sparkapp.spark.engine.continuous.local.coordinator_calls import CoordinatorCalls
from sparkapp.spark.engine.continuous.local.gone_partitions import GonePartitions
from sparkapp.spark.engine.continuous.local.granted_subtask import GrantedSubtask
from sparkapp.spark.engine.continuous.local.lost_subtasks import LostSubtasks
from sparkapp.spark.engine.continuous.local.reported_commits import ReportedCommits
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.reporting.liveness import PLAN_SECONDS, step_seconds
from sparkapp.spark.tasks.client_totals import merge
from sparkapp.spark.tasks.control_frames import Answer, InstanceOrder, SubtaskReport

LOG = logging.getLogger(__name__)

_PAUSE = 0.1
"""Longest pause in seconds between two looks at the subtasks' connections, and at a stop that was asked for."""
_AGAIN_SECONDS = 1.0
"""Pause after brokers that do not know a partition."""


class LocalPace:
    """See :class:`sparkapp.spark.engine.continuous.pace.Pace`.

    A call of the coordinator runs in a thread of its own, and the next call waits for it. So subtasks are served while
    the API server is away. Its result is applied in the engine's thread, to instances that are still the same.

    """

    watermarks = None

    def __init__(self, parts: PaceParts[LocalCoordinator]) -> None:
        self._server = parts.server
        self._enumerator = parts.enumerator
        self._coordinator = parts.coordinator
        self._completed = parts.completed
        self._await_subtasks = parts.await_subtasks
        self._liveness = parts.liveness
        self._subtasks = {number: GrantedSubtask() for number in range(parts.job.spec.parallelism)}
        self.places = parts.places(self.parallelism)
        self._gone = GonePartitions(self._subtasks)
        self._losses = LostSubtasks(self._subtasks, parts.server.losses)
        self._instances = 0
        self._is_granted = False
        self._may_be_gone = False
        """An instance was replaced: the next discovery is due."""
        self._looks = False
        """Something has changed since the last look for partitions without a reader."""
        self._reported = ReportedCommits()
        self._calls = CoordinatorCalls(parts.server.wake)
        self._returning_at = self._record_at = self._look_at = time.monotonic()
        self.clients: dict[str, Mapping[str, int]] = {}

    @property
    def parallelism(self) -> int:
        """That of the attempt: a rescale is another attempt's."""
        return self._coordinator.job.spec.parallelism

    @property
    def lost(self) -> set[int]:
        """The subtasks without a connection."""
        return self._subtasks.keys() - self._server.connected

    @property
    def awaits_place(self) -> bool:
        return not self._is_granted and bool(self.lost)

    def ids_of(self, subtask: int) -> Collection[str]:
        return [self._coordinator.id_of(subtask)] if self._is_granted else ()

    def step(self, *, draining: bool) -> bool:
        """See :meth:`Pace.step`. The subtasks may be asked to end when all that they commit is known by reports."""
        self._calls.finish()
        is_settled = not (self._is_granted and (self._gone or self._losses.unsettled()))
        if (draining or self._enumerator.finished) and self._calls.is_idle and is_settled:
            return False
        if draining and self._is_granted and (lost := sorted(self._server.lost(LOST_SECONDS))):
            msg = f"subtasks {lost} have had no place for {LOST_SECONDS:g} s, and their last commits are not known"
            raise SubtaskMissing(msg)
        self._discover()
        if self._calls.takes_next and (call := self._next_call()) is not None:
            self._calls.begin(*call)
        answer = self._server.answer(_PAUSE)
        if answer is not None:
            self.take(answer)
        if answer is None or time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + _PAUSE
            self._await_subtasks()
            self._losses.count({**self._enumerator.offsets, **self._reported.offsets}, self._enumerator.pending or {})
        self._watch()
        return True

    def take(self, answer: Answer) -> None:
        """Takes a subtask's report.

        :raises KafkaSparkJobError: why it has failed for good.
        """
        self._losses.note()
        report, subtask = answer.report, self._subtasks[answer.subtask]
        if report is None:
            return
        subtask.heard = True
        if report.waits:
            self._begin_instance(answer.subtask, report)
        elif report.instance == subtask.instance:
            self._note(subtask, report)

    def end(self) -> None:
        """Waits for the coordinator's call; an attempt that fails must not write behind its own end."""
        self._calls.wait()

    def ended(self, silent: set[int]) -> None:
        """Records what the subtasks have committed.

        :raises SubtaskMissing: a subtask may have committed what it did not report.
        :raises CheckpointError: the record could not be written.
        """
        if not self._is_granted:
            return
        if missing := silent | self._losses.unsettled():
            raise SubtaskMissing(f"subtasks {sorted(missing)} did not confirm their last commits")
        self._recorded(time.monotonic(), self._record()())

    # -- instances ----------------------------------------------------------------------------------------------------

    def _begin_instance(self, number: int, report: SubtaskReport) -> None:
        """Has a subtask open its next instance.

        :raises KafkaSparkJobError: its failures are too many, or no retry helps.
        """
        before = self._subtasks[number]
        if report.failure:
            before.failures.add(number, report)
        self._may_be_gone |= before.granted
        self._reported.end(before.totals)
        self._instances += 1
        self._subtasks[number] = before.replaced_by(self._instances, report)
        self._server.tell(number, InstanceOrder(instance=self._instances, open=self._coordinator.id_of(number)))

    def _note(self, subtask: GrantedSubtask, report: SubtaskReport) -> None:
        subtask.opened |= report.opened
        if report.placed is not None:
            subtask.has_placed(report.placed)
            self._reach(report.placed)
        if report.offsets is not None:
            if self._reach(report.offsets):
                subtask.failures.progress(report.offsets)
            subtask.totals = report.totals
        merge(self.clients, report.clients)

    def _reach(self, offsets: Mapping[TopicPartition, int]) -> bool:
        has_grown = self._reported.reach(offsets, self._gone)
        self._enumerator.ahead(self._reported.offsets)
        return has_grown

    def _place(self, number: int, starts: Mapping[TopicPartition, int]) -> None:
        subtask, starts = self._subtasks[number], self._gone.kept(starts)
        subtask.granted = self._looks = True
        subtask.placing |= starts
        if starts:
            order = InstanceOrder(instance=subtask.instance, place=starts, mark=self._coordinator.mark)
            self._server.tell(number, order)

    # -- partitions ---------------------------------------------------------------------------------------------------

    def _owned(self, number: int) -> list[TopicPartition]:
        return [each for each in self._enumerator.offsets if split_owner(*each, self.parallelism) == number]

    def _discover(self) -> None:
        """Has granted instances place partitions that are new, and leave those that are gone."""
        if not self._is_granted:
            return
        change = self._enumerator.discover() if self._may_be_gone else self._enumerator.discover_if_due()
        self._may_be_gone = False
        if change is not None:
            for number, order in self._gone.add(change):
                self._server.tell(number, order)
            self._reported.leave_out(self._gone)
        if change is None and not self._looks:
            return
        self._looks = False
        offsets = self._gone.kept(self._enumerator.offsets)
        for number, subtask in self._subtasks.items():
            if subtask.granted and not subtask.ending:
                owned = {each: offsets[each] for each in self._owned(number) if each in offsets}
                if new := subtask.never_given(owned, lambda: self._coordinator.document.offsets):
                    self._place(number, new)

    # -- the coordinator's calls --------------------------------------------------------------------------------------

    def _next_call(self) -> tuple[Callable[[], Any], Callable[[Any], None]] | None:
        """The next write of the document, and the function that applies its result."""
        waiting = {n: each.instance for n, each in self._subtasks.items() if each.opened and not each.granted}
        if not self._is_granted:
            return self._first_call(waiting) if len(waiting) == len(self._subtasks) else None
        active = {n: each for n, each in self._subtasks.items() if not each.ending}
        placed = {n: (each.instance, dict(each.placed)) for n, each in active.items() if each.placed}
        if placed:
            starts = {each: at for _, found in placed.values() for each, at in found.items()}
            write = partial(self._coordinator.placed, starts, dict(self._enumerator.topic_ids))
            return write, partial(self._read, placed)
        gone = self._gone.forgettable()
        if gone:
            return partial(self._coordinator.forget, gone), partial(self._forgotten, gone)
        for number, each in active.items():
            if number in waiting or (each.returning and time.monotonic() >= self._returning_at):
                owned = sorted(each.returning) or self._owned(number)
                again = partial(self._coordinator.grant_again, owned, self._enumerator.existing)
                return again, partial(self._granted_again, number, each.instance, owned)
        now = time.monotonic()
        if now >= self._record_at + self._coordinator.job.spec.checkpoint_interval:
            return self._record(), partial(self._recorded, now)
        return None

    def _first_call(self, waiting: Mapping[int, int]) -> tuple[Callable[[], Any], Callable[[Any], None]]:
        splits, stops = self._enumerator.unplanned(), self._enumerator.stops
        grant = partial(self._coordinator.grant, splits, dict(stops), dict(self._enumerator.topic_ids))
        return grant, partial(self._granted, waiting)

    def _granted(self, waiting: Mapping[int, int], _: None) -> None:
        self._is_granted = True
        offsets = self._enumerator.offsets
        for number, instance in waiting.items():
            if self._subtasks[number].instance == instance:
                self._place(number, {each: offsets[each] for each in self._owned(number)})

    def _granted_again(
        self, number: int, instance: int, asked: Collection[TopicPartition], starts: Mapping[TopicPartition, int]
    ) -> None:
        missing = {each for each in asked if each not in starts}
        if missing:
            self._may_be_gone = True
            self._returning_at = time.monotonic() + _AGAIN_SECONDS
        if self._subtasks[number].instance == instance:
            self._subtasks[number].returning = missing
            self._place(number, starts)

    def _read(self, placed: Mapping[int, tuple[int, Mapping[TopicPartition, int]]], _: None) -> None:
        stops = self._enumerator.stops
        for number, (instance, starts) in placed.items():
            subtask = self._subtasks[number]
            if subtask.instance != instance:
                continue
            subtask.is_to_read(starts)
            splits = (
                KafkaPartitionSplit(each, start, max(start, stops.get(each, ENDLESS))) for each, start in starts.items()
            )
            self._server.tell(number, InstanceOrder(instance=instance, read=tuple(splits)))

    def _forgotten(self, gone: Collection[TopicPartition], _: None) -> None:
        self._gone.forgotten(gone)
        self._looks = True

    def _record(self) -> Callable[[], Completed | None]:
        """The call that records the reported commits."""
        totals = self._reported.totals(each.totals for each in self._subtasks.values())
        stops, ids = dict(self._enumerator.stops), dict(self._enumerator.topic_ids)
        return partial(self._coordinator.record, dict(self._reported.offsets), totals, stops, ids)

    def _recorded(self, now: float, completed: Completed | None) -> None:
        before, self._record_at = self._record_at, now
        if completed is not None:
            known = self._gone.kept(self._enumerator.offsets)
            self._enumerator.complete(tuple(split for split in completed.document.splits if split.partition in known))
            self._completed(completed, now - before)

    def _watch(self) -> None:
        """The watchdog counts the time since every subtask was heard of; a lost subtask is not waited for here."""
        if all(self._subtasks[number].heard for number in self._subtasks.keys() - self.lost):
            for subtask in self._subtasks.values():
                subtask.heard = False
            self._liveness.enter(
                "the reports of the subtasks", max(PLAN_SECONDS, step_seconds(self._coordinator.job.spec.sink))
            )
