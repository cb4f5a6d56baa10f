"""One attempt of the continuous engine: the real pipeline, control server and subtasks, each subtask in a process.

The driver is in this process, as in :mod:`tests.support.protocol.attempt`. Spark's part, to start a task again, is the
test's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.naming import pool_of_subtask
from sparkapp.model.checkpoint.slots import slot_of
from sparkapp.model.checkpoint.split import KafkaPartitionSplit, splits_by_owner, splits_by_subtask
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.job.codec import encode_job
from sparkapp.model.protocol import ProtocolStep
from sparkapp.model.report import Scale
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.engine.continuous.pipeline import CheckpointPipeline
from sparkapp.spark.engine.continuous.rescaling import Rescaling
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.tasks.control_channel import SUBTASK_SILENCE_SECONDS
from tests.support.protocol.attempt import AttemptRun
from tests.support.protocol.moments import (
    Ahead,
    DriverMoment,
    EndMoment,
    Killed,
    Loss,
    Moment,
    Stop,
    TaskMoment,
    TasksLost,
)
from tests.support.protocol.subtask_process import SubtaskProcess
from tests.support.protocol.tasks import Worker

_SECONDS = 120.0
_PAUSE = 0.005
_MOST_STARTS = 20
"""Of subtasks that are started again; no story ends so many."""
_STANDS_STILL_SECONDS = 1.5
_ANSWERS_SECONDS = 20.0
_BEFORE_IT_ANSWERS = None
_OPEN_SHARE = 0.5
"""Of the checkpoints, in which subtasks read until a barrier."""
_BEYOND = 10
"""Records that they may read beyond the plan."""


class _Waves:
    """What the engine's ``Subtasks`` are to a rescale, with processes for tasks."""

    def __init__(self, start: Callable[[Iterable[int]], None]) -> None:
        self._start = start
        self.count = self.next_wave = 0
        self.of: dict[int, int] = {}

    def start(self, count: int) -> None:
        added = range(self.count, count)
        self.of |= dict.fromkeys(added, self.next_wave)
        self.count, self.next_wave = count, self.next_wave + 1
        self._start(added)

    def withdraw(self, count: int) -> None:
        self.count = count

    def cancel_withdrawn(self, ending: Collection[int]) -> None:
        """Each process has a place here, so it is asked to end, and does."""


Halts = Mapping[int, TaskMoment | None]
"""Where subtasks halt."""


class ContinuousRun(AttemptRun):
    """See :class:`AttemptRun`. Losses and freezes are signals to processes of subtasks.

    Two checkpoints run where the test wants one begun ``ahead``: the engine's thread begins it while the thread that
    completes the checkpoint before waits at its step.

    :cvar silence: seconds after which a subtask that says nothing is lost.
    :ivar meanwhile: called once, between the begin of a checkpoint and its barrier. Such a checkpoint is open.
    """

    silence = SUBTASK_SILENCE_SECONDS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._server = ControlServer("127.0.0.1", silence=self.silence)
        self._lock = threading.Lock()
        self._subtasks: dict[int, SubtaskProcess] = {}
        self._waves = _Waves(self._start_wave)
        self._scale: Scale | None = None
        self._replaced: list[SubtaskProcess] = []
        self._left: dict[int, Any] = {}
        self._halted: set[int] = set()
        self._away: set[int] = set()
        self._spark = PeriodicThread(self._start_again, name="subtasks-again", interval=0.02)
        self._is_over = self._is_dead = False
        self._starts = 0
        self._asked, self._answered = threading.Event(), threading.Event()
        self._to: TaskMoment | None = None
        self.meanwhile: Callable[[], None] | None = None
        self._abreast = False

    def _open_workers(self) -> list[Worker]:
        return []

    # -- Spark's part -----------------------------------------------------------------------------------------------

    def _start_subtask(self, number: int) -> SubtaskProcess:
        job, kafka = self.job, self.job.spec.kafka
        if self.executors:
            kafka = replace(kafka, bootstrap_servers=self.executors)
        text = encode_job(replace(job, spec=replace(job.spec, kafka=kafka)))
        wave = self._waves.of[number]
        return SubtaskProcess.start(number, text, self._server.address, wave=wave, patience=self.patience)

    def _start_wave(self, subtasks: Iterable[int]) -> None:
        with self._lock:
            self._subtasks |= {number: self._start_subtask(number) for number in subtasks}

    def _start_again(self) -> None:
        with self._lock:
            for number, process in self._subtasks.items():
                if process.ended and process.process.exitcode and not self._is_over and number not in self._away:
                    self._starts += 1
                    self._is_over = self._starts > _MOST_STARTS
                    self._subtasks[number] = self._start_subtask(number)

    def _require_subtasks(self) -> None:
        assert self._starts <= _MOST_STARTS, "the subtasks end again and again"
        self._server.adopt()

    def _lose(self, what: Loss) -> None:
        for number in list(self._subtasks) if what is Loss.EXECUTOR else [self._latest_worker]:
            with self._lock:
                process = self._subtasks[number]
                if what is Loss.STANDS_STILL:
                    process.freeze()
                    threading.Timer(_STANDS_STILL_SECONDS, process.thaw).start()
                    continue
                if number in self._halted:
                    self._halted.discard(number)
                    process.release()
                if what is Loss.COMES_BACK:
                    process.freeze()
                    self._replaced.append(process)
                    self._left[number] = self._server._connections.get(number)
                    self._subtasks[number] = self._start_subtask(number)
                else:
                    if what is Loss.STAYS_AWAY:
                        self._away.add(number)
                    process.kill()

    def _come_back(self) -> None:
        """Behind the connections of their successors: until then the driver takes their answers."""
        deadline = Deadline.after(_SECONDS)
        while any(self._server._connections.get(number) in {None, left} for number, left in self._left.items()):
            assert not deadline.expired, f"of {set(self._left)} only {self._server.connected} are connected"
            time.sleep(_PAUSE)
        self._left.clear()
        for process in self._replaced:
            process.thaw()

    def _stand_still(self) -> None:
        for process in self._subtasks.values():
            process.freeze()

    def take_away(self) -> list[SubtaskProcess]:
        """Freezes the subtasks and leaves them to the caller, who closes the attempt."""
        with self._lock:
            self._is_over = True
            taken = [*self._subtasks.values(), *self._replaced]
            for process in taken:
                process.freeze()
            self._subtasks, self._replaced = {}, []
        return taken

    def thaw(self, *, draining: bool = False) -> None:
        for process in self._subtasks.values():
            process.thaw()
        super().thaw(draining=draining)

    def close(self) -> None:
        with self._lock:
            self._is_over = True
        for process in (*self._subtasks.values(), *self._replaced):
            process.kill()
        self._spark.close()
        self._server.close()
        super().close()

    # -- the driver -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._waves.start(self.job.spec.parallelism)
        self._latest_worker = self.job.spec.parallelism - 1
        self._spark.start()
        super()._start()

    def _coordinate(self, coordinator: CheckpointCoordinator | LocalCoordinator) -> None:
        super()._coordinate(coordinator)
        places: Any = SimpleNamespace(check=lambda: None)
        parts = PaceParts(
            server=self._server, enumerator=self._enumerator, coordinator=self._coordinator,
            completed=lambda *_: self._offer(), await_subtasks=self._require_subtasks, liveness=StreamLiveness(),
            places=lambda _: places,
        )  # fmt: skip
        self._pipeline = CheckpointPipeline(parts)
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]"))
        subtasks: Any = self._waves
        self._rescaling = Rescaling(
            wanted=lambda: self._scale, spark=spark, server=self._server, subtasks=subtasks,
            pipeline=self._pipeline, places=parts.places, report=lambda **_: None,
        )  # fmt: skip

    def rescale(self, parallelism: int, stop: Stop | None = None) -> None:
        """Another number of subtasks; the checkpoints that run are completed before, as the engine does."""
        self._act(partial(self._as_the_engine, partial(self._rescale, parallelism)), stop)

    def _rescale(self, parallelism: int) -> None:
        self._scale = Scale(parallelism, parallelism)
        while self._pipeline.oldest is not None:
            self._complete_oldest()
        deadline = Deadline.after(_SECONDS)
        while self._rescaling.parallelism != parallelism:
            self._rescaling.advance()
            assert not deadline.expired, f"{self._server.connected} are connected, {parallelism} are wanted"
            time.sleep(_PAUSE)
        self._rescaling.advance()
        self.job = replace(self.job, spec=replace(self.job.spec, parallelism=parallelism))

    def _checkpoint(self, retry: bool, abreast: bool, ahead: Ahead | None) -> None:
        self._as_the_engine(partial(self._run_checkpoint, retry, abreast, ahead))

    def _as_the_engine(self, act: Callable[[], None]) -> None:
        try:
            act()
        except KafkaSparkJobError:  # as the engine ends
            try:
                self._pipeline.end()
            finally:
                with self._lock:
                    self._is_over = True
                self._server.close()
            raise
        except Killed:
            self._is_dead = True
            self._answered.set()
            if self._pipeline._completing is not None:
                wait([self._pipeline._completing.done], timeout=_SECONDS)
            raise

    def _run_checkpoint(self, retry: bool, abreast: bool, ahead: Ahead | None) -> None:
        self._ahead, self._abreast = ahead, abreast
        self._away.clear()
        self._start_again()
        if self._pipeline.oldest is None:
            splits = self._enumerator.plan()
            if not any(split.size for split in splits):
                self._coordinator.forget_settled()
                return
            self._passed(DriverMoment.BEFORE_PREPARE)
            place = self._stop[0] if self._stop is not None else None
            if isinstance(place, TaskMoment):
                self._begin(splits, place)
                try:
                    self._passed(place)
                except TasksLost:
                    self._come_back()
            elif retry:
                self._begin(splits, _BEFORE_IT_ANSWERS)
                self._lose(Loss.WORKER)
            else:
                self._begin(splits)
        self._come_back()
        self._complete_oldest()
        while self.frozen and self._pipeline.oldest is not None:  # nobody waits for it
            self._complete_oldest()

    def _complete_oldest(self) -> None:
        self._release()
        self._pipeline.barrier()
        while self._pipeline._completing is None:
            self._pipeline.advance(0.05)
        done = self._pipeline._completing.done
        while not done.done():
            if self._asked.is_set():
                self._asked.clear()
                try:
                    self._begin_next()
                finally:
                    self._answered.set()
            else:
                time.sleep(_PAUSE)
        self._pipeline._join()

    def _step(self, step: ProtocolStep, _: int) -> None:
        moment = Moment(step.value)
        if self._is_dead:
            raise Killed
        if self._ahead is not None and self._ahead.at is moment:
            self._to, self._ahead = self._ahead.to, None
            self._answered.clear()
            self._asked.set()
            self._answered.wait(_SECONDS)
            if self._is_dead:
                raise Killed
        self._passed(moment)

    def _begin_next(self) -> None:
        if not self._pipeline.takes_next:
            return
        splits = self._enumerator.plan()
        if not any(split.size for split in splits):
            return
        self.two_have_run = True
        if self._to is not None:
            self._begin(splits, self._to)
            return
        self._begin(splits)
        running = self._pipeline._running
        assert running is not None
        self._pipeline.barrier()
        while not running.is_pre_committed:
            self._pipeline.advance(0.05)

    def _begin(self, splits: tuple[KafkaPartitionSplit, ...], *halt: TaskMoment | None) -> None:
        """:param halt: where the last subtask that has work halts, or each of them; nowhere by default."""
        groups = splits_by_subtask([split for split in splits if split.size], self.job.spec.parallelism)
        self._latest_worker = max(groups)
        halting = set(groups if self._abreast else [self._latest_worker]) if halt else set()
        self._await_connections(halting)
        for number in halting:
            self._subtasks[number].order(halt[0])
        meanwhile, self.meanwhile = self.meanwhile, None
        is_open = meanwhile is not None or self.dice.random() < _OPEN_SHARE
        self._note(splits_by_owner(splits, self.job.spec.parallelism) if is_open else groups)
        beyond = {split.partition: split.stop + _BEYOND for split in splits}
        self._pipeline.begin(splits, beyond if is_open else None)
        if meanwhile is not None:
            meanwhile()
        if halting:
            self._pipeline.barrier()
            self._await_halts(halting)

    def _await_connections(self, subtasks: Collection[int]) -> None:
        """Another subtask would do the work of a subtask that has been lost and is not connected again."""
        deadline = Deadline.after(_SECONDS)
        while not self._server.ready >= set(subtasks):
            assert not deadline.expired, f"of {subtasks} only {self._server.ready} are connected"
            time.sleep(_PAUSE)

    def _await_halts(self, halting: Collection[int]) -> None:
        running, deadline = self._pipeline._running, Deadline.after(_SECONDS)
        assert running is not None
        while not (running.writing <= set(halting) and all(self._subtasks[number].halts for number in halting)):
            self._pipeline.advance(0.02)
            assert not deadline.expired, f"of {halting} not all halt; {running.writing} write"
        self._halted = set(halting)

    def _release(self) -> None:
        for number in self._halted:
            self._subtasks[number].release()
        self._halted.clear()

    def _note(self, subtasks: Collection[int]) -> None:
        """The ids of the checkpoint that begins, and of the next, whose producers are opened ahead."""
        spec = self.job.spec
        begins = max(self._coordinator._prepared_id, self._coordinator.document.checkpoint_id) + 1
        for subtask in subtasks:
            ids = pool_of_subtask(
                spec.sink.transaction_naming, prefix=spec.sink.transactional_id_prefix, subtask=subtask,
                parallelism=spec.parallelism, pool_size=spec.sink.producers_pool_size,
                next_free=self._coordinator.next_free,
            )  # fmt: skip
            for checkpoint_id in (begins, begins + 1):
                self.names.note(subtask, ids[slot_of(checkpoint_id, len(ids))], self._names_in_reach())

    def _stop_when_idle(self) -> None:
        self.draining = True
        if self._pipeline.oldest is None:
            self._coordinator.forget_settled()
        self._drain()

    def _end_tasks(self) -> None:
        while self._pipeline.oldest is not None:
            self._checkpoint(retry=False, abreast=False, ahead=None)
        halts = self._halts_at_the_end()
        self._server.stop()
        deadline = Deadline.after(_ANSWERS_SECONDS)
        while self._server.awaits_end and not deadline.expired:
            answer = self._server.answer(deadline.bound(0.1))
            if answer is not None and answer.checkpoint_id is None:
                assert not answer.failure
        self._tasks_have_answered(halts)

    def _halts_at_the_end(self) -> bool:
        """Whether the story wants something to happen behind the last answers; then the tasks halt there."""
        halts = self._stop is not None and self._stop[0] is EndMoment.ANSWERED
        if halts:
            self._await_connections(self._subtasks)
            for process in self._subtasks.values():
                process.order(EndMoment.ANSWERED)
        return halts

    def _tasks_have_answered(self, halts: bool) -> None:
        if not halts:
            return
        deadline = Deadline.after(_SECONDS)
        while not all(process.halts for process in self._subtasks.values()):
            assert not deadline.expired, "not every subtask comes to its end"
            time.sleep(_PAUSE)
        self._passed(EndMoment.ANSWERED)
        for process in self._subtasks.values():
            process.release()
