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
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.checkpoint.recovery.rolled_back import KafkaGroupMarks
from sparkapp.checkpoint.retained import CheckpointRetainer
from sparkapp.checkpoint.transaction_control import KafkaTransactionControl
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.kafka_cluster_view import KafkaClusterView
from sparkapp.clients.security.mounted import check_usable, mounted_security
from sparkapp.clients.security.rotation import CredentialsWatch
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.delivery_guarantee import DeliveryGuarantee
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.client.config import cluster_config, group_member_config
from sparkapp.model.job.spec import Job
from sparkapp.model.report import DriverState
from sparkapp.sink.checkpoint_commits import CheckpointCommits
from sparkapp.sink.committer import KafkaCommitter
from sparkapp.sink.pre_commit_check import PreCommitCheck
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.enumerator_of_job import enumerator_of
from sparkapp.source.formats.reader_schema import with_reader_schemas
from sparkapp.source.group.member import KafkaGroupMember
from sparkapp.source.group.membership import GroupMembership
from sparkapp.source.offset_committer import OffsetCommitter
from sparkapp.source.offsets_initializer import starting_initializer
from sparkapp.spark.attempt import Attempt
from sparkapp.spark.frames.transform import import_function
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
from sparkapp.spark.state import query_log
from sparkapp.spark.state.query_folder import query_folder

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
        self._watchdog.enter("the import of the transform's module", CODE_SECONDS)
        function = import_function(job.spec.transform)
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
        commits = CheckpointCommits(KafkaCommitter(client, None, describer=client), control.ends())
        self._stack.callback(commits.close)
        self._watchdog.enter("recovery", START_SECONDS, progress=lambda: sweeping.answers)
        recovery = self._recover(control, cluster, config)
        self._watchdog.enter("the start of the source", START_SECONDS)
        announcements = Announcements(job, self._reporter)
        announcements.recovery(recovery)
        folder = query_folder(
            job, self._environment.folder, recovery.document, stateful_allowed=self._environment.stateful_allowed
        )
        retainer = self._retainer(recovery)
        membership = self._membership(cluster, security)
        enumerator = self._started_enumerator(cluster, membership, recovery)
        group_offsets = membership if membership is not None else self._offset_committer(config)
        coordinator = (
            self._local_coordinator(recovery, config)
            if job.spec.has_local_pace
            else self._coordinator(recovery, enumerator, client, commits, group_offsets)
        )
        self._measure_lag(enumerator, coordinator.document)
        self._sweep_orphans(control, coordinator)
        self._watch_credentials(security)
        return Attempt(
            job=job, environment=self._environment, draining=self._draining, watchdog=self._watchdog,
            session=session, folder=folder, function=function, claim=self._claim, control=control,
            consumer=config, enumerator=enumerator, coordinator=coordinator, group_offsets=group_offsets,
            retainer=retainer, reporter=self._reporter, progress=self._progress, announcements=announcements,
        )  # fmt: skip

    def _checked_cluster(self, config: Mapping[str, str]) -> KafkaClusterView:
        """The brokers, after the check that they are the checkpoint's and have what the job needs."""
        cluster = checks.cluster_view(config)
        self._stack.callback(cluster.close)
        refuse_other_cluster(self._job, self._environment.store, cluster.cluster_id())
        checks.check_rights(self._job, cluster, config)
        show_durability(self._job, cluster, self._reporter)
        checks.check_kafka(self._job, cluster)
        return cluster

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

    def _recover(
        self, control: KafkaTransactionControl, cluster: KafkaClusterView, config: Mapping[str, str]
    ) -> Recovery:
        recovery = recover(
            self._job, store=self._environment.store, control=control, now=now(), retained=self._environment.retained,
            engine=query_log, cluster_id=cluster.cluster_id(), marks=KafkaGroupMarks(self._job, config, cluster),
        )  # fmt: skip
        LOG.info(
            "recovered checkpoint %d: committed %d transactions of previous attempts, aborted %d",
            recovery.document.checkpoint_id, recovery.committed, recovery.aborted,
        )  # fmt: skip
        self._progress.recovered(recovery)
        return recovery

    def _coordinator(
        self,
        recovery: Recovery,
        enumerator: KafkaSourceEnumerator,
        client: TransactionClient,
        commits: CheckpointCommits,
        group_offsets: OffsetCommitter | GroupMembership,
    ) -> CheckpointCoordinator:
        coordinator = CheckpointCoordinator(
            self._job, store=self._environment.store, document=recovery.document, version=recovery.version,
            pre_commits=PreCommitCheck(client), commits=commits, group_offsets=group_offsets, now=now,
        )  # fmt: skip
        coordinator.begin(enumerator.unplanned(), enumerator.stops, enumerator.topic_ids)
        return coordinator

    def _local_coordinator(self, recovery: Recovery, config: Mapping[str, str]) -> LocalCoordinator:
        source, prefix = self._job.spec.source, self._job.spec.sink.transactional_id_prefix
        evidence = GroupOffsetsEvidence(config, group_id=source.group_id, confirm_as=offsets_id(prefix))
        return LocalCoordinator(
            self._job, store=self._environment.store, document=recovery.document, version=recovery.version,
            evidence=evidence, now=now,
        )  # fmt: skip

    def _retainer(self, recovery: Recovery) -> CheckpointRetainer | None:
        """Keeps earlier checkpoints; None for a member of a consumer group, whose offsets are the group's."""
        if self._job.spec.source.group_membership.subscribes:
            return None
        retainer = CheckpointRetainer(
            self._environment.retained, job_uid=self._job.uid, retention=self._job.spec.retention,
            latest=recovery.document.checkpoint_id, tell=self._reporter.warn,
        )  # fmt: skip
        self._stack.callback(retainer.close)
        return retainer

    def _membership(self, cluster: KafkaClusterView, security: Mapping[str, str]) -> GroupMembership | None:
        """The consumer group that assigns partitions to the job; None if the job reads all of them."""
        source = self._job.spec.source
        if not source.group_membership.subscribes:
            return None
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

    def _started_enumerator(
        self, cluster: KafkaClusterView, membership: GroupMembership | None, recovery: Recovery
    ) -> KafkaSourceEnumerator:
        enumerator = enumerator_of(self._job.spec, cluster, warn=self._reporter.warn, membership=membership)
        restored = recovery.document
        is_same_end = restored.stopping == self._job.spec.source.stopping.fingerprint
        enumerator.start(
            None if recovery.first_start else restored.offsets,
            restored.stops if is_same_end else None,
            restored.topic_ids,
        )
        return enumerator

    def _offset_committer(self, config: Mapping[str, str]) -> OffsetCommitter:
        committer = offset_committer(self._job, config, self._claim, self._progress)
        self._stack.callback(committer.close)
        return committer

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
