"""The driver's main thread: a standby's wait, one attempt, and the termination message that it ends with."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from sparkapp.model.errors import ExecutorsFailed, StreamStalled
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.report import CREDENTIALS_CHANGED, AttemptOutcome, Termination, termination_of
from sparkapp.spark.attempt import Attempt, AttemptContext, import_pandas
from sparkapp.spark.engine.continuous.engine import StartedSubtasks
from sparkapp.spark.failures import cause_of
from sparkapp.spark.frames.transform import import_function
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.launch.standby import Activation, await_activation, await_takeover
from sparkapp.spark.reporting.executor_pods import ExecutorPodsLog
from sparkapp.spark.reporting.liveness import CODE_SECONDS, START_SECONDS, Watchdog
from sparkapp.spark.reporting.progress import Progress
from sparkapp.spark.reporting.reporter import Reporter
from sparkapp.spark.wiring.wiring import Wiring

LOG = logging.getLogger(__name__)


class Driver:
    """Runs one attempt. :meth:`run` blocks; :meth:`drain` may be called from a signal handler at any time."""

    def __init__(self, job: Job, environment: DriverEnvironment) -> None:
        self._job = job
        self._environment = environment
        self._draining = threading.Event()
        self._watchdog = Watchdog(stalled=self._stalled)
        self._credentials_changed = False
        self._attempt: Attempt | None = None
        self._progress: Progress | None = None
        self._pods_log: ExecutorPodsLog | None = None
        self._may_report = False

    def drain(self) -> None:
        """Stops at the next completed checkpoint; before the first checkpoint, stops the start."""
        self._draining.set()
        if self._attempt is not None:
            self._attempt.drain()

    def _rotate(self) -> None:
        """Drains, so that the next attempt uses the new content of the Secrets."""
        self._credentials_changed = True
        self.drain()

    def run(self) -> Termination:
        """Runs the attempt and stops Spark and all clients; raises nothing.

        :returns: the attempt's termination message, also for every error.
        """
        reporter: Reporter | None = None
        activation = self._environment.activation
        try:
            with ExitStack() as stack:
                self._watchdog.start()
                stack.callback(self._watchdog.close)
                waits = activation is not None and not self._environment.takes_over
                session = self._prepared_session(activation, stack) if activation is not None and waits else None
                # A standby that is stopped before its activation has nothing to report: it touched nothing of the job.
                if not waits or session is not None:
                    self._may_report = activation is None or waits
                    reporter = Reporter(
                        job_uid=self._job.uid, attempt=self._job.attempt, write=self._write_report,
                        steps=lambda: self._watchdog.steps,
                    )  # fmt: skip
                    self._read_pods_log(reporter, stack)
                    self._run_attempt(reporter, stack, session)
            return self._orderly_end()
        except Exception as error:
            LOG.exception("attempt %d failed", self._job.attempt)
            gave_up = self._pods_log.gave_up if self._pods_log is not None else ""
            cause = ExecutorsFailed(gave_up) if gave_up else cause_of(error, self._environment.jvm_status)
            return termination_of(cause, job=self._job, checkpoint_id=self._checkpoint_id)
        finally:
            if reporter is not None:
                reporter.close()

    @property
    def _checkpoint_id(self) -> int:
        """The last completed checkpoint, or the restored one; 0 before recovery."""
        return 0 if self._progress is None else self._progress.snapshot.checkpoint_id

    def _write_report(self, text: str) -> None:
        """The report of the job is that of the attempt before, as long as this standby is not activated."""
        if self._may_report:
            self._environment.write_report(text)

    def _stalled(self, error: StreamStalled) -> None:
        self._environment.give_up(termination_of(error, job=self._job, checkpoint_id=self._checkpoint_id))

    def _read_pods_log(self, reporter: Reporter, stack: ExitStack) -> None:
        if self._environment.pods_log is not None:
            self._pods_log = ExecutorPodsLog(self._environment.pods_log, reporter.update)
            self._pods_log.start()
            stack.callback(self._pods_log.close)

    def _run_attempt(self, reporter: Reporter, stack: ExitStack, session: Future[Spark] | None) -> None:
        """
        :param session: of a standby that is activated; else None.
        """
        self._progress = Progress(reporter.update)
        context = AttemptContext(
            job=self._job, environment=self._environment, reporter=reporter, progress=self._progress,
            draining=self._draining, watchdog=self._watchdog, stack=stack,
        )  # fmt: skip
        wiring = Wiring(context, rotate=self._rotate)
        prepared = wiring.prepare(lambda: session if session is not None else self._session(stack))
        subtasks = None
        if self._environment.takes_over and self._environment.activation is not None:
            spark = self._loaded(prepared.session)
            subtasks = self._started_subtasks(wiring.job, spark)
            wiring.rehearse(prepared)
            if not self._await_takeover(self._environment.activation, spark, subtasks):
                return
            self._may_report = True
        self._attempt = wiring.build(prepared, subtasks)
        self._attempt.run()

    def _orderly_end(self) -> Termination:
        checkpoint_id = self._checkpoint_id
        if self._attempt is not None and self._attempt.finished:
            return Termination(
                outcome=AttemptOutcome.FINISHED, reason="Finished",
                message=f"read to its end, checkpoint {checkpoint_id} is the last", checkpoint_id=checkpoint_id,
            )  # fmt: skip
        reason, message = "Drained", f"stopped after checkpoint {checkpoint_id}"
        if self._credentials_changed:
            reason, message = CREDENTIALS_CHANGED, f"{message}: its Kafka Secrets have new content"
        return Termination(outcome=AttemptOutcome.DRAINED, reason=reason, message=message, checkpoint_id=checkpoint_id)

    def _prepared_session(self, activation: Activation, stack: ExitStack) -> Future[Spark] | None:
        """A standby's session with loaded workers, after its activation; touches nothing of the job.

        Brokers and code are checked after the activation, as in any attempt.

        :returns: None if the standby was stopped before its activation.
        """
        session = self._session(stack)
        spark = self._loaded(session)
        # The operator limits the time of a standby that is not prepared.
        self._watchdog.enter("the wait for the activation", math.inf)
        tasks = self._job.spec.parallelism
        if not await_activation(activation, spark, tasks=tasks, stopped=self._draining.is_set):
            return None
        LOG.info("attempt %d is activated", self._job.attempt)
        return session

    def _loaded(self, session: Future[Spark]) -> Spark:
        """Spark, once it is up and the code is imported."""
        import_pandas(self._job.spec)
        self._watchdog.enter("the start of Spark", START_SECONDS)
        spark = session.result()
        self._watchdog.enter("the import of the transform's module", CODE_SECONDS)
        import_function(self._job.spec.transform)
        return spark

    def _started_subtasks(self, job: Job, spark: Spark) -> StartedSubtasks | None:
        """Those of two-phase checkpoints, which wait for their work; None for other jobs."""
        if chosen_engine(job.spec)[0] is not Engine.CONTINUOUS or job.spec.has_local_pace:
            return None
        started = StartedSubtasks(job, spark)
        started.start()
        return started

    def _await_takeover(self, activation: Activation, spark: Spark, subtasks: StartedSubtasks | None) -> bool:
        """Blocks until a standby that has prepared all that it can is activated; False if it was stopped before."""
        self._watchdog.enter("the wait for the activation", math.inf)
        if subtasks is None:
            tasks = self._job.spec.parallelism
            activated = await_activation(activation, spark, tasks=tasks, stopped=self._draining.is_set)
        else:
            activated = await_takeover(activation, ready=subtasks.are_connected, stopped=self._draining.is_set)
        if activated:
            LOG.info("attempt %d takes over", self._job.attempt)
        elif subtasks is not None:
            subtasks.close()
        return activated

    def _session(self, stack: ExitStack) -> Future[Spark]:
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        future = pool.submit(self._environment.open_session)
        pool.shutdown(wait=False)

        def stop() -> None:
            if future.exception() is None:
                self._environment.close_session(future.result())

        stack.callback(stop)
        return future


def run_until_signalled(driver: Driver) -> Termination:
    """Runs a driver in the main thread; SIGTERM and SIGINT drain it. Called by ``sparkapp run``."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.drain())
    started = time.monotonic()
    termination = driver.run()
    LOG.info("attempt ended after %.0f s: %s %s", time.monotonic() - started, termination.outcome, termination.message)
    return termination
