"""The Kafka clusters of a checkpoint: its offsets, group and transactions mean nothing on others."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import NamedTuple

from sparkapp.checkpoint.store import CheckpointStore
from sparkapp.model import commands
from sparkapp.model.checkpoint.codec import decode
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from sparkapp.model.errors import ClusterChanged, ConfigurationError
from sparkapp.model.job.sections.kafka import SINK_CLUSTER, KafkaCluster
from sparkapp.model.job.spec import Job

LOG = logging.getLogger(__name__)


class ClusterIds(NamedTuple):
    """Kafka's ids of a job's clusters; empty where they are not known.

    :ivar source: of offsets and group.
    :ivar sink: of transactions; the same id for a job with one cluster.
    """

    source: str
    sink: str

    @property
    def other_sink(self) -> str:
        """As documents have it: empty where transactions and offsets are on one cluster."""
        return self.sink if self.sink != self.source else ""


def refuse_other_cluster(job: Job, store: CheckpointStore, ids: ClusterIds) -> None:
    """Called by the driver before it looks for topics, which another cluster may lack. Writes nothing.

    :param ids: of the brokers that answer.
    :raises ClusterChanged: the checkpoint or the spec is of another cluster.
    :raises ConfigurationError: ``spec.sink.kafka`` reaches the cluster of the source.
    :raises CheckpointError: the document cannot be read.
    """
    if job.spec.sink.kafka is not None and ids.source and ids.sink == ids.source:
        msg = (
            f"spec.sink.kafka.bootstrapServers {job.spec.sink.kafka.bootstrap_servers} reaches the cluster of"
            f" spec.kafka, {ids.source}: within one cluster the group's offsets belong into the transactions"
        )
        remedy = f"correct its bootstrapServers, or remove it:\n{commands.patch(job, {'sink': {'kafka': None}})}"
        raise ConfigurationError(msg, remedy=remedy)
    text = store.read().text
    if text is None:
        refuse_other_than_named(job, ids)
    else:
        on_clusters(decode(text, job_uid=job.uid), job, ids)


def refuse_other_than_named(job: Job, ids: ClusterIds) -> None:
    """
    :raises ClusterChanged: ``clusterId`` of ``spec.kafka`` or ``spec.sink.kafka`` names another cluster than that of
        the brokers.
    """
    for cluster, cluster_id in zip(job.spec.clusters, ids, strict=False):
        if cluster.cluster_id and cluster_id and cluster.cluster_id != cluster_id:
            msg = (
                f"{cluster.field}.clusterId is {cluster.cluster_id}, and {cluster.field}.bootstrapServers"
                f" {cluster.bootstrap_servers} reaches the cluster {cluster_id}"
            )
            remedy = f"correct one of the two, for instance:\n{_named(job, cluster, cluster_id)}"
            raise ClusterChanged(msg, remedy=remedy)


def on_clusters(document: CheckpointDocument, job: Job, ids: ClusterIds) -> CheckpointDocument:
    """The document for the brokers' clusters. Pure; called by recovery before the claim.

    A document of an earlier release without an id gets the id. A job moves to another cluster only where its spec names
    that cluster. Everything must be settled that the previous cluster alone can settle or prove. The offsets that a new
    cluster mirrors of the group may be old.

    :raises ClusterChanged: the document or the spec is of another cluster.
    """
    refuse_other_than_named(job, ids)
    known = ClusterIds(document.cluster_id, document.sink_cluster_id or document.cluster_id)
    moves_source, moves_sink = (bool(new and old and new != old) for new, old in zip(ids, known, strict=True))
    source, sink = job.spec.kafka, job.spec.sink_cluster
    if moves_source and source.cluster_id != ids.source:
        msg = f"{_difference(document, known.source, source, ids.source)}: its offsets mean nothing there"
        move = _named(job, source, ids.source)
        raise ClusterChanged(msg, remedy=_REMEDY.format(move=move, again=commands.create_again(job)))
    if moves_sink and sink.cluster_id != ids.sink:
        msg = f"{_difference(document, known.sink, sink, ids.sink)}: its earlier records are on the previous cluster"
        raise ClusterChanged(msg, remedy=_SINK_REMEDY.format(field=sink.field, move=_named(job, sink, ids.sink)))
    if moves_source or moves_sink:
        moved = (sink, known.sink, ids.sink) if moves_sink else (source, known.source, ids.source)
        difference, what = _difference(document, moved[1], moved[0], moved[2]), _unsettled(document, job, moves_sink)
        if what:
            msg = f"{difference}: {what} on the previous cluster alone"
            remedy = _UNSETTLED.format(field=moved[0].field, again=commands.create_again(job))
            raise ClusterChanged(msg, remedy=remedy)
        LOG.warning("%s: the job resumes there, as %s.clusterId says", difference, moved[0].field)
        # The offsets of a local pace that has ended in order are exact. A mirrored group may be behind them.
        topic_ids = {} if moves_source else document.topic_ids
        document = replace(document, topic_ids=topic_ids, local=None, evidence_group="")
    present = ClusterIds(ids.source or known.source, ids.sink or known.sink)
    return replace(document, cluster_id=present.source, sink_cluster_id=present.other_sink)


def _unsettled(document: CheckpointDocument, job: Job, moves_sink: bool) -> str:
    """What the previous cluster alone can settle; empty for nothing.

    :param moves_sink: the cluster of the transactions changes. Where the source's alone does, transactions whose
        evidence is in its group need it, too.
    """
    count, local = len(document.committables), document.local
    if count and (moves_sink or document.evidence_group):
        return f"{count} transaction(s) of it can be settled"
    if local is not None and not local.ended:
        return "how far its subtasks have committed is known"
    has_other_sink = document.sink_cluster_id or job.spec.sink.kafka is not None
    is_unproven = moves_sink and has_other_sink and document.sink_topics
    return "the ends of its transactions can be proven" if is_unproven else ""


def _difference(document: CheckpointDocument, known: str, cluster: KafkaCluster, cluster_id: str) -> str:
    role = "writes to" if cluster.field == SINK_CLUSTER else "is of"
    return (
        f"checkpoint {document.checkpoint_id} {role} Kafka cluster {known}, and {cluster.field}.bootstrapServers"
        f" {cluster.bootstrap_servers} reaches the cluster {cluster_id}"
    )


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
        f"or, if this cluster is a mirror with the same offsets:\n{_named(job, job.spec.kafka, cluster_id)}"
    )
    raise ClusterChanged(msg, remedy=remedy)


def _named(job: Job, cluster: KafkaCluster, cluster_id: str) -> str:
    named = {"kafka": {"clusterId": cluster_id}}
    return commands.patch(job, {"sink": named} if cluster.field == SINK_CLUSTER else named)


_REMEDY = (
    "set spec.kafka.bootstrapServers to the brokers of the checkpoint's cluster\n"
    "or, if the new cluster is a mirror with the same offsets:\n{move}\n"
    "or start there from spec.source.startup:\n{again}"
)
_SINK_REMEDY = (
    "set {field}.bootstrapServers to the brokers of the previous cluster\n"
    "or, if later records belong on the new cluster:\n{move}"
)
_UNSETTLED = (
    "set {field}.bootstrapServers back, let the job run, suspend it (spec.suspend: true), then move it\n"
    "or, if the previous cluster no longer exists, start from spec.source.startup:\n{again}"
)
