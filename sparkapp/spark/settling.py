"""The last attempt of a job that is being deleted: it settles the transactions of earlier attempts and ends (ADR 27).

The operator starts it with ``sink.transactions.timeoutSeconds: 0`` if the last driver did not end in order. Then no
broker ends the transactions that are open. The attempt is the start of any attempt, up to the end of recovery. No Spark
starts, no user code runs and no topic is checked: the cause of an earlier failure must not stop it. The checkpoint that
it has settled is retained before the document is drained, because a snapshot of the job may follow (ADR 117).

With ``spec.deletion.state: Delete`` one more such attempt removes the query state (ADR 101).
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from sparkapp.checkpoint.claim import Claim
from sparkapp.checkpoint.recovery.recovery import recover
from sparkapp.checkpoint.recovery.rolled_back import KafkaGroupMarks
from sparkapp.checkpoint.retained import CheckpointRetainer, RetainedStore, StateOfCheckpoints
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.job.client.config import OfClusters, client_configs
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.spec import Job
from sparkapp.model.report import SETTLED, STATE_REMOVED, AttemptOutcome, Termination, termination_of
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from sparkapp.spark.preflight.job_clusters import JobClusters
from sparkapp.spark.reporting.reporter import now
from sparkapp.spark.state.object_store.removed_state import remove_stored_state
from sparkapp.spark.state.object_store.retained_state import retained_state_of
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.removed_state import remove_state
from sparkapp.spark.state.retained_state import QueryState

LOG = logging.getLogger(__name__)


def settle(
    job: Job, *, store: CheckpointStore, retained: RetainedStore, credentials: Path, folder: Path | None = None
) -> Termination:
    """Commits what the document names, aborts what else is open, retains the checkpoint, and drains the document.

    Called by ``sparkapp.__main__`` for a job with ``settles_only``. Every error ends here as a termination message.

    :param credentials: folder of the mounted credentials.
    :param folder: of the job's queries, on the volume; None for a job without a volume.
    """
    # The checkpoint to go back to is of no use to a deleted job, and might be gone.
    job = replace(job, spec=replace(job.spec, restore=Restore()))
    try:
        stored = None if job.spec.state_s3 is None else ObjectStore.of(job.spec.state_s3, job.uid)
        with ExitStack() as stack:
            read = [read_security(cluster, credentials) for cluster in job.spec.clusters]
            configs = client_configs(job, OfClusters(read[0], read[-1]))
            clusters = JobClusters.opened(job, configs)
            stack.callback(clusters.close)
            client = TransactionClient(configs.sink)
            stack.callback(client.close)
            claim = Claim(store, job_uid=job.uid, attempt=job.attempt)
            recovery = recover(
                job, store=store, control=KafkaTransactionControl(job, client, configs.source, claim), now=now(),
                retained=retained, engine=QueryState(), clusters=clusters.ids,
                marks=KafkaGroupMarks(job, configs.source, clusters.source),
            )  # fmt: skip
            kept = retained_state_of(job, claim, retained, folder=folder, stored=stored)
            failures = [] if job.removes_state else _retained(job, recovery.document, claim, retained, kept)
            # The pod may be gone before the operator reads its termination message.
            drained = replace(recovery.document, drained=True)
            store.write(encode(drained), expected=recovery.version)
            removed = _removed(job, folder, stored, claim, retained) if job.removes_state else ""
    except Exception as error:
        what = "remove the state" if job.removes_state else "settle the transactions"
        LOG.exception("attempt %d could not %s", job.attempt, what)
        return termination_of(error, job=job)
    message = f"settled: {recovery.committed} transaction(s) committed, {recovery.aborted} aborted"
    message = "; ".join([*filter(None, [removed]), message, *failures])
    LOG.info("%s", message)
    return Termination(
        outcome=AttemptOutcome.DRAINED, reason=STATE_REMOVED if removed else SETTLED, message=message,
        checkpoint_id=drained.checkpoint_id,
    )  # fmt: skip


def _retained(
    job: Job, document: CheckpointDocument, claim: Claim, retained: RetainedStore, state: StateOfCheckpoints | None
) -> list[str]:
    """Why the settled checkpoint is not retained, as texts for people: empty where it is, or nothing asks for that."""
    if job.spec.source.group_membership.subscribes:
        return []
    failures: list[str] = []
    retainer = CheckpointRetainer(
        retained, claim=claim, retention=job.spec.retention, latest=document.checkpoint_id,
        tell=lambda _, message: failures.append(message), draining=lambda: True, state=state,
    )  # fmt: skip
    retainer.close(last=document)
    return failures


def _removed(job: Job, folder: Path | None, stored: ObjectStore | None, claim: Claim, retained: RetainedStore) -> str:
    """What was removed, as a text for people."""
    if stored is not None:
        return remove_stored_state(stored, attempt=job.attempt, claim=claim, retained=retained)
    return "" if folder is None else remove_state(folder, claim=claim, retained=retained)
