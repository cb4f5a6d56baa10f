"""Which checkpoint of a job a snapshot holds: its transactions must be proven committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkasparkjob_operator.observation.observation import JobResource
from kafkasparkjob_operator.observation.state_view import StateView, state_view
from kafkasparkjob_operator.status.conditions import ConditionStatus
from kafkasparkjob_operator.status.snapshot_fields import SnapshotReason
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, checkpoint_of_key, retained
from sparkapp.model.checkpoint.retained_codec import decode_retained, decode_snapshot
from sparkapp.model.errors import CheckpointUnusable
from sparkapp.model.job.sections.retention import is_first_start
from sparkapp.model.partition import named
from sparkapp.model.report import Report

PROOF_SECONDS = 20.0
"""Time for the driver's report of a checkpoint that was seen open, or for the entry of an orderly stop.

Then the newest retained checkpoint is taken. A driver of an earlier release retains for 15 s behind its document.
"""
GIVE_UP_SECONDS = 300.0
"""Time after which a snapshot that waits is Failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObjects:
    """What a live look at the job of a snapshot has found; each is None where it does not exist.

    :param state: the state's ConfigMap, which was read before the report.
    :param checkpoints: the ConfigMap of the retained checkpoints.
    """

    job: JobResource | None
    state: Mapping[str, Any] | None = None
    checkpoints: Mapping[str, Any] | None = None
    report: Report | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The checkpoint that the snapshot takes.

    :param latest: number in the job's document, which may be later; 0 for an exported checkpoint.
    """

    checkpoint: RetainedCheckpoint
    latest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPinned:
    """The snapshot has no checkpoint yet.

    :param final: it never gets one.
    :param candidate: an open checkpoint that the driver's report may prove later.
    """

    reason: SnapshotReason
    message: str
    final: bool = False
    candidate: CheckpointDocument | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """Whether Kafka has the records behind a snapshot: the condition OffsetsRetained."""

    status: ConditionStatus
    reason: SnapshotReason
    message: str


def judge_retention(checkpoint: RetainedCheckpoint | None, report: Report | None) -> Retained:
    """Compares the offsets of a snapshot with the beginnings that a driver of its job reports.

    Called by the controller of snapshots, again and again: retention deletes at any time.

    :param checkpoint: of the snapshot; None where it has too many partitions, or its ConfigMap is gone.
    :param report: of a driver that runs; None where there is none.
    """
    known = None if report is None else report.beginnings
    if checkpoint is None or known is None:
        why = "too many partitions" if checkpoint is None else "no driver of the job reports where they begin"
        return _unknown(f"the partitions of the snapshot are not compared: {why}")
    if checkpoint.cluster_id and known.cluster_id and checkpoint.cluster_id != known.cluster_id:
        return _unknown(f"the job reads another Kafka cluster now: {known.cluster_id}")
    for topic, topic_id in sorted(checkpoint.topic_ids.items()):
        if topic_id != known.topic_ids.get(topic, topic_id):
            return _deleted(f"topic {topic} was created again after the snapshot")
    lost = sorted(each for each, offset in checkpoint.offsets.items() if known.offsets.get(each, -1) > offset)
    if lost:
        return _deleted(f"records behind the snapshot are deleted in {named(lost)}")
    others = sorted(checkpoint.offsets.keys() - known.offsets.keys())
    if others:
        return _unknown(f"the job does not read {named(others)} any more")
    message = f"Kafka has the records behind the snapshot in {len(checkpoint.offsets)} partition(s)"
    return Retained(status=ConditionStatus.TRUE, reason=SnapshotReason.HELD_BY_KAFKA, message=message)


def _unknown(message: str) -> Retained:
    return Retained(status=ConditionStatus.UNKNOWN, reason=SnapshotReason.RETENTION_UNKNOWN, message=message)


def _deleted(message: str) -> Retained:
    return Retained(status=ConditionStatus.FALSE, reason=SnapshotReason.RECORDS_DELETED, message=message)


def choose(
    found: JobObjects, *, name: str, job_uid: str, candidate: CheckpointDocument | None, waited: float
) -> Pinned | NotPinned:
    """Called by the controller of snapshots at each look.

    :param name: of the job.
    :param job_uid: of the job at the first look; empty before.
    :param candidate: of an earlier look.
    :param waited: seconds since an operator saw the snapshot first.
    """
    chosen: Pinned | NotPinned | None = _job_refusal(found.job, name=name, job_uid=job_uid)
    if chosen is None and found.job is not None:
        state = state_view(found.state, found.job.identity)
        document = state.document
        if document is not None and document.engine_has_state:
            chosen = _with_state(document, found, waited=waited)
        elif document is not None and document.checkpoint_id and not is_first_start(document):
            chosen = _proven(document, found, candidate=candidate, waited=waited)
        else:
            chosen = _state_refusal(state, name)
        if document is not None and isinstance(chosen, Pinned):
            chosen = replace(chosen, latest=document.checkpoint_id)
    assert chosen is not None, "a job that is not refused has a state"
    if isinstance(chosen, NotPinned) and not chosen.final and waited >= GIVE_UP_SECONDS:
        return replace(chosen, final=True)
    return chosen


def imported(text: str) -> Pinned | NotPinned:
    """The checkpoint of ``spec.checkpoint``, which anybody may have written.

    Called by the controller of snapshots.
    """
    try:
        return Pinned(checkpoint=decode_snapshot(text))
    except CheckpointUnusable as error:
        return NotPinned(reason=SnapshotReason.IMPORT_UNUSABLE, message=error.message, final=True)


def _job_refusal(job: JobResource | None, *, name: str, job_uid: str) -> NotPinned | None:
    if job is None:
        message = f"the namespace has no KafkaSparkJob {name}"
        return NotPinned(reason=SnapshotReason.JOB_NOT_FOUND, message=message, final=bool(job_uid))
    uid = job.identity.uid
    if job_uid not in {"", uid}:
        message = f"KafkaSparkJob {name} was created again: its UID is {uid}, and was {job_uid}"
        return NotPinned(reason=SnapshotReason.JOB_RECREATED, message=message, final=True)
    if _is_member(job.spec):
        message = "the consumer group has the offsets of the job, not a checkpoint"
        return NotPinned(reason=SnapshotReason.GROUP_HAS_OFFSETS, message=message, final=True)
    return None


def _state_refusal(state: StateView, name: str) -> NotPinned:
    """Why a state without a checkpoint cannot be copied."""
    if state.error is not None:
        return NotPinned(reason=SnapshotReason.STATE_UNREADABLE, message=state.error.message, final=True)
    message = f"KafkaSparkJob {name} has not completed a checkpoint yet"
    return NotPinned(reason=SnapshotReason.NO_CHECKPOINT, message=message)


def _proven(
    document: CheckpointDocument, found: JobObjects, *, candidate: CheckpointDocument | None, waited: float
) -> Pinned | NotPinned:
    """The newest checkpoint that is known to be complete: by itself, by the driver's report, or as it is retained."""
    if not document.committables:
        return Pinned(checkpoint=retained(document))
    for known in (candidate, document):
        if known is not None and _is_reported(known, found.report):
            return Pinned(checkpoint=retained(known))
    kept = _newest(found.checkpoints, document)
    if kept is not None and (kept.checkpoint_id == document.checkpoint_id or waited >= PROOF_SECONDS):
        return Pinned(checkpoint=kept)
    message = f"{len(document.committables)} transaction(s) of checkpoint {document.checkpoint_id} may still be open"
    if candidate is None or candidate.attempt != document.attempt:
        candidate = _provable(document)
    return NotPinned(reason=SnapshotReason.CHECKPOINT_OPEN, message=message, candidate=candidate)


def _with_state(document: CheckpointDocument, found: JobObjects, *, waited: float) -> Pinned | NotPinned:
    """The newest retained checkpoint with its state, which the driver has linked on the volume (ADR 83).

    An orderly stop has retained its last checkpoint, unless that failed (ADR 117).
    """
    kept = _newest(found.checkpoints, document)
    if kept is None:
        number = document.checkpoint_id
        message = f"no retained checkpoint up to checkpoint {number} has the state of the job's operators"
        return NotPinned(reason=SnapshotReason.STATE_NOT_RETAINED, message=message)
    if document.drained and kept.checkpoint_id < document.checkpoint_id and waited < PROOF_SECONDS:
        message = f"checkpoint {document.checkpoint_id} of the orderly stop is not retained yet"
        return NotPinned(reason=SnapshotReason.STATE_NOT_RETAINED, message=message)
    return Pinned(checkpoint=kept)


def may_keep_state(spec: Mapping[str, Any]) -> bool:
    """:attr:`sparkapp.model.job.spec.JobSpec.may_keep_state` of a resource, also of a spec that cannot be read.

    Called by the cache for each event of each job, which a reading of the whole spec would be too slow for.
    """
    for path in (("stateVolume", "claimName"), ("state", "storage", "s3")):
        found: Any = spec
        for name in ("checkpoint", *path):
            found = found.get(name) if isinstance(found, Mapping) else None
        if found:
            return True
    return False


def _is_member(spec: Mapping[str, Any]) -> bool:
    source = spec.get("source")
    membership = source.get("groupMembership") if isinstance(source, Mapping) else None
    return isinstance(membership, Mapping) and membership.get("mode") == "Subscribe"


def _provable(document: CheckpointDocument) -> CheckpointDocument | None:
    """The document, where its own attempt opened all its transactions.

    The next attempt may find that a transaction is lost, and then the offsets of the same number go back.
    """
    own = all(committable.attempt == document.attempt for committable in document.committables)
    return document if own else None


def _is_reported(document: CheckpointDocument, report: Report | None) -> bool:
    """Whether the attempt that wrote the document reports that it is complete: its transactions are committed.

    An attempt that loses a transaction ends, and completes no later checkpoint.
    """
    return (
        report is not None
        and report.attempt == document.attempt
        and report.checkpoint_id >= document.checkpoint_id
        and _provable(document) is not None
    )


def _newest(config_map: Mapping[str, Any] | None, document: CheckpointDocument) -> RetainedCheckpoint | None:
    """The newest retained checkpoint of the job that is not after the document, and has query state as the document."""
    texts = (config_map or {}).get("data") or {}
    numbers = {key: checkpoint_of_key(key) or 0 for key in texts}
    for key in sorted(texts, key=numbers.__getitem__, reverse=True):
        if 0 < numbers[key] <= document.checkpoint_id:
            try:
                found = decode_retained(str(texts[key]), key=key, job_uid=document.job_uid)
            except CheckpointUnusable:
                continue
            if bool(found.engine) == document.engine_has_state:
                return found
    return None
