"""One attempt of the local pace: the real driver's parts and the real subtasks, each subtask in a process.

As in :mod:`tests.support.protocol.continuous_run` the driver is in this process, and Spark's part is the test's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.spark.engine.continuous.local.local_pace import LocalPace
from sparkapp.spark.engine.continuous.pace import PaceParts
from sparkapp.spark.reporting.liveness import StreamLiveness
from sparkapp.spark.tasks.flush import require_delivered
from tests.support.protocol.continuous_run import ContinuousRun
from tests.support.protocol.moments import Ahead, EngineStep, InstanceMoment, Killed, Loss, Place
from tests.support.protocol.subtask_process import SubtaskProcess

_CHECKPOINT_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_STANDS_STILL_SECONDS = (0.3, 3.0)
"""Less and more than the silence after which a subtask is lost."""
_STOP_SECONDS = 30.0


class LocalPaceRun(ContinuousRun):
    """See :class:`AttemptRun`. The subtasks also read and commit between two acts of the driver.

    A checkpoint is a record of the subtasks' commits. The engine works until one is written, or until all is recorded,
    and every subtask that was lost has its next instance. In a checkpoint it calls ``meanwhile`` when a subtask that is
    to halt knows it.
    """

    silence = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._still = threading.Event()
        self._halts_at: InstanceMoment | None = None
        self._records = 0

    @property
    def document(self) -> CheckpointDocument:
        return self.coordinator.document

    @property
    def subtasks(self) -> dict[int, SubtaskProcess]:
        """The present process of each subtask."""
        return self._subtasks

    def run_to_the_end(self) -> None:
        """The engine works until it is to drain; for a thread of the test's own."""
        self._act(self._drain, None)

    def die(self) -> None:
        """The driver says nothing more; :meth:`close` follows."""
        self._is_dead = True

    def replace(self, number: int) -> SubtaskProcess:
        """Freezes a subtask and starts another for it, as after a silence that only the driver has seen."""
        with self._lock:
            return self._replace(number)

    def thaw(self, *, draining: bool = False) -> None:
        self._still.clear()
        super().thaw(draining=draining)

    def close(self) -> None:
        self._is_dead = True
        self._await_call()
        super().close()

    # -- Spark's part -----------------------------------------------------------------------------------------------

    def _replace(self, number: int) -> SubtaskProcess:
        replaced = self._subtasks[number]
        replaced.freeze()
        self._replaced.append(replaced)
        if not self._is_over:
            self._subtasks[number] = self._start_subtask(number)
        return replaced

    def _require_subtasks(self) -> None:
        super()._require_subtasks()
        for silent in self._server.silent():
            self.replace(silent.subtask)

    def _lose(self, what: Loss) -> None:
        with self._lock:
            for number in list(self._subtasks) if what is Loss.EXECUTOR else [self._latest_worker]:
                process = self._subtasks[number]
                if what is Loss.STANDS_STILL:
                    process.freeze()
                elif what is Loss.COMES_BACK:
                    self._replace(number)
                    process.release()  # behind its halt, once it continues
                else:
                    process.kill()
                    continue
                again = threading.Timer(self.dice.choice(_STANDS_STILL_SECONDS), process.thaw)
                again.daemon = True
                again.start()

    def _stand_still(self) -> None:
        self._still.set()
        super()._stand_still()

    # -- the driver -------------------------------------------------------------------------------------------------

    def _passed(self, place: Place) -> None:
        if self._is_dead:
            raise Killed
        super()._passed(place)

    def _coordinate(self, coordinator: CheckpointCoordinator | LocalCoordinator) -> None:
        assert isinstance(coordinator, LocalCoordinator)
        self.coordinator, job = coordinator, self.job
        unused: Any = None
        self._pace = LocalPace(PaceParts(
            server=self._server, enumerator=self._enumerator, coordinator=self.coordinator,
            completed=lambda *_: self._recorded(), await_subtasks=self._require_subtasks, liveness=StreamLiveness(),
            places=lambda _: unused,
        ))  # fmt: skip
        self._is_noted = False
        for subtask in range(job.spec.parallelism):
            # A producer that is open and not granted needs nobody who looks for it.
            self.names.by_subtask[subtask].add(self.coordinator.id_of(subtask))

    def _recorded(self) -> None:
        self._records += 1
        self._offer()

    def _checkpoint(self, retry: bool, abreast: bool, ahead: Ahead | None) -> None:
        self._as_the_engine(self._record_commits)

    def _record_commits(self) -> None:
        place = self._stop[0] if self._stop is not None else None
        self._latest_worker = self.dice.randrange(self.job.spec.parallelism)
        before, deadline, steps = self._records, Deadline.after(_CHECKPOINT_SECONDS), 0
        if isinstance(place, InstanceMoment):
            self._halts_at = place
            self._subtasks[self._latest_worker].order(place)
        if self.meanwhile is not None:
            self.meanwhile()
        try:
            look_at = time.monotonic() + _LOOK_SECONDS
            while not self._pace._calls.is_idle or not (self._is_settled and self._records > before):
                self._advance(draining=False)
                steps += 1
                self._passed(EngineStep(steps))
                if self._halts_at is not None and self._halts:
                    self._passed(self._halts_at)
                    self._go_on()
                if self._is_settled and self._pace._calls.is_idle and time.monotonic() > look_at:
                    look_at = time.monotonic() + _LOOK_SECONDS
                    if not self.lag and self._all_is_recorded:
                        return
                assert not deadline.expired, f"nothing is recorded: {self._pace._subtasks}"
        except Killed:
            self._halts_at = None  # its subtasks die, too, where they are
            raise
        finally:
            self._go_on()

    @property
    def _all_is_recorded(self) -> bool:
        """The lag counts what reports say, and the record of it may still be due."""
        recorded = {split.partition: split.stop for split in self.document.splits}
        return all(at <= recorded.get(partition, 0) for partition, at in self._pace._reported.offsets.items())

    @property
    def _halts(self) -> bool:
        process = self._subtasks[self._latest_worker]
        return not process.ended and process.halts

    def _go_on(self) -> None:
        if self._halts_at is not None:
            self._halts_at = None
            self._subtasks[self._latest_worker].release()

    @property
    def _is_settled(self) -> bool:
        return all(each.is_settled for each in self._pace._subtasks.values()) and not self._pace.lost

    def _advance(self, *, draining: bool) -> bool:
        """A step of the engine, unless it stands still."""
        if self._still.is_set():
            self._thawed.wait()
        if self._is_dead or self._killed:
            raise Killed
        goes_on = self._pace.step(draining=draining)
        if self._pace._is_granted and not self._is_noted:
            self._is_noted = True
            for subtask in range(self.job.spec.parallelism):
                self.names.note(subtask, self.coordinator.id_of(subtask), self._names_in_reach())
        return goes_on

    def _as_the_engine(self, act: Callable[[], None]) -> None:
        try:
            act()
        except KafkaSparkJobError:  # as the engine ends
            try:
                self._pace.end()
            finally:
                with self._lock:
                    self._is_over = True
                self._server.close()
            raise
        except Killed:
            self._is_dead = True
            self._await_call()
            raise

    def _await_call(self) -> None:
        """A killed driver's write is through or was not sent."""
        call = self._pace._calls._call if self._coordinated else None
        if call is not None:
            wait([call[0]], timeout=_CHECKPOINT_SECONDS)

    def _stop_when_idle(self) -> None:
        self.draining = True
        self._drain()

    def _write_drained(self) -> None:
        self.coordinator.drained()

    def _end_tasks(self) -> None:
        self._as_the_engine(self._work_and_stop)

    def _work_and_stop(self) -> None:
        """As the engine's ``await_end``."""
        while self._advance(draining=self.draining):
            pass
        self._pace.end()
        failures = []
        halts = self._halts_at_the_end()
        self._server.stop()
        deadline = Deadline.after(_STOP_SECONDS)
        while self._server.awaits_end and not deadline.expired:
            answer = self._server.answer(deadline.bound(0.1))
            if answer is not None and answer.is_last:
                failures.append(answer.failure)
            elif answer is not None:
                self._pace.take(answer)
        require_delivered(failures)
        self._pace.ended(self._server.unconfirmed)
        self._tasks_have_answered(halts)
