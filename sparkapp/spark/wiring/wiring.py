"""Checks, recovers and connects the parts of one attempt: the order of a start."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.group_offsets import offset_committer
from sparkapp.checkpoint.recovery.cluster_identity import refuse_other_cluster
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.security.mounted import check_usable, mounted_security
from sparkapp.clients.security.rotation import CredentialsWatch
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaSparkJobError, TopicNotFound
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.client.config import cluster_config, group_member_config
from sparkapp.model.job.spec import Job
from sparkapp.model.report import DriverState
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.formats.reader_schema import with_reader_schemas
from sparkapp.source.group.member import KafkaGroupMember
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.offsets_initializer import starting_initializer
from sparkapp.spark.attempt import Attempt
from sparkapp.spark.frames.transform import check_code
from sparkapp.spark.launch.environment import DriverEnvironment
from sparkapp.spark.launch.session import Spark
from sparkapp.spark.preflight import checks
from sparkapp.spark.preflight.durability import show_durability
from sparkapp.spark.reporting.announcements import Announcements
from sparkapp.spark.reporting.lag_clock import LagClock
from sparkapp.spark.reporting.liveness import CODE_SECONDS, START_SECONDS, Watchdog
from sparkapp.spark.reporting.progress import Progress
from sparkapp.spark.reporting.reporter import Reporter, now
from sparkapp.spark.reporting.transaction_time import TransactionTime
from sparkapp.spark.state.state_store_files import query_folder
from sparkapp.spark.wiring.code_errors import with_code_error
from sparkapp.spark.wiring.start import Parts, group_evidence, recovery_of, start

LOG = logging.getLogger(__name__)

_PARTITIONS_SHOWN = 100


class Wiring:
    """Builds one :class:`Attempt`; made by the driver.

    :param draining: set when a stop is asked for.
    :param rotate: asks for a stop because the job's Secrets have new content.
    :param watchdog: gets each step of the start.
    :param stack: closes clients and threads at the attempt's end.
    """

    def __init__(
        self,
        job: Job,
        environment: DriverEnvironment,
        *,
        claim: Claim,
        reporter: Reporter,
        progress: Progress,
        draining: threading.Event,
        rotate: Callable[[], None],
        watchdog: Watchdog,
        stack: ExitStack,
    ) -> None:
        self._job = job
        self._environment = environment
        self._claim = claim
        self._reporter = reporter
        self._progress = progress
        self._draining = draining
        self._rotate = rotate
        self._watchdog = watchdog
        self._stack = stack

    def build(self, start_session: Callable[[], Future[Spark]]) -> Attempt:
        """Checks brokers and code, starts Spark, recovers the job and connects the parts; produces no record.

        :param start_session: called after the checks. The JVM takes seconds to come up, and recovery runs meanwhile.
        :raises KafkaSparkJobError: why the attempt cannot start.
        """
        security = mounted_security(self._job.spec.kafka, self._environment.credentials)
        check_usable(security)
        config = checks.checked_consumer_config(self._job, security=security)
        self._watchdog.enter("the checks of brokers, rights and schemas", START_SECONDS)
        cluster = self._checked_cluster(config)
        job = self._job = checks.with_record_limits(with_reader_schemas(self._job), cluster)
        self._enter_import()
        check_code(job.spec.transform)
        LOG.info("checked brokers and code")
        session = start_session()
        self._serve_metrics()
        self._reporter.update(state=DriverState.RECOVERING)
        # The coordinators that a checkpoint's check has asked are asked to commit it. The sweep may look others up.
        settings = cluster_config(job.spec.kafka, security=security, client_id=f"{job.namespace}.{job.name}")
        client, sweeping = TransactionClient(settings), TransactionClient(settings)
        for each in (client, sweeping):
            self._stack.callback(each.close)
        control = KafkaTransactionControl(job, sweeping, config, self._claim)
        parts = Parts(
            store=self._environment.store, retained=self._environment.retained, control=control, ends=control.ends(),
            client=client, cluster=cluster, config=config, evidence=group_evidence(job, config), now=now,
            warn=self._reporter.warn,
        )  # fmt: skip
        announcements = Announcements(job, self._reporter)
        self._watchdog.enter("recovery", START_SECONDS, progress=lambda: sweeping.answers)
        recovery = recovery_of(job, parts)
        self._progress.recovered(recovery)
        self._watchdog.enter("the start of the source", START_SECONDS)
        announcements.recovery(recovery)
        folder = query_folder(
            job, self._environment.folder, recovery.document, stateful_allowed=self._environment.stateful_allowed
        )
        group_offsets = self._group(cluster, config, security)
        started = start(job, parts, recovery, group_offsets=group_offsets, stack=self._stack)
        self._measure_lag(started.enumerator, started.coordinator.document)
        self._sweep_orphans(control, started.coordinator)
        self._watch_credentials(security)
        return Attempt(
            job=job, environment=self._environment, draining=self._draining, watchdog=self._watchdog,
            session=session, folder=folder, claim=self._claim, control=control,
            consumer=config, enumerator=started.enumerator, coordinator=started.coordinator,
            group_offsets=group_offsets, retainer=started.retainer, reporter=self._reporter,
            progress=self._progress, announcements=announcements,
        )  # fmt: skip

    def _checked_cluster(self, config: Mapping[str, str]) -> KafkaClusterView:
        """The brokers, after the check that they are the checkpoint's and have what the job needs."""
        cluster = checks.cluster_view(config)
        self._stack.callback(cluster.close)
        refuse_other_cluster(self._job, self._environment.store, cluster.cluster_id())
        checks.check_rights(self._job, cluster, config)
        show_durability(self._job, cluster, self._reporter)
        try:
            checks.check_kafka(self._job, cluster)
        except TopicNotFound as error:
            self._enter_import()
            raise with_code_error(error, self._job.spec.transform) from error
        return cluster

    def _enter_import(self) -> None:
        self._watchdog.enter("the import of the transform's module", CODE_SECONDS)

    def _serve_metrics(self) -> None:
        port = self._job.spec.metrics_port
        if not port:
            return
        from sparkapp.spark.reporting.metrics import MetricsEndpoint  # while the JVM comes up

        try:
            self._stack.callback(MetricsEndpoint(self._job, self._progress, port=port).close)
        except OSError as error:
            # The job itself needs no metrics.
            LOG.warning("metrics cannot be served: %s", error)
            message = (
                f"port {port} of the driver's pod cannot be opened ({error}): set another spec.metrics.prometheus.port"
            )
            self._reporter.warn(DriverEvent.METRICS_UNAVAILABLE, message)

    def _group(
        self, cluster: KafkaClusterView, config: Mapping[str, str], security: Mapping[str, str]
    ) -> OffsetCommitter | GroupMembership:
        """The membership of a job that the group assigns partitions to; else what commits the group's offsets."""
        if self._job.spec.source.group_membership.subscribes:
            return self._membership(cluster, security)
        committer = offset_committer(self._job, config, self._claim, self._progress)
        self._stack.callback(committer.close)
        return committer

    def _membership(self, cluster: KafkaClusterView, security: Mapping[str, str]) -> GroupMembership:
        source = self._job.spec.source
        membership = GroupMembership(
            cluster=cluster, callback=self._progress,
            initializer=starting_initializer(source.startup, warn=self._reporter.warn),
            tell=lambda reason, message, warning: self._reporter.event(reason, message, warning=warning),
            changed=self._progress.rebalanced,
        )  # fmt: skip
        member = KafkaGroupMember(
            group_member_config(self._job, security=security), membership=membership, options=source.group_membership
        )
        self._stack.callback(member.close)
        return membership

    def _measure_lag(self, enumerator: KafkaSourceEnumerator, document: CheckpointDocument) -> None:
        starts = [f"{partition} at {offset}" for partition, offset in sorted(enumerator.offsets.items())]
        LOG.info("reading %d partitions: %s", len(starts), ", ".join(starts[:_PARTITIONS_SHOWN]))
        lag = LagClock(enumerator, self._progress)
        self._progress.started(document, lambda: lag.pending)
        lag.start()
        self._stack.callback(lag.close)

    def _sweep_orphans(
        self, control: KafkaTransactionControl, coordinator: CheckpointCoordinator | LocalCoordinator
    ) -> None:
        if self._job.spec.sink.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return
        time_used = TransactionTime(self._job.spec.sink, commit_interval_millis=self._job.spec.commit_interval_millis)
        sweep = control.orphan_sweep(coordinator, time_used.shown_by(self._progress, self._reporter))
        sweep.start()
        self._stack.callback(sweep.close)

    def _watch_credentials(self, current: Mapping[str, str]) -> None:
        if not current:
            return

        def changed() -> None:
            message = "the Secrets of spec.kafka have new content: the driver drains, and the next attempt uses it"
            LOG.info("%s", message)
            self._reporter.event(DriverEvent.CREDENTIALS_CHANGED, message)
            self._reporter.update(state=DriverState.DRAINING)
            self._rotate()

        def refused(error: KafkaSparkJobError) -> None:
            message = (
                "the new content of the Secrets of spec.kafka cannot be used, and the clients keep the old content:"
                f" {error.message}; {error.remedy}"
            )
            LOG.warning("%s", message)
            self._reporter.warn(DriverEvent.CREDENTIALS_REFUSED, message)

        watch = CredentialsWatch(
            read=lambda: mounted_security(self._job.spec.kafka, self._environment.credentials),
            current=current, check=partial(checks.check_credentials, self._job), changed=changed, refused=refused,
        )  # fmt: skip
        watch.start()
        self._stack.callback(watch.close)
