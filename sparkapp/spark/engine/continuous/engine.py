"""Runs one attempt over long-lived subtasks, from their start to an orderly stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.pre_committed import Completed
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.clients.deadline import Deadline
from sparkapp.dataplane.statistics import BUSY_MILLIS
from sparkapp.model.errors import KafkaSparkJobError, OffsetsWentBackwards
from sparkapp.model.job.spec import Job
from sparkapp.model.report import Scale
from sparkapp.sink.ending.lost_producers import LOST_SECONDS, Fence, LostProducers
from sparkapp.source.watermarks.job_watermarks import WatermarkSnapshot
from sparkapp.spark.engine.continuous.control_server import ControlServer
from sparkapp.spark.engine.continuous.local.local_pace import LocalPace
from sparkapp.spark.engine.continuous.pace import Coordinator, Pace, PaceParts
from sparkapp.spark.engine.continuous.places import SubtaskPlaces
from sparkapp.spark.engine.continuous.subtasks import Subtasks
from sparkapp.spark.engine.continuous.two_phase import TwoPhasePace
from sparkapp.spark.engine.executors import ExecutorPresence
from sparkapp.spark.engine.interface import EngineParts
from sparkapp.spark.failures import original_error
from sparkapp.spark.launch.session import Spark, control_host
from sparkapp.spark.reporting.announcements import Announcements
from sparkapp.spark.reporting.liveness import MAX_STEP_SECONDS, StreamLiveness
from sparkapp.spark.tasks.client_totals import summed
from sparkapp.spark.tasks.flush import require_delivered

LOG = logging.getLogger(__name__)

_PAUSE = 0.1
"""Longest pause in seconds between two looks at a stop that was asked for."""

_STOP_SECONDS = 60.0
"""For the subtasks to send their last records: half of the time that Kubernetes gives a driver to stop."""

_END_SECONDS = 5.0
"""From the end of the last connection to that of Spark's jobs."""


class StartedSubtasks:
    """Made by the engine, or before it by a standby driver. A subtask without work opens no producer.

    :param job: with all that the tasks need, which does not change any more.
    """

    def __init__(self, job: Job, spark: Spark) -> None:
        self.server = ControlServer(control_host(spark))
        self.subtasks = Subtasks(job, spark=spark, address=self.server.address)
        self._parallelism = job.spec.parallelism

    def start(self) -> None:
        """Submits the tasks of all subtasks; returns at once. Called by a standby driver."""
        self.subtasks.start(self._parallelism)

    def are_connected(self) -> bool:
        """Whether every subtask is connected.

        :raises KafkaSparkJobError: why the tasks have ended.
        """
        if self.subtasks.ended:
            failure = self.subtasks.failure()
            raise original_error(failure) from failure
        return self.server.ready >= set(range(self._parallelism))

    def close(self) -> None:
        """Ends the connections of a standby driver that was never activated."""
        self.server.close()


class ContinuousEngine:
    """Runs one attempt of a job until it fails or is asked to drain.

    One Spark task for each subtask runs as long as the attempt, and keeps its consumer and its prefetched records. The
    engine gives each of them the splits of a checkpoint and completes it when all have pre-committed. So the protocol
    is that of the micro-batch engine, without a Spark job and new workers for each checkpoint.

    Everything but the Spark job and the completion of a checkpoint runs in the thread of :meth:`await_end`.

    :param parts: its seconds of a checkpoint count from the checkpoint's begin.
    :param fence: of the sink's transactions.
    :param announcements: of subtasks that are silent or wait for a place.
    :param scale: the parallelism that the operator asks for, None before it asks.
    :param report: gets fields of the driver's report.
    :param started: subtasks that run already; None for an engine that starts its own.
    :ivar liveness: the present step, for the driver's watchdog.
    :ivar executors: whether Spark has a place for every subtask.
    :ivar finished: whether the engine stopped because a bounded source was read to its end.
    """

    late_rows = 0
    """No transform of this engine has a watermark that drops rows."""
    growing_state = ()
    """Nor has it operators with state."""

    def __init__(
        self,
        parts: EngineParts[CheckpointCoordinator | LocalCoordinator],
        *,
        fence: Fence,
        announcements: Announcements,
        scale: Callable[[], Scale | None],
        report: Callable[..., None],
        started: StartedSubtasks | None = None,
    ) -> None:
        job, spark = parts.job, parts.spark
        self._spark = spark
        self._enumerator = parts.enumerator
        self._draining = threading.Event()
        started = started or StartedSubtasks(job, spark)
        self._server, self._subtasks = started.server, started.subtasks
        self.liveness = StreamLiveness()
        self.executors = ExecutorPresence(
            spark, is_over=self._draining.is_set, tasks=job.spec.parallelism,
            needed=lambda: self._pace.awaits_place,
        )  # fmt: skip
        self._lost = LostProducers(fence)
        self._announcements = announcements
        self._pace = self._pace_of(parts, scale, report)
        self.finished = False
        self._stop_by = Deadline.after(0)
        self._has_place = False

    def _pace_of(
        self,
        parts: EngineParts[CheckpointCoordinator | LocalCoordinator],
        scale: Callable[[], Scale | None],
        report: Callable[..., None],
    ) -> Pace:
        coordinator, completed = parts.coordinator, parts.completed
        if isinstance(coordinator, LocalCoordinator):
            return LocalPace(self._parts(coordinator, completed))
        return TwoPhasePace(
            self._parts(coordinator, completed), may_complete=lambda: self._lost.is_settled, spark=parts.spark,
            subtasks=self._subtasks, scale=scale, report=report,
        )  # fmt: skip

    def _parts(self, coordinator: Coordinator, completed: Callable[[Completed, float], None]) -> PaceParts[Coordinator]:
        return PaceParts(
            server=self._server, enumerator=self._enumerator, coordinator=coordinator,
            completed=completed, await_subtasks=self._require_subtasks, liveness=self.liveness, places=self._places_of,
        )  # fmt: skip

    @property
    def clients(self) -> Mapping[str, Mapping[str, int]]:
        """Totals of the workers' Kafka clients, by worker."""
        return self._pace.clients

    @property
    def busy_millis(self) -> int:
        """See :attr:`sparkapp.spark.engine.interface.Engine.busy_millis`; without the waits for records and orders."""
        return summed(self.clients)[BUSY_MILLIS]

    @property
    def watermarks(self) -> WatermarkSnapshot | None:
        """See :attr:`sparkapp.spark.engine.interface.Engine.watermarks`."""
        return self._pace.watermarks

    def start(self) -> None:
        """Submits the subtasks; called by the attempt once."""
        if not self._subtasks.count:
            self._subtasks.start(self._pace.parallelism)

    def drain(self) -> None:
        """Asks for a stop at the next completed checkpoint. Returns at once; a signal handler may call it."""
        self._draining.set()

    def await_end(self) -> None:
        """Completes checkpoint after checkpoint, until the engine is drained or a bounded source is at its end.

        No subtask begins a transaction behind it, although their tasks may still run.

        :raises KafkaSparkJobError: why it failed.
        """
        try:
            with ExitStack() as failed:
                failed.callback(self._cut_off)
                try:
                    self._run()
                finally:
                    self._pace.end()
                self._stop()
                failed.pop_all()
        except OffsetsWentBackwards as error:
            raise self._enumerator.explain(error) from None

    def close(self) -> None:
        """See :meth:`sparkapp.spark.engine.interface.Engine.close`."""
        try:
            self._await_tasks()
        finally:
            self._cut_off()

    def with_record(self, error: KafkaSparkJobError) -> KafkaSparkJobError:
        """The subtask has named the record."""
        return error

    def _run(self) -> None:
        while self._pace.step(draining=self._draining.is_set()):
            pass
        self.finished = self._enumerator.finished

    def _require_subtasks(self) -> None:
        """Has silent subtasks started again, and ends what lost subtasks have left open.

        :raises KafkaSparkJobError: the subtasks have ended, and why; or a subtask is missing for too long.
        """
        if self._subtasks.ended:
            failure = self._subtasks.failure()
            raise original_error(failure) from failure
        self._server.losses.require_few()
        for silent in self._server.silent():
            self._announcements.subtask_silent(silent.subtask)
            self._subtasks.start_again(silent.task)
        self._server.adopt()
        self._lost.look({each: self._pace.ids_of(each) for each in self._server.lost(LOST_SECONDS)})
        self.executors.tasks = self._pace.parallelism
        self.executors.count()
        self._pace.places.check()

    def _places_of(self, count: int) -> SubtaskPlaces:
        """The check of that number of subtasks, which may be more than the checkpoints have yet."""
        executors = ExecutorPresence(self._spark, is_over=self._draining.is_set, tasks=count)
        return SubtaskPlaces(
            count, present=lambda: self._pace.parallelism, connected=lambda: self._server.connected,
            executors=executors, announcements=self._announcements,
        )  # fmt: skip

    def _stop(self) -> None:
        """Asks the subtasks to end; what they have written is committed, or its brokers have it.

        A subtask gives its last answer when it begins no transaction any more, and fences no other producer (ADR 95).
        Without the answer of each the end of Spark's tasks is waited for.

        :raises PreCommitFailed: or the error of a record that was not delivered.
        """
        self.liveness.enter("the end of the subtasks", MAX_STEP_SECONDS)
        began, self._stop_by = time.monotonic(), Deadline.after(_STOP_SECONDS)
        asked, silent, failures = self._last_answers(self._stop_by)
        require_delivered(failures)
        self._pace.ended(silent)
        self._has_place = asked >= set(range(self._subtasks.count))
        if silent or not self._has_place:
            LOG.warning("not every subtask has given its last answer: the engine waits for the end of the tasks")
            self._await_tasks()
        else:
            LOG.info("every subtask has given its last answer, after %d ms", (time.monotonic() - began) * 1000)

    def _last_answers(self, deadline: Deadline) -> tuple[set[int], set[int], list[str]]:
        """Asks every connected subtask to end; returns those, which do not answer, and the failures of the others.

        When Spark's job has ended, answers may still be on their way. They come before the end of their connection.
        """
        asked = self._server.stop()
        failures = []
        while self._server.awaits_end and not deadline.expired:
            answer = self._server.answer(deadline.bound(_PAUSE))
            if answer is not None and answer.is_last:
                failures.append(answer.failure)
            elif answer is not None:
                self._pace.take(answer)
        return asked, self._server.unconfirmed, failures

    def _await_tasks(self) -> None:
        """Waits for the ends of connections and tasks, for a while; called behind the last answers."""
        while self._server.connected and not (self._subtasks.ended or self._stop_by.expired):
            time.sleep(self._stop_by.bound(_PAUSE / 10))
        # A task without a place ends by its cancellation, also if a rescale wants it no more.
        deadline = Deadline.after(self._stop_by.bound(_END_SECONDS if self._has_place else 0.0))
        while not (self._subtasks.ended or deadline.expired):
            time.sleep(deadline.bound(_PAUSE / 10))
        self._stop_by = Deadline.after(0)

    def _cut_off(self) -> None:
        """Ends the tasks that have not ended by themselves."""
        self._server.close()
        if not self._subtasks.ended:
            self._subtasks.cancel()
