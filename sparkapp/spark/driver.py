"""One attempt of a job, from its description to its last word: the order of a start, and an orderly end."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.cluster_identity import refuse_other_cluster
from sparkapp.checkpoint.coordinator import CheckpointCoordinator, Completed
from sparkapp.checkpoint.group_offsets import offset_committer
from sparkapp.checkpoint.recovery import Recovery, TransactionControl, recover
from sparkapp.checkpoint.retained import CheckpointRetainer, MemoryRetainedStore, RetainedStore
from sparkapp.checkpoint.rolled_back import KafkaGroupMarks
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.checkpoint.transaction_control import KafkaTransactionControl, leave_nothing_open
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.client_config import cluster_config, group_member_config, read_password
from sparkapp.model.errors import CheckpointMissing, CheckpointRefused, StreamStalled
from sparkapp.model.job import Job
from sparkapp.model.protocol import no_hook
from sparkapp.model.report import DriverState, Outcome, Termination, termination_of
from sparkapp.model.semantic import OffsetCommitMode, Semantic
from sparkapp.sink.committer import KafkaCommitter
from sparkapp.sink.open_transactions import OpenTransactions
from sparkapp.sink.orphans import OpenNow
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.source.cluster import KafkaClusterView
from sparkapp.source.enumerator import KafkaSourceEnumerator, enumerator_of
from sparkapp.source.group_member import KafkaGroupMember
from sparkapp.source.group_membership import GroupMembership
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.offsets_initializer import starting_initializer
from sparkapp.source.reader_schema import with_reader_schemas
from sparkapp.spark import operator_state, query_log
from sparkapp.spark.announcements import Announcements
from sparkapp.spark.client_totals import summed
from sparkapp.spark.engine import MicroBatchEngine
from sparkapp.spark.failures import lost_jvm, spark_died
from sparkapp.spark.faults import VARIABLE, Faults
from sparkapp.spark.lag_clock import LagClock
from sparkapp.spark.liveness import Watchdog
from sparkapp.spark.preflight import check_kafka, checked_consumer_config
from sparkapp.spark.progress import Progress
from sparkapp.spark.query_log import restored_engine
from sparkapp.spark.reporter import Reporter, now
from sparkapp.spark.transaction_time import TimeUsed, TransactionTime
from sparkapp.spark.transform import import_function
from sparkapp.spark.turn import Turn, await_turn

LOG = logging.getLogger(__name__)

_PARTITIONS_SHOWN = 100
_EXECUTORS_SECONDS = 30.0
"""Where none comes, that is the operator's to tell: it sees the pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What differs between a pod and a developer's machine.

    :param open_session: called in a thread, while recovery goes on; ``close_session`` at the attempt's end.
    :param folder: for Spark's query log; survives the attempt if ``stateful_allowed``.
    :param turn: where the attempt comes up beside another one; None where it begins at once.
    :param give_up: ends the process at once, with this last word: called where the main thread may hang.
    :param jvm_status: the exit status of the driver's JVM, None while it runs or where nobody knows.
    :param on_completed: told of each completed checkpoint; for benches.
    """

    store: CheckpointStore
    write_report: Callable[[str], None]
    open_session: Callable[[], SparkSession]
    close_session: Callable[[SparkSession], None]
    folder: Path
    stateful_allowed: bool
    credentials: Path
    turn: Turn | None = None
    retained: RetainedStore = field(default_factory=MemoryRetainedStore)
    give_up: Callable[[Termination], None] = field(default=lambda _: None)
    jvm_status: Callable[[], int | None] = field(default=lambda: None)
    on_completed: Callable[[Completed], None] = field(default=lambda _: None)


class Driver:
    """Runs one attempt. :meth:`run` blocks; :meth:`drain` may be called from a signal handler at any time."""

    def __init__(self, job: Job, surroundings: Surroundings) -> None:
        self._job = job
        self._around = surroundings
        self._claim = Claim(surroundings.store, job_uid=job.uid, attempt=job.attempt)
        self._draining = threading.Event()
        self._engine: MicroBatchEngine | None = None
        self._checkpoint_id = 0

    def drain(self) -> None:
        """Stop at the next completed checkpoint, or before the start has produced anything."""
        self._draining.set()
        if self._engine is not None:
            self._engine.drain()

    def run(self) -> Termination:
        """The attempt's whole life; every error ends here as a last word, with Spark stopped and clients closed."""
        reporter: Reporter | None = None
        turn = self._around.turn
        try:
            with ExitStack() as stack:
                session = self._prepared_session(turn, stack) if turn is not None else None
                # Stopped before its turn: nothing of the job was touched, nor is there anything to report.
                if turn is None or session is not None:
                    reporter = Reporter(
                        job_uid=self._job.uid, attempt=self._job.attempt, write=self._around.write_report
                    )
                    self._run(reporter, stack, session)
            return self._orderly_end()
        except Exception as error:
            LOG.exception("attempt %d failed", self._job.attempt)
            cause = spark_died(self._around.jvm_status()) if lost_jvm(error) else error
            return termination_of(cause, checkpoint_id=self._checkpoint_id)
        finally:
            if reporter is not None:
                reporter.close()

    def _orderly_end(self) -> Termination:
        if self._engine is not None and self._engine.finished:
            return Termination(
                outcome=Outcome.FINISHED, reason="Finished",
                message=f"read to its end, checkpoint {self._checkpoint_id} is the last",
                checkpoint_id=self._checkpoint_id,
            )  # fmt: skip
        return Termination(
            outcome=Outcome.DRAINED, reason="Drained", message=f"stopped after checkpoint {self._checkpoint_id}",
            checkpoint_id=self._checkpoint_id,
        )  # fmt: skip

    def _run(self, reporter: Reporter, stack: ExitStack, session: Future[SparkSession] | None) -> None:
        """
        :param session: that of an attempt which has come up beside another one.
        """
        job = self._job
        faults = Faults(job.attempt, os.environ.get(VARIABLE, ""))
        password = read_password(job.spec.kafka, self._around.credentials)
        config = checked_consumer_config(job, password=password)
        cluster = self._checked_cluster(config, stack)
        job = with_reader_schemas(job)
        function = import_function(job.spec.transform)
        LOG.info("brokers and code are checked")
        # The JVM takes seconds to come up; recovery, which produces nothing, goes on meanwhile.
        session = session or self._session(stack)
        progress = Progress(reporter.update)
        self._serve_metrics(progress, reporter, stack)
        reporter.update(state=DriverState.RECOVERING)
        client = TransactionClient(
            cluster_config(job.spec.kafka, password=password, client_id=f"{job.namespace}.{job.name}")
        )
        stack.callback(client.close)
        control = KafkaTransactionControl(job, client, config, self._claim)
        recovery = recover(
            job, store=self._around.store, control=control, now=now(), retained=self._around.retained,
            engine=query_log, cluster_id=cluster.cluster_id(), marks=KafkaGroupMarks(job, config, cluster),
        )  # fmt: skip
        self._checkpoint_id = recovery.document.checkpoint_id
        LOG.info(
            "goes on after checkpoint %d: %d transactions of former attempts committed, %d aborted",
            self._checkpoint_id, recovery.committed, recovery.aborted,
        )  # fmt: skip
        progress.recovered(recovery)
        announcements = Announcements(job, reporter)
        announcements.recovery(recovery)
        folder = self._query_folder(recovery.document)
        retainer = self._retainer(recovery, reporter, stack)
        membership = self._membership(cluster, password, progress, reporter, stack)
        enumerator = enumerator_of(
            job.spec, cluster, warn=lambda reason, message: reporter.event(reason, message, warning=True),
            membership=membership,
        )  # fmt: skip
        restored = recovery.document
        same_end = restored.stopping == job.spec.source.stopping.fingerprint
        enumerator.start(
            None if recovery.first_start else restored.offsets, restored.stops if same_end else None, restored.topic_ids
        )
        group_offsets = self._group_offsets(config, progress, stack) if membership is None else membership
        coordinator = CheckpointCoordinator(
            job, store=self._around.store, document=recovery.document, version=recovery.version,
            pre_commits=OpenTransactions(client), committer=KafkaCommitter(client, None),
            group_offsets=group_offsets, now=now, hook=faults.step if faults.armed else no_hook,
        )  # fmt: skip
        coordinator.begin(enumerator.unplanned(), enumerator.stops, enumerator.topic_ids)
        stack.callback(self._begin_to_read(enumerator, progress, coordinator.document).close)
        self._sweep_orphans(control, coordinator, progress, reporter, stack)
        _import_late_ones()
        engine = MicroBatchEngine(
            job, spark=session.result(), enumerator=enumerator, coordinator=coordinator, function=function,
            folder=folder, stateful_allowed=self._around.stateful_allowed,
            step=faults.step, hold=faults.hold,
            completed=lambda completed, seconds: self._completed(completed, seconds, progress, announcements, retainer),
        )  # fmt: skip
        progress.client_totals = lambda: summed(engine.clients)
        if not self._run_engine(engine, coordinator, reporter, control):
            return
        if coordinator.mode is not OffsetCommitMode.DISABLED:
            if engine.finished:
                coordinator.commit_ends()
            group_offsets.drain(10)
        coordinator.drained(finished=engine.finished)
        if retainer is not None:
            retainer.offer(coordinator.document)
        if engine.finished:
            reporter.event("Finished", f"read to its end; checkpoint {self._checkpoint_id} is the last")
        else:
            reporter.event("Drained", f"stopped after checkpoint {self._checkpoint_id}, no transaction is open")

    def _checked_cluster(self, config: Mapping[str, str], stack: ExitStack) -> KafkaClusterView:
        """The brokers, once they are found to be the checkpoint's and to have what the job needs."""
        cluster = KafkaClusterView(config, read_committed=config["isolation.level"] == "read_committed")
        stack.callback(cluster.close)
        refuse_other_cluster(self._job, self._around.store, cluster.cluster_id())
        check_kafka(self._job, cluster)
        return cluster

    def _run_engine(
        self,
        engine: MicroBatchEngine,
        coordinator: CheckpointCoordinator,
        reporter: Reporter,
        control: TransactionControl,
    ) -> bool:
        """Checkpoint after checkpoint until the end; False where the end was asked for before anything was produced."""
        if self._draining.is_set():
            return False
        engine.start()
        LOG.info("the query runs")
        self._engine = engine
        if self._draining.is_set():
            engine.drain()
        engine.await_executors(_EXECUTORS_SECONDS)
        reporter.event(
            "Running",
            f"attempt {self._job.attempt} runs with parallelism {self._job.spec.parallelism}"
            f" after checkpoint {coordinator.document.checkpoint_id}",
        )
        reporter.update(state=DriverState.RUNNING)
        watchdog = Watchdog(engine.liveness, stalled=self._stalled, suspended=lambda: engine.lacks_executors)
        watchdog.start()
        try:
            engine.await_end()
        except Exception as error:
            if self._draining.is_set() or isinstance(error, CheckpointMissing | CheckpointRefused):
                leave_nothing_open(control, self._claim, coordinator.document, error)
            raise
        finally:
            watchdog.close()
        return True

    @staticmethod
    def _warn_of_time(reached: TimeUsed | None, reporter: Reporter) -> None:
        if reached is None:
            return
        reporter.update(transaction_time_used=reached.percent)
        if reached.message:
            LOG.warning("%s", reached.message)
            reporter.event("TransactionTimeRunsOut", reached.message, warning=True)

    def _stalled(self, error: StreamStalled) -> None:
        self._around.give_up(termination_of(error, checkpoint_id=self._checkpoint_id))

    def _sweep_orphans(
        self,
        control: KafkaTransactionControl,
        coordinator: CheckpointCoordinator,
        progress: Progress,
        reporter: Reporter,
        stack: ExitStack,
    ) -> None:
        if self._job.spec.sink.semantic is not Semantic.EXACTLY_ONCE:
            return
        time_used = TransactionTime(self._job.spec.sink)

        def observed(found: OpenNow | None) -> None:
            progress.transactions(found)
            self._warn_of_time(time_used.reached(found), reporter)

        sweep = control.orphan_sweep(lambda: coordinator.document, in_use=coordinator.ids_in_use, observed=observed)
        sweep.start()
        stack.callback(sweep.close)

    def _query_folder(self, document: CheckpointDocument) -> Path:
        """Of this attempt's query, with its operators' state. Once former transactions are settled, for readers wait
        for these, and before anything starts.

        :raises OperatorStateMissing: the volume does not hold what belongs to the checkpoint.
        """
        if not self._around.stateful_allowed:
            return self._around.folder  # the engine refuses a transform that keeps state
        engine = restored_engine(document)
        return operator_state.prepare(
            self._around.folder, attempt=self._job.attempt, writer=engine.attempt,
            version=document.checkpoint_id - engine.base, partitions=engine.state_partitions,
        )  # fmt: skip

    def _retainer(self, recovery: Recovery, reporter: Reporter, stack: ExitStack) -> CheckpointRetainer | None:
        """Keeps earlier checkpoints; None where a group says where partitions go on, and nothing could go back."""
        if self._job.spec.source.group_membership.subscribes:
            return None
        retainer = CheckpointRetainer(
            self._around.retained, job_uid=self._job.uid, retention=self._job.spec.retention,
            latest=recovery.document.checkpoint_id,
            tell=lambda reason, message: reporter.event(reason, message, warning=True),
        )  # fmt: skip
        stack.callback(retainer.close)
        return retainer

    def _membership(
        self, cluster: KafkaClusterView, password: str, progress: Progress, reporter: Reporter, stack: ExitStack
    ) -> GroupMembership | None:
        """The group that says which partitions are ours; None where the job assigns them itself."""
        source = self._job.spec.source
        if not source.group_membership.subscribes:
            return None
        membership = GroupMembership(
            cluster=cluster, callback=progress,
            initializer=starting_initializer(
                source.startup, warn=lambda reason, message: reporter.event(reason, message, warning=True)
            ),
            tell=lambda reason, message, warning: reporter.event(reason, message, warning=warning),
            changed=progress.rebalanced,
        )  # fmt: skip
        member = KafkaGroupMember(
            group_member_config(self._job, password=password), membership=membership, options=source.group_membership
        )
        stack.callback(member.close)
        return membership

    def _group_offsets(self, config: Mapping[str, str], progress: Progress, stack: ExitStack) -> OffsetCommitter:
        committer = offset_committer(self._job, config, self._claim, progress)
        stack.callback(committer.close)
        return committer

    def _prepared_session(self, turn: Turn, stack: ExitStack) -> Future[SparkSession] | None:
        """What takes long and touches nothing of the job, and then the wait for the attempt's turn.

        Brokers and code are checked when it comes, as in any attempt.

        :returns: None where the attempt was stopped before its turn.
        """
        session = self._session(stack)
        _import_late_ones()
        import_function(self._job.spec.transform)
        tasks = self._job.spec.parallelism
        if not await_turn(turn, session.result(), tasks=tasks, stopped=self._draining.is_set):
            return None
        LOG.info("attempt %d has its turn", self._job.attempt)
        return session

    def _session(self, stack: ExitStack) -> Future[SparkSession]:
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        future = pool.submit(self._around.open_session)
        pool.shutdown(wait=False)

        def stop() -> None:
            if future.exception() is None:
                self._around.close_session(future.result())

        stack.callback(stop)
        return future

    @staticmethod
    def _begin_to_read(enumerator: KafkaSourceEnumerator, progress: Progress, document: CheckpointDocument) -> LagClock:
        starts = [f"{partition} at {offset}" for partition, offset in sorted(enumerator.offsets.items())]
        LOG.info("reads %d partitions, from %s", len(starts), ", ".join(starts[:_PARTITIONS_SHOWN]))
        lag = LagClock(enumerator, progress)
        progress.started(document, lambda: lag.pending)
        lag.start()
        return lag

    def _serve_metrics(self, progress: Progress, reporter: Reporter, stack: ExitStack) -> None:
        port = self._job.spec.metrics_port
        if not port:
            return
        from sparkapp.spark.metrics import MetricsEndpoint  # while the JVM comes up

        try:
            stack.callback(MetricsEndpoint(self._job, progress, port=port).close)
        except OSError as error:
            # Whoever watches the job learns it; the job itself needs no metrics.
            LOG.warning("no metrics: %s", error)
            reporter.event(
                "MetricsUnavailable",
                f"port {port} of the driver's pod cannot be opened ({error}): set another spec.metrics.prometheus.port",
                warning=True,
            )

    def _completed(
        self,
        completed: Completed,
        seconds: float,
        progress: Progress,
        announcements: Announcements,
        retainer: CheckpointRetainer | None,
    ) -> None:
        document = completed.document
        self._checkpoint_id = document.checkpoint_id
        self._around.on_completed(completed)
        LOG.info(
            "checkpoint %d: %d offsets in, %d transactions, %.0f ms (write %d ms, commit %d ms)",
            document.checkpoint_id, sum(split.size for split in document.splits), len(document.committables),
            seconds * 1000, completed.write_millis, completed.commit_millis,
        )  # fmt: skip
        progress.completed(completed, seconds, late_rows=self._engine.late_rows if self._engine is not None else 0)
        if retainer is not None:
            retainer.offer(document)
        announcements.bad_records(document.counters)


def _import_late_ones() -> None:
    """What PySpark imports when it first plans a stage in Python: a second of pandas, while the JVM comes up."""
    for name in ("pandas", "pyspark.sql.pandas.functions"):
        importlib.import_module(name)


def run_until_signalled(driver: Driver) -> Termination:
    """Runs a driver in the main thread; SIGTERM and SIGINT drain it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.drain())
    started = time.monotonic()
    termination = driver.run()
    LOG.info("attempt ended after %.0f s: %s %s", time.monotonic() - started, termination.outcome, termination.message)
    return termination
