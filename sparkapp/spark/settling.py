"""The last attempt of a job that is being deleted: it settles the transactions of earlier attempts and ends (ADR 27).

The operator starts it with ``sink.transactions.timeoutSeconds: 0`` if the last driver did not end in order. Then no
broker ends the transactions that are open. The attempt is the start of any attempt, up to the end of recovery. No Spark
starts, no user code runs and no topic is checked: the cause of an earlier failure must not stop it.

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
from sparkapp.checkpoint.retained import RetainedStore
from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.checkpoint.codec import encode
from sparkapp.model.job.client.config import OfClusters, client_configs
from sparkapp.model.job.client.security_properties import read_security
from sparkapp.model.job.sections.retention import Restore
from sparkapp.model.job.spec import Job
from sparkapp.model.report import SETTLED, STATE_REMOVED, AttemptOutcome, Termination, termination_of
from sparkapp.sink.ending.transaction_control import KafkaTransactionControl
from sparkapp.spark.preflight.job_clusters import JobClusters
from sparkapp.spark.reporting.reporter import now
from sparkapp.spark.state.object_store.removed_state import remove_stored_state
from sparkapp.spark.state.object_store.store import ObjectStore
from sparkapp.spark.state.removed_state import remove_state
from sparkapp.spark.state.retained_state import QueryState

LOG = logging.getLogger(__name__)


def settle(
    job: Job, *, store: CheckpointStore, retained: RetainedStore, credentials: Path, folder: Path | None = None
) -> Termination:
    """Commits what the checkpoint document names, aborts what else is open, and marks the document as drained.

    Called by ``sparkapp.__main__`` for a job with ``settles_only``. Every error ends here as a termination message.

    :param credentials: folder of the mounted credentials.
    :param folder: of the job's queries, on the volume; None for a job without a volume.
    """
    # The checkpoint to go back to is of no use to a deleted job, and might be gone.
    job = replace(job, spec=replace(job.spec, restore=Restore()))
    try:
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
            # The pod may be gone before the operator reads its termination message.
            drained = replace(recovery.document, drained=True, created_at=now())
            store.write(encode(drained), expected=recovery.version)
            removed = _removed(job, folder, claim, retained) if job.removes_state else ""
    except Exception as error:
        what = "remove the state" if job.removes_state else "settle the transactions"
        LOG.exception("attempt %d could not %s", job.attempt, what)
        return termination_of(error, job=job)
    message = f"settled: {recovery.committed} transaction(s) committed, {recovery.aborted} aborted"
    message = f"{removed}; {message}" if removed else message
    LOG.info("%s", message)
    return Termination(
        outcome=AttemptOutcome.DRAINED, reason=STATE_REMOVED if removed else SETTLED, message=message,
        checkpoint_id=drained.checkpoint_id,
    )  # fmt: skip


def _removed(job: Job, folder: Path | None, claim: Claim, retained: RetainedStore) -> str:
    """What was removed, as a text for people."""
    if job.spec.state_s3 is None:
        return "" if folder is None else remove_state(folder, claim=claim, retained=retained)
    store = ObjectStore.of(job.spec.state_s3, job.uid)
    return remove_stored_state(store, attempt=job.attempt, claim=claim, retained=retained)
