"""Checks, recovers and connects the parts of one attempt: the order of a start."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.group_offsets import offset_committer
from sparkapp.checkpoint.recovery.cluster_identity import refuse_other_cluster
from sparkapp.checkpoint.recovery.engine_texts import EngineTexts
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.checkpoint.recovery.rolled_back import KafkaGroupMarks
from sparkapp.checkpoint.retained import StateOfCheckpoints
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.progress import Progress
from sparkapp.clients.security.mounted import check_usable, mounted_securities
from sparkapp.clients.security.rotation import CredentialsWatch
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.connection import KafkaConnection
from sparkapp.formats.encoders.writer_schema import with_writer_schemas
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.errors import KafkaSparkJobError, TopicNotFound
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.client.config import OfClusters, group_member_config
from sparkapp.model.job.rules.engine_rules import chosen_engine
from sparkapp.model.job.spec import Engine, Job
from sparkapp.model.report import DriverState
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.formats.reader_schema import with_reader_schemas
from sparkapp.source.group.member import KafkaGroupMember
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.offsets_initializer import starting_initializer
from sparkapp.spark.attempt import Attempt, AttemptContext
from sparkapp.spark.engine.continuous.engine import StartedSubtasks
from sparkapp.spark.engine.micro_batch.repartition import StateFolder
from sparkapp.spark.frames.batch_transform import check_result
from sparkapp.spark.frames.transform import check_code
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.preflight import checks
from sparkapp.spark.preflight.durability import show_durability
from sparkapp.spark.preflight.job_clusters import JobClusters
from sparkapp.spark.reporting.announcements import Announcements
from sparkapp.spark.reporting.lag_clock import LagClock
from sparkapp.spark.reporting.liveness import CODE_SECONDS, START_SECONDS
from sparkapp.spark.reporting.reporter import now
from sparkapp.spark.reporting.telemetry.lineage import AttemptLineage, open_lineage
from sparkapp.spark.reporting.telemetry.traces import CheckpointSpans, open_spans
from sparkapp.spark.reporting.transaction_time import TransactionTime
from sparkapp.spark.state.object_store.query_folder import prepared
from sparkapp.spark.state.object_store.restored_state import StoredQueryState
from sparkapp.spark.state.object_store.retained_state import retained_state_of
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.query_folder import LocalQueryFolder
from sparkapp.spark.state.retained_state import QueryState
from sparkapp.spark.state.state_store_files import query_folder
from sparkapp.spark.wiring.code_errors import with_code_error
from sparkapp.spark.wiring.start import Parts, group_evidence, recovery_of, start

LOG = logging.getLogger(__name__)

_PARTITIONS_SHOWN = 100
_REHEARSAL_SECONDS = 10.0
_SWEEP_AFTER_SECONDS = 2.0
"""Recovery has just listed the same ids. Another list at once would delay the first records by its work."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What an attempt has before it touches the job.

    :param security: the content of the job's Secrets. :param configs: of its clients.
    :param clusters: the checked brokers.
    :param client: asks the coordinators of this attempt's transactions.
    :param control: ends the transactions of previous attempts.
    :param connection: to the source's cluster, for the offsets of the group.
    :param session: Spark, which comes up.
    """

    security: OfClusters
    configs: OfClusters
    clusters: JobClusters
    client: TransactionClient
    control: KafkaTransactionControl
    connection: KafkaConnection
    session: Future[Spark]


class Wiring:
    """Builds one :class:`Attempt`; made by the driver.

    :param rotate: asks for a stop because the job's Secrets have new content.
    """

    def __init__(self, context: AttemptContext, *, rotate: Callable[[], None]) -> None:
        self._context = context
        self._claim = Claim(context.environment.store, job_uid=context.job.uid, attempt=context.job.attempt)
        self._rotate = rotate
        self._state_progress = Progress()
        """Of the start with query state, on a volume or in an object store."""

    @property
    def job(self) -> Job:
        """With schemas and record limits, once it is prepared."""
        return self._context.job

    def prepare(self, start_session: Callable[[], Future[Spark]]) -> Prepared:
        """Checks brokers and code, and starts Spark; touches nothing of the job.

        :param start_session: called after the checks. The JVM takes seconds to come up, and recovery runs meanwhile.
        :raises KafkaSparkJobError: why the attempt cannot start.
        """
        context = self._context
        environment, watchdog = context.environment, context.watchdog
        security = mounted_securities(context.job.spec, environment.credentials)
        for properties in security:
            check_usable(properties)
        configs = checks.checked_configs(context.job, security)
        watchdog.enter("the checks of brokers, rights and schemas", START_SECONDS)
        clusters = self._checked_clusters(configs)
        job = with_writer_schemas(with_reader_schemas(context.job))
        job = checks.with_record_limits(job, clusters.sink)
        self._context = replace(context, job=job)
        self._enter_import()
        check_code(job.spec.transform)
        if chosen_engine(job.spec)[0] is Engine.CONTINUOUS:
            check_result(job.spec)
        LOG.info("checked brokers and code")
        # The coordinators that a checkpoint's check has asked are asked to commit it. The sweep may look others up.
        client, sweeping = TransactionClient(configs.sink), TransactionClient(configs.sink)
        connection = KafkaConnection(configs.source)
        for each in (client, sweeping, connection):
            context.stack.callback(each.close)
        return Prepared(
            security=security, configs=configs, clusters=clusters, client=client,
            control=KafkaTransactionControl(job, sweeping, configs.source, self._claim), connection=connection,
            session=start_session(),
        )  # fmt: skip

    def rehearse(self, prepared: Prepared) -> None:
        """Asks what recovery will ask; called by a driver that is prepared next to the present attempt.

        The first request of a kind takes some 100 ms: connections, metadata, modules. Readers would wait for it behind
        the takeover. Nothing is changed, and no answer is used.
        """
        job, environment = self.job, self._context.environment
        if job.spec.metrics_port:
            importlib.import_module("sparkapp.spark.reporting.metrics")
        deadline = Deadline.after(_REHEARSAL_SECONDS)
        try:
            text = environment.store.read().text
            if text is None:
                return
            document = decode(text, job_uid=job.uid)
            config, cluster = prepared.configs.source, prepared.clusters.source
            KafkaGroupMarks(job, config, cluster, prepared.connection).of(document)
            prepared.control.look(document, deadline=deadline)
            prepared.client.describe([offsets_id(document.prefix)], deadline=deadline)
        except KafkaSparkJobError as error:
            LOG.info("recovery has to make its own connections: %s", error.message)

    def build(self, prepared: Prepared, subtasks: StartedSubtasks | None = None) -> Attempt:
        """Recovers the job and connects the parts; produces no record.

        :param subtasks: of the continuous engine, which run already.
        :raises KafkaSparkJobError: why the attempt cannot start.
        """
        context, clusters, security = self._context, prepared.clusters, prepared.security
        job, environment, reporter, watchdog = context.job, context.environment, context.reporter, context.watchdog
        config = prepared.configs.source
        self._serve_metrics()
        reporter.update(state=DriverState.RECOVERING)
        control = prepared.control
        stored = self._state_store()
        engine, state = self._state(stored)
        parts = Parts(
            store=environment.store, retained=environment.retained, engine=engine,
            state=state, control=control, ends=control.ends(),
            client=prepared.client, clusters=clusters, config=config, evidence=group_evidence(job, config), now=now,
            warn=reporter.warn, draining=context.draining.is_set, connection=prepared.connection,
        )  # fmt: skip
        announcements = Announcements(job, reporter)
        # A restore and a clone may copy all of the state.
        done = self._state_progress
        watchdog.enter("recovery", START_SECONDS, progress=lambda: control.answers + done.done)
        recovery = recovery_of(job, parts)
        context.progress.recovered(recovery)
        announcements.recovery(recovery)
        folder = self._query_folder(stored, recovery.document)
        watchdog.enter("the start of the source", START_SECONDS)
        group_offsets = self._group(prepared)
        started = start(job, parts, recovery, group_offsets=group_offsets, stack=context.stack)
        announcements.left_behind(recovery, started.enumerator.offsets)
        self._measure_lag(started.enumerator, started.coordinator.document)
        self._sweep_orphans(control, started.coordinator)
        self._watch_credentials(security)
        spans, lineage = self._trace(started.coordinator), self._lineage(started.enumerator)
        return Attempt(
            context=context, session=prepared.session, folder=folder, claim=self._claim,
            control=control, consumer=config, enumerator=started.enumerator, coordinator=started.coordinator,
            group_offsets=group_offsets, retainer=started.retainer, announcements=announcements,
            subtasks=subtasks, spans=spans, lineage=lineage,
        )  # fmt: skip

    def _state_store(self) -> ObjectStore | None:
        """Where the operators of the transform keep their state, if it is an object store."""
        spec = self.job.spec
        if spec.state_s3 is None or chosen_engine(spec)[0] is not Engine.MICRO_BATCH:
            return None
        return ObjectStore.of(spec.state_s3, self.job.uid, self._state_progress)

    def _state(self, stored: ObjectStore | None) -> tuple[EngineTexts, StateOfCheckpoints | None]:
        """Reads the engine's part of documents, and keeps the state of earlier checkpoints."""
        environment = self._context.environment
        on_volume = environment.stateful_allowed and self.job.spec.state_s3 is None
        folder = environment.folder if on_volume else None
        kept = retained_state_of(self.job, self._claim, environment.retained, folder=folder, stored=stored)
        texts = QueryState(folder, self._state_progress) if stored is None else StoredQueryState(stored)
        return texts, kept

    def _query_folder(self, stored: ObjectStore | None, document: CheckpointDocument) -> StateFolder:
        """The folder of the attempt's query, with the state that the document names."""
        job, environment, progress = self.job, self._context.environment, self._state_progress
        self._context.watchdog.enter("the copy of query state", CODE_SECONDS, progress=lambda: progress.done)
        if stored is not None:
            return prepared(job, stored, document)
        allowed = environment.stateful_allowed
        path = query_folder(job, environment.folder, document, stateful_allowed=allowed, progress=progress)
        return LocalQueryFolder(path)

    def _checked_clusters(self, configs: OfClusters) -> JobClusters:
        """The brokers, after the check that they are the checkpoint's and have what the job needs."""
        job = self._context.job
        clusters = JobClusters.opened(job, configs)
        self._context.stack.callback(clusters.close)
        refuse_other_cluster(job, self._context.environment.store, clusters.ids)
        checks.check_rights(job, clusters, configs)
        show_durability(job, clusters.sink, self._context.reporter)
        try:
            checks.check_kafka(job, clusters)
        except TopicNotFound as error:
            self._enter_import()
            raise with_code_error(error, job) from error
        return clusters

    def _enter_import(self) -> None:
        self._context.watchdog.enter("the import of the transform's module", CODE_SECONDS)

    def _serve_metrics(self) -> None:
        port = self._context.job.spec.metrics_port
        if not port:
            return
        from sparkapp.spark.reporting.metrics import MetricsEndpoint  # while the JVM comes up

        try:
            self._context.stack.callback(MetricsEndpoint(self._context.job, self._context.progress, port=port).close)
        except OSError as error:
            # The job itself needs no metrics.
            LOG.warning("metrics cannot be served: %s", error)
            message = (
                f"port {port} of the driver's pod cannot be opened ({error}): set another spec.metrics.prometheus.port"
            )
            self._context.reporter.warn(DriverEvent.METRICS_UNAVAILABLE, message)

    def _trace(self, coordinator: CheckpointCoordinator | LocalCoordinator) -> CheckpointSpans | None:
        opened = open_spans(self._context.job)
        if opened is None:
            return None
        spans, close = opened
        self._context.stack.callback(close)
        spans.recovered(coordinator.document)
        if isinstance(coordinator, CheckpointCoordinator):
            coordinator.observe = spans.at
        return spans

    def _lineage(self, enumerator: KafkaSourceEnumerator) -> AttemptLineage | None:
        opened = open_lineage(self._context.job, lambda: {partition.topic for partition in enumerator.offsets})
        if opened is None:
            return None
        lineage, close = opened
        self._context.stack.callback(close)
        return lineage

    def _group(self, prepared: Prepared) -> OffsetCommitter | GroupMembership:
        """The membership of a job that the group assigns partitions to; else what commits the group's offsets."""
        if self._context.job.spec.source.group_membership.subscribes:
            return self._membership(prepared.clusters.source, prepared.security.source)
        committer = offset_committer(
            self._context.job, prepared.configs.source, self._claim, self._context.progress, prepared.connection
        )
        self._context.stack.callback(committer.close)
        return committer

    def _membership(self, cluster: KafkaClusterView, security: Mapping[str, str]) -> GroupMembership:
        job = self._context.job
        source = job.spec.source
        membership = GroupMembership(
            cluster=cluster, callback=self._context.progress,
            initializer=starting_initializer(source.startup, warn=self._context.reporter.warn),
            tell=lambda reason, message, warning: self._context.reporter.event(reason, message, warning=warning),
            changed=self._context.progress.rebalanced,
        )  # fmt: skip
        member = KafkaGroupMember(
            group_member_config(job, security=security), membership=membership, options=source.group_membership
        )
        self._context.stack.callback(member.close)
        return membership

    def _measure_lag(self, enumerator: KafkaSourceEnumerator, document: CheckpointDocument) -> None:
        starts = [f"{partition} at {offset}" for partition, offset in sorted(enumerator.offsets.items())]
        LOG.info("reading %d partitions: %s", len(starts), ", ".join(starts[:_PARTITIONS_SHOWN]))
        lag = LagClock(enumerator, self._context.progress)
        self._context.progress.started(document, lambda: lag.pending, lambda: lag.look)
        lag.start()
        self._context.stack.callback(lag.close)

    def _sweep_orphans(
        self, control: KafkaTransactionControl, coordinator: CheckpointCoordinator | LocalCoordinator
    ) -> None:
        spec = self._context.job.spec
        if not spec.sink.delivery_guarantee.transactional:
            return
        time_used = TransactionTime(spec.sink, commit_interval_millis=spec.commit_interval_millis)
        sweep = control.orphan_sweep(coordinator, time_used.shown_by(self._context.progress, self._context.reporter))
        sweep.start(after=_SWEEP_AFTER_SECONDS)
        self._context.stack.callback(sweep.close)

    def _watch_credentials(self, current: OfClusters) -> None:
        if not any(current):
            return
        job, environment = self._context.job, self._context.environment
        secrets = f"the Secrets of {' and '.join(cluster.field for cluster in job.spec.clusters)}"

        def changed() -> None:
            message = f"{secrets} have new content: the driver drains, and the next attempt uses it"
            LOG.info("%s", message)
            self._context.reporter.event(DriverEvent.CREDENTIALS_CHANGED, message)
            self._context.reporter.update(state=DriverState.DRAINING)
            self._rotate()

        def refused(error: KafkaSparkJobError) -> None:
            message = (
                f"the new content of {secrets} cannot be used, and the clients keep the old content:"
                f" {error.message}; {error.remedy}"
            )
            LOG.warning("%s", message)
            self._context.reporter.warn(DriverEvent.CREDENTIALS_REFUSED, message)

        watch = CredentialsWatch(
            read=lambda: mounted_securities(job.spec, environment.credentials),
            current=current, check=partial(checks.check_credentials, job), changed=changed, refused=refused,
        )  # fmt: skip
        watch.start()
        self._context.stack.callback(watch.close)
