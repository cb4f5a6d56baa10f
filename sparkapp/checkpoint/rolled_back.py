"""A state that is older than what the job has committed: recovery's check against the group's offsets (ADR 26)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from sparkapp.model import commands
from sparkapp.model.checkpoint import CheckpointDocument
from sparkapp.model.errors import KafkaAccessError, StateRolledBack
from sparkapp.model.job import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.model.positions import StartupMode
from sparkapp.model.rollback import is_older, latest_commit
from sparkapp.model.semantic import OffsetCommitMode, effective_offset_commit_mode
from sparkapp.model.settlement import GroupOffset, Mark
from sparkapp.sink.witness import GroupOffsetsWitness
from sparkapp.source.cluster import ClusterView
from sparkapp.source.subscriber import subscriber_of

LOG = logging.getLogger(__name__)

_IN_A_REQUEST = 500
"""librdkafka looks for each answer in the list of what was asked: see ``source.cluster``."""


class GroupMarks(Protocol):
    """The marks on the offsets that the job's group has committed."""

    def of(self, document: CheckpointDocument | None) -> Collection[str]:
        """Texts beside the committed offsets, whoever wrote them; empty where nothing can be known.

        :param document: whose partitions and group are meant; None where there is none yet.
        :raises KafkaAccessError: the group could not be read, and the job's transactions need it.
        """
        ...


class KafkaGroupMarks:
    """Asks the group's coordinator; made by the driver once an attempt.

    :param config: the job's consumer configuration.
    :param cluster: has the partitions that the job reads by its spec, for a first start.
    """

    def __init__(self, job: Job, config: Mapping[str, str], cluster: ClusterView) -> None:
        self._job = job
        self._config = config
        self._cluster = cluster

    def of(self, document: CheckpointDocument | None) -> Collection[str]:
        """See :meth:`GroupMarks.of`. Open transactions are not waited for: recovery has yet to end them."""
        source = self._job.spec.source
        mode = effective_offset_commit_mode(source.offset_commit, self._job.spec.sink.semantic)
        if source.group_membership.subscribes or mode is OffsetCommitMode.DISABLED:
            # The group itself says where partitions go on, or nobody has marked anything.
            return ()
        if document is None:
            wanted = sorted(subscriber_of(source).partitions(self._cluster.topics()))
        else:
            wanted = sorted(document.offsets)
        groups = {source.group_id, document.witness_group if document is not None else ""} - {""}
        try:
            return [mark for group in sorted(groups) for mark in self._marks(group, wanted)]
        except KafkaAccessError as error:
            if mode is OffsetCommitMode.IN_TRANSACTION:
                raise
            LOG.warning("whether the state was rolled back is not known: %s", error.message)
            return ()

    def _marks(self, group: str, wanted: Sequence[TopicPartition]) -> list[str]:
        witness = GroupOffsetsWitness(self._config, group_id=group, stable=False)
        found: list[GroupOffset] = []
        for first in range(0, len(wanted), _IN_A_REQUEST):
            found += witness.committed(wanted[first : first + _IN_A_REQUEST]).values()
        return [one.metadata for one in found]


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
    if document is None:
        if job.spec.source.startup.mode is not StartupMode.GROUP_OFFSETS:
            msg = f"the state is empty, and {committed}: records would be written again"
            raise StateRolledBack(msg, remedy=_empty_remedy(job))
    elif is_older(document, latest) and not (restore.checkpoint and restore.nonce > document.redeploy_nonce):
        msg = (
            f"the state is at checkpoint {document.checkpoint_id} of attempt {document.attempt}, and {committed}: an"
            " earlier state was put back, and records would be written again"
        )
        raise StateRolledBack(msg, remedy=_remedy(document, job))
    return latest


def _remedy(document: CheckpointDocument, job: Job) -> str:
    ways = [_PUT_BACK, f"{_BY_GROUP}:\n{_from_group(job)} && {commands.create_again(job)}"]
    if document.checkpoint_id and not document.engine_has_state:
        nonce = max(document.redeploy_nonce, job.spec.restore.nonce) + 1
        accept = {"restoreFrom": {"checkpoint": document.checkpoint_id}, "redeployNonce": nonce}
        ways.append(f"{_ACCEPT}:\n{commands.patch(job, accept)}")
    return "\n".join(ways)


def _empty_remedy(job: Job) -> str:
    return "\n".join((_PUT_BACK, f"{_BY_GROUP}:\n{_from_group(job)}", f"{_BY_STARTUP}:\n{commands.create_again(job)}"))


def _from_group(job: Job) -> str:
    return commands.patch(job, {"source": {"startup": {"mode": "GROUP_OFFSETS"}}})


_PUT_BACK = "put the newest state back"
_BY_GROUP = "or go on from the group's offsets, exactly once unless the transform shuffles"
_ACCEPT = "or go on from this state, and what was written since is written twice"
_BY_STARTUP = "or begin by spec.source.startup"
