"""A state that is older than what the job has committed: recovery's check against the group's offsets (ADR 26)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from sparkapp.checkpoint.recovery.local_starts import GroupAnswer
from sparkapp.clients.cluster_view import ClusterView, known_topics
from sparkapp.clients.group_offsets import Evidence, GroupOffsetsEvidence
from sparkapp.clients.transactions.connection import KafkaConnection
from sparkapp.model import commands
from sparkapp.model.checkpoint.commit_outcome import GroupOffset, Mark
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import offsets_id
from sparkapp.model.checkpoint.rollback import is_older, latest_commit
from sparkapp.model.delivery_guarantee import OffsetCommitMode
from sparkapp.model.errors import KafkaAccessError, StateRolledBack
from sparkapp.model.job.spec import Job
from sparkapp.model.job.startup import StartupMode
from sparkapp.model.partition import TopicPartition
from sparkapp.source.enumerator.subscriber import subscriber_of

LOG = logging.getLogger(__name__)

_IN_A_REQUEST = 500
"""Partitions in one request: see ``clients.kafka_cluster_view``."""


class GroupMarks(Protocol):
    """The marks on the offsets that the job's group has committed."""

    def of(self, document: CheckpointDocument | None) -> Collection[str]:
        """Texts stored with the committed offsets, of any writer; empty where they cannot be read.

        :param document: whose partitions and group are meant; the spec's where it has none yet, or is None. Partitions
            that the job does not read any more are not meant: its user may have no right on them.
        :raises KafkaAccessError: the group could not be read, and the job's transactions need it.
        """
        ...

    def final(self, document: CheckpointDocument) -> GroupAnswer:
        """The final offsets of the document's group: earlier attempts are fenced.

        Asked once every transactional id is fenced. Of the partitions that exist and that the job reads by its spec.
        Its user may have no right on others.

        :raises KafkaAccessError: no stable answer in time; the next attempt asks again.
        """
        ...


class KafkaGroupMarks:
    """Asks the group's coordinator; made by the driver once an attempt.

    :param config: the job's consumer configuration.
    :param cluster: has the partitions that the job reads by its spec, for a first start.
    :param connection: to the cluster, for :meth:`of`; None for a connection of each call.
    """

    def __init__(
        self, job: Job, config: Mapping[str, str], cluster: ClusterView, connection: KafkaConnection | None = None
    ) -> None:
        self._job = job
        self._config = config
        self._cluster = cluster
        self._connection = connection

    def of(self, document: CheckpointDocument | None) -> Collection[str]:
        """See :meth:`GroupMarks.of`. Open transactions are not waited for: recovery has yet to end them."""
        source = self._job.spec.source
        mode = self._job.spec.offset_commit_mode
        if source.group_membership.subscribes or mode is OffsetCommitMode.DISABLED:
            # The group itself decides where partitions resume, or no offset has a mark.
            return ()
        subscriber = subscriber_of(source)
        known = [each for each in document.offsets if subscriber.matches(each)] if document is not None else []
        wanted = sorted(known or subscriber.partitions(self._cluster.topics()))
        groups = {source.group_id, document.evidence_group if document is not None else ""} - {""}
        try:
            return [mark for group in sorted(groups) for mark in self._marks(group, wanted)]
        except KafkaAccessError as error:
            if mode is OffsetCommitMode.IN_TRANSACTION:
                raise
            LOG.warning("the check for a rolled back state failed: %s", error.message)
            return ()

    def final(self, document: CheckpointDocument) -> GroupAnswer:
        """See :meth:`GroupMarks.final`. Behind a write, or a broker that was replaced could answer (ADR 44)."""
        subscriber = subscriber_of(self._job.spec.source)
        known = {each for each in document.offsets if subscriber.matches(each)}
        topics = known_topics(self._cluster, {partition.topic for partition in known})
        # A broker that lags lacks young partitions, and the document has only a lower bound of their offsets.
        there = known - self._cluster.gone(each for each in known if each.partition >= topics.get(each.topic, 0))
        read = there | subscriber.partitions(topics)
        new_ids = self._cluster.topic_ids(document.topic_ids.keys() & {partition.topic for partition in read})
        recreated = {topic for topic, new_id in new_ids.items() if document.topic_ids[topic] != new_id}
        wanted = sorted(partition for partition in read if partition.topic not in recreated)
        evidence = GroupOffsetsEvidence(
            self._config, group_id=document.evidence_group, confirm_as=offsets_id(document.prefix)
        )
        found = _read(evidence, wanted)
        return found | dict.fromkeys(self._same_topics(document, {each for each in wanted if each not in found}))

    def _same_topics(self, document: CheckpointDocument, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """The partitions that exist now, and did when the document was written.

        Asked behind the read: a topic that was deleted before it has lost its offsets. Nor does it prove anything where
        brokers disagree about a topic, which they may be about to delete.
        """
        there = set(partitions) - self._cluster.gone(partitions)
        ids = self._cluster.topic_ids(document.topic_ids.keys() & {each.topic for each in there})
        return {each for each in there if ids.get(each.topic) == document.topic_ids.get(each.topic)}

    def _marks(self, group: str, wanted: Sequence[TopicPartition]) -> list[str]:
        evidence = GroupOffsetsEvidence(self._config, group_id=group, stable=False, connection=self._connection)
        return [offset.metadata for offset in _read(evidence, wanted).values()]


def _read(evidence: Evidence, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
    found: dict[TopicPartition, GroupOffset] = {}
    for first in range(0, len(wanted), _IN_A_REQUEST):
        found |= evidence.committed(wanted[first : first + _IN_A_REQUEST])
    return found


def refuse_older_state(document: CheckpointDocument | None, marks: GroupMarks, job: Job) -> Mark | None:
    """Called by recovery before the claim; writes nothing.

    :param document: None where the state is empty.
    :returns: the job's latest commit, as far as the group knows it.
    :raises StateRolledBack: the job has committed more than the document knows, and no restore is asked for.
    """
    latest = latest_commit(marks.of(document), job.uid)
    if latest is None:
        return None
    restore = job.spec.restore
    committed = (
        f"checkpoint {latest.checkpoint_id} of attempt {latest.attempt} has committed offsets to group"
        f" {job.spec.source.group_id}"
    )
    if document is None or not (document.splits or document.checkpoint_id):  # the claim of a first start
        if job.spec.source.startup.mode is not StartupMode.GROUP_OFFSETS:
            msg = f"the state is empty, and {committed}: records would be written again"
            raise StateRolledBack(msg, remedy=_empty_remedy(job))
    elif is_older(document, latest) and not (restore.names_target and restore.nonce > document.redeploy_nonce):
        msg = (
            f"the state is at checkpoint {document.checkpoint_id} of attempt {document.attempt}, and {committed}: an"
            " earlier state was restored, and records would be written again"
        )
        raise StateRolledBack(msg, remedy=_remedy(document, job))
    return latest


def _remedy(document: CheckpointDocument, job: Job) -> str:
    ways = [_PUT_BACK, f"{_BY_GROUP}:\n{_from_group(job)} && {commands.create_again(job)}"]
    if document.checkpoint_id and not document.engine_has_state:
        nonce = max(document.redeploy_nonce, job.spec.restore.nonce) + 1
        accept = {"restore": {"checkpoint": document.checkpoint_id, "nonce": nonce}}
        ways.append(f"{_ACCEPT}:\n{commands.patch(job, accept)}")
    return "\n".join(ways)


def _empty_remedy(job: Job) -> str:
    return "\n".join((_PUT_BACK, f"{_BY_GROUP}:\n{_from_group(job)}", f"{_BY_STARTUP}:\n{commands.create_again(job)}"))


def _from_group(job: Job) -> str:
    return commands.patch(job, {"source": {"startup": {"mode": "GroupOffsets"}}})


_PUT_BACK = "restore the newest state"
_BY_GROUP = "or resume from the group's offsets, exactly once unless the transform shuffles"
_ACCEPT = "or resume from this state, and later records are written twice"
_BY_STARTUP = "or start from spec.source.startup"
