"""The Kafka cluster of a checkpoint: its offsets, group and transactions mean nothing on another cluster."""

from __future__ import annotations

import logging
from dataclasses import replace

from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model import commands
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.errors import ClusterChanged
from sparkapp.model.job.spec import Job

LOG = logging.getLogger(__name__)


def refuse_other_cluster(job: Job, store: CheckpointStore, cluster_id: str) -> None:
    """Called by the driver before it looks for topics, which another cluster may lack. Writes nothing.

    :param cluster_id: of the brokers that answer; empty where it is not known.
    :raises ClusterChanged: the checkpoint or the spec is of another cluster.
    :raises CheckpointError: the document cannot be read.
    """
    text = store.read().text
    if text is None:
        refuse_other_than_named(job, cluster_id)
    else:
        on_cluster(decode(text, job_uid=job.uid), job, cluster_id)


def refuse_other_than_named(job: Job, cluster_id: str) -> None:
    """:raises ClusterChanged: ``spec.kafka.clusterId`` names another cluster than that of the brokers."""
    named = job.spec.kafka.cluster_id
    if named and cluster_id and named != cluster_id:
        msg = (
            f"spec.kafka.clusterId is {named}, and spec.kafka.bootstrapServers {job.spec.kafka.bootstrap_servers}"
            f" reaches the cluster {cluster_id}"
        )
        raise ClusterChanged(msg, remedy=f"correct one of the two, for instance:\n{_named(job, cluster_id)}")


def on_cluster(document: CheckpointDocument, job: Job, cluster_id: str) -> CheckpointDocument:
    """The document for the brokers' cluster. Pure; called by recovery before the claim.

    A document of an earlier release without an id gets the id. A job moves to another cluster only where its spec names
    that cluster, and only if everything is settled. The new cluster cannot settle transactions of the previous cluster,
    and the offsets that it mirrors of the group may be old.

    :param cluster_id: empty where it is not known; then nothing is checked.
    :raises ClusterChanged: the document or the spec is of another cluster.
    """
    refuse_other_than_named(job, cluster_id)
    if not cluster_id or document.cluster_id == cluster_id:
        return document
    if not document.cluster_id:
        LOG.info("the checkpoint is of Kafka cluster %s from now on", cluster_id)
        return replace(document, cluster_id=cluster_id)
    difference = (
        f"checkpoint {document.checkpoint_id} is of Kafka cluster {document.cluster_id}, and"
        f" spec.kafka.bootstrapServers {job.spec.kafka.bootstrap_servers} reaches the cluster {cluster_id}"
    )
    if job.spec.kafka.cluster_id != cluster_id:
        msg = f"{difference}: its offsets mean nothing there"
        raise ClusterChanged(msg, remedy=_REMEDY.format(move=_named(job, cluster_id), again=commands.create_again(job)))
    count = len(document.committables)
    what = f"{count} transaction(s) of it can be settled" if count else "how far its subtasks have committed is known"
    if count or (document.local is not None and not document.local.ended):
        msg = f"{difference}: {what} on the previous cluster alone"
        raise ClusterChanged(msg, remedy=_UNSETTLED.format(again=commands.create_again(job)))
    LOG.warning("%s: the job resumes there, as spec.kafka.clusterId says", difference)
    # The offsets of a local pace that has ended in order are exact. A mirrored group may be behind them.
    return replace(document, cluster_id=cluster_id, topic_ids={}, local=None, evidence_group="")


def refuse_snapshot_elsewhere(job: Job, name: str, snapshot: RetainedCheckpoint, cluster_id: str) -> None:
    """Called by recovery before the claim, where an attempt begins at a snapshot.

    :param name: of the snapshot. :param cluster_id: of the brokers; empty where it is not known.
    :raises ClusterChanged: the snapshot is of another cluster, and the spec does not name the brokers' cluster.
    """
    if not cluster_id or snapshot.cluster_id in {"", cluster_id} or job.spec.kafka.cluster_id == cluster_id:
        return
    msg = (
        f"snapshot {name} is of Kafka cluster {snapshot.cluster_id}, and spec.kafka.bootstrapServers"
        f" {job.spec.kafka.bootstrap_servers} reaches the cluster {cluster_id}: its offsets mean nothing there"
    )
    remedy = (
        "set spec.kafka.bootstrapServers to the brokers of the snapshot's cluster\n"
        f"or, if this cluster is a mirror with the same offsets:\n{_named(job, cluster_id)}"
    )
    raise ClusterChanged(msg, remedy=remedy)


def _named(job: Job, cluster_id: str) -> str:
    return commands.patch(job, {"kafka": {"clusterId": cluster_id}})


_REMEDY = (
    "set spec.kafka.bootstrapServers to the brokers of the checkpoint's cluster\n"
    "or, if the new cluster is a mirror with the same offsets:\n{move}\n"
    "or start there from spec.source.startup:\n{again}"
)
_UNSETTLED = (
    "set spec.kafka.bootstrapServers back, let the job run, suspend it (spec.suspend: true), then move it\n"
    "or, if the previous cluster no longer exists, start from spec.source.startup:\n{again}"
)
