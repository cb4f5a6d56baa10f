"""The order of a start behind its checks: recover, keep checkpoints, start the source, and begin to coordinate.

Nothing here needs Spark. The stories of the protocol start their attempts here, too, with parts that they watch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.coordinator import CheckpointCoordinator
from sparkapp.checkpoint.document_writer import DocumentWriter
from sparkapp.checkpoint.group_progress import GroupOffsets
from sparkapp.checkpoint.recovery.engine_texts import EngineTexts
from sparkapp.checkpoint.recovery.local_coordinator import LocalCoordinator
from sparkapp.checkpoint.recovery.recovery import Recovery, recover
from sparkapp.checkpoint.recovery.rolled_back import KafkaGroupMarks
from sparkapp.checkpoint.retained import CheckpointRetainer, RetainedStore, StateOfCheckpoints
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.clients.group_offsets import Evidence, GroupOffsetsEvidence
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.connection import KafkaConnection
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.spec import Job
from sparkapp.model.protocol import StepHook, no_hook
from sparkapp.sink.checkpoint_commits import CheckpointCommits
from sparkapp.sink.committer import KafkaCommitter
from sparkapp.sink.ending.proven_ends import ProvenEnds
from sparkapp.sink.ending.transaction_control import TransactionControl
from sparkapp.sink.pre_commit_check import PreCommitCheck
from sparkapp.source.enumerator.enumerator import KafkaSourceEnumerator
from sparkapp.source.enumerator.enumerator_of_job import enumerator_of
from sparkapp.source.group.membership import GroupMembership
from sparkapp.spark.preflight.job_clusters import JobClusters

LOG = logging.getLogger(__name__)

Warn = Callable[[DriverEvent, str], None]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What an attempt reaches the outside with.

    :param store: the job's document. :param retained: its earlier checkpoints.
    :param state: the query state of earlier checkpoints; None for a job that may keep none.
    :param engine: reads the engine's part of documents.
    :param control: ends the transactions of previous attempts.
    :param ends: proves the ends of this attempt's transactions.
    :param client: asks coordinators about this attempt's transactions.
    :param clusters: partitions and offsets. :param config: of the job's consumers.
    :param evidence: the group's offsets, for a job of the local pace.
    :param connection: to the source's cluster, for the group's marks; None for a connection of each question.
    :param now: gives RFC 3339 times. :param warn: gets events.
    :param draining: whether a stop is asked for.
    :param hook: called at each step of a checkpoint.
    """

    store: CheckpointStore
    retained: RetainedStore
    engine: EngineTexts
    control: TransactionControl
    ends: ProvenEnds
    client: TransactionClient
    clusters: JobClusters
    config: Mapping[str, str]
    evidence: Evidence
    now: Callable[[], str]
    warn: Warn
    draining: Callable[[], bool]
    state: StateOfCheckpoints | None = None
    connection: KafkaConnection | None = None
    hook: StepHook = no_hook


@dataclass(frozen=True, kw_only=True)
class Started:
    """An attempt that may begin its first checkpoint.

    :param retainer: keeps earlier checkpoints; None for members of a consumer group.
    """

    retainer: CheckpointRetainer | None
    enumerator: KafkaSourceEnumerator
    coordinator: CheckpointCoordinator | LocalCoordinator


def start(
    job: Job,
    parts: Parts,
    recovery: Recovery,
    *,
    group_offsets: GroupOffsets,
    stack: ExitStack,
) -> Started:
    """Called once an attempt, behind :func:`recovery_of`; produces no record.

    :param group_offsets: moves the group's offsets; for a member of the group its membership. It is made behind the
        recovery, when previous attempts are fenced.
    :param stack: closes what the attempt leaves open.
    :raises KafkaSparkJobError: why the attempt cannot start.
    """
    retainer = _retainer(job, parts, recovery, stack)
    membership = group_offsets if isinstance(group_offsets, GroupMembership) else None
    enumerator = enumerator_of(job.spec, parts.clusters.source, warn=parts.warn, membership=membership)
    restored = recovery.document
    is_same_end = restored.stopping == job.spec.source.stopping.fingerprint
    enumerator.start(
        None if recovery.first_start else restored.offsets,
        restored.stops if is_same_end else None,
        restored.topic_ids,
    )
    coordinator = (
        local_coordinator(job, parts, recovery)
        if job.spec.has_local_pace
        else _coordinator(job, parts, recovery, enumerator, group_offsets=group_offsets, stack=stack)
    )
    return Started(retainer=retainer, enumerator=enumerator, coordinator=coordinator)


def group_evidence(job: Job, config: Mapping[str, str]) -> GroupOffsetsEvidence:
    """The group's offsets as a job of the local pace reads them."""
    prefix = job.spec.sink.transactional_id_prefix
    return GroupOffsetsEvidence(config, group_id=job.spec.source.group_id, confirm_as=offsets_id(prefix))


def recovery_of(job: Job, parts: Parts) -> Recovery:
    """See :func:`sparkapp.checkpoint.recovery.recovery.recover`."""
    recovery = recover(
        job, store=parts.store, control=parts.control, now=parts.now(), retained=parts.retained, engine=parts.engine,
        clusters=parts.clusters.ids,
        marks=KafkaGroupMarks(job, parts.config, parts.clusters.source, parts.connection),
    )  # fmt: skip
    LOG.info(
        "recovered checkpoint %d: committed %d transactions of previous attempts, aborted %d",
        recovery.document.checkpoint_id, recovery.committed, recovery.aborted,
    )  # fmt: skip
    return recovery


def local_coordinator(job: Job, parts: Parts, recovery: Recovery) -> LocalCoordinator:
    """The coordinator of the local pace."""
    return LocalCoordinator(job, writer=_writer(parts, recovery), evidence=parts.evidence, now=parts.now)


def _writer(parts: Parts, recovery: Recovery) -> DocumentWriter:
    return DocumentWriter(parts.store, recovery.document, recovery.version)


def _coordinator(
    job: Job,
    parts: Parts,
    recovery: Recovery,
    enumerator: KafkaSourceEnumerator,
    *,
    group_offsets: GroupOffsets,
    stack: ExitStack,
) -> CheckpointCoordinator:
    commits = CheckpointCommits(
        PreCommitCheck(parts.client), KafkaCommitter(parts.client, None, describer=parts.client), parts.ends
    )
    stack.callback(commits.close)
    coordinator = CheckpointCoordinator(
        job, writer=_writer(parts, recovery), commits=commits, group_offsets=group_offsets, now=parts.now,
        hook=parts.hook,
    )  # fmt: skip
    coordinator.begin(enumerator.unplanned(), enumerator.stops, enumerator.topic_ids)
    return coordinator


def _retainer(job: Job, parts: Parts, recovery: Recovery, stack: ExitStack) -> CheckpointRetainer | None:
    # The offsets of a member are the group's, and no checkpoint goes back.
    if job.spec.source.group_membership.subscribes:
        return None
    claim = Claim(parts.store, job_uid=job.uid, attempt=job.attempt)
    retainer = CheckpointRetainer(
        parts.retained, claim=claim, retention=job.spec.retention, latest=recovery.document.checkpoint_id,
        tell=parts.warn, draining=parts.draining, state=parts.state,
    )  # fmt: skip
    stack.callback(retainer.close)
    return retainer
