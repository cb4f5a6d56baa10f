"""The first two steps of a restart: read and validate the document, then claim it for this attempt (ADR 113)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial

from sparkapp.checkpoint.recovery.cluster_identity import (
    ClusterIds,
    on_clusters,
    refuse_other_than_named,
    refuse_snapshot_elsewhere,
)
from sparkapp.checkpoint.recovery.document_tampering import refuse_lost_state, signs_of_edit
from sparkapp.checkpoint.recovery.engine_texts import EngineTexts
from sparkapp.checkpoint.recovery.restore import snapshot_of
from sparkapp.checkpoint.recovery.rolled_back import GroupMarks, refuse_older_state
from sparkapp.checkpoint.recovery.stateless import noted
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.store import CheckpointStore, Stored
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.commit_outcome import Mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.errors import CheckpointConflict, CheckpointError, CheckpointStoreUnavailable, KafkaSparkJobError
from sparkapp.model.job.sections.retention import due_snapshot
from sparkapp.model.job.spec import Job

LOG = logging.getLogger(__name__)

_TRIES = 5
"""Reads of the document. A frozen driver that resumes writes twice a checkpoint, so it hardly wins all of them."""


@dataclass(frozen=True, slots=True)
class ClaimedDocument:
    """A claimed document, and what was found when it was read.

    :param version: of the store, for the next write.
    :param latest: the job's last commit by its group.
    :param snapshot: the checkpoint of the snapshot that this attempt begins at; None for none.
    :param edited: evidence that somebody changed the document, as text for an event; empty without evidence.
    """

    document: CheckpointDocument
    version: str
    latest: Mark | None
    snapshot: RetainedCheckpoint | None
    edited: str


def claim_document(
    job: Job,
    *,
    store: CheckpointStore,
    now: str,
    retained: RetainedStore,
    engine: EngineTexts,
    clusters: ClusterIds,
    marks: GroupMarks,
) -> ClaimedDocument:
    """Reads the document and claims it; called by recovery, whose parameters and errors these are.

    The driver of an earlier attempt may have been frozen, and may complete a checkpoint meanwhile. So whatever refuses
    the start, a document that has changed since is read, validated and claimed again. Before the claim nothing was
    changed.

    :raises CheckpointConflict: a newer attempt owns the state, or another writer was faster each time.
    """
    once = partial(_claim, job, store, now=now, retained=retained, engine=engine, clusters=clusters, marks=marks)
    found, tries = store.read(), 1
    while True:
        try:
            return once(found)
        except CheckpointStoreUnavailable:
            raise  # The claim may be written. Another driver's with the same number has the same text.
        except KafkaSparkJobError as refused:
            if tries == _TRIES or (newer := _changed(store, found)) is None:
                raise
            LOG.warning("the document was changed before the claim, and is read again: %s", refused.message)
        found, tries = newer, tries + 1


def _changed(store: CheckpointStore, found: Stored) -> Stored | None:
    """What is there now; None where it is the same, or cannot be read: then the refusal stands."""
    try:
        now = store.read()
    except CheckpointError:
        return None
    return None if now == found else now


def _claim(
    job: Job,
    store: CheckpointStore,
    found: Stored,
    *,
    now: str,
    retained: RetainedStore,
    engine: EngineTexts,
    clusters: ClusterIds,
    marks: GroupMarks,
) -> ClaimedDocument:
    previous = None if found.text is None else _earlier(found.text, job)
    if previous is None:
        refuse_lost_state(job, retained)
        refuse_other_than_named(job, clusters)
    else:
        previous = on_clusters(previous, job, clusters)
    latest = refuse_older_state(previous, marks, job)
    snapshot = _due_snapshot(job, previous, clusters.source)
    edited = ""
    if previous is not None:
        engine.rewound(previous.engine)  # refuses a text that is not the engine's
        edited = signs_of_edit(previous, retained) if previous.local is None else ""
    own = _first(job, now, clusters) if previous is None else _next(job, previous)
    return ClaimedDocument(own, store.write(encode(own), expected=found.version), latest, snapshot, edited)


def _earlier(text: str, job: Job) -> CheckpointDocument:
    """:raises CheckpointConflict: this or a newer attempt has claimed the document."""
    document = decode(text, job_uid=job.uid)
    if document.attempt >= job.attempt:
        msg = f"attempt {document.attempt} has claimed the checkpoint, this is attempt {job.attempt}"
        raise CheckpointConflict(msg)
    return document


def _first(job: Job, now: str, clusters: ClusterIds) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid=job.uid, attempt=job.attempt, checkpoint_id=0, created_at=now, parallelism=job.spec.parallelism,
        prefix=job.spec.sink.transactional_id_prefix, redeploy_nonce=job.spec.restore.nonce,
        cluster_id=clusters.source, sink_cluster_id=clusters.other_sink, stateless=noted(job, None),
    )  # fmt: skip


def _next(job: Job, previous: CheckpointDocument) -> CheckpointDocument:
    """Parallelism stays the writer's: the committables' ranges are derived with it."""
    prefix = job.spec.sink.transactional_id_prefix
    prefixes = tuple(dict.fromkeys(other for other in previous.prefixes if other != prefix))
    return replace(previous, attempt=job.attempt, drained=False, prefix=prefix, previous_prefixes=prefixes)


def _due_snapshot(job: Job, previous: CheckpointDocument | None, cluster_id: str) -> RetainedCheckpoint | None:
    """The checkpoint of the snapshot that this attempt begins at; None for none.

    :raises CheckpointUnusable: it cannot be read. :raises ClusterChanged: it is of another cluster.
    """
    name = due_snapshot(job.spec.start_snapshot, job.spec.restore, previous, stateless=job.stateless)
    if not name or job.settles_only:
        return None
    snapshot = snapshot_of(job, name)
    refuse_snapshot_elsewhere(job, name, snapshot, cluster_id)
    return snapshot
