"""Ends a job's transactions: at a start, while it runs, and at an end without a next attempt.

Each way is the same four steps: find (:mod:`sparkapp.sink.ending.used_ids`), select, require the claim, end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.group_offsets import GroupOffsetsEvidence
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.clients.transactions.states import TransactionListing, TransactionState
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.naming import local_id, offsets_id
from sparkapp.model.errors import (
    CheckpointConflict,
    CheckpointStoreUnavailable,
    CommitOutcomeUnknown,
)
from sparkapp.model.job.spec import Job
from sparkapp.sink.committer import KafkaCommitter, MarkedOffsets, Settled
from sparkapp.sink.ending.hanging import HangingAtStart, find_hanging
from sparkapp.sink.ending.lingering import abort_lingering
from sparkapp.sink.ending.log_scope import log_scope
from sparkapp.sink.ending.orphans import Hangs, OpenNow, OrphanSweep, OwnTransactions
from sparkapp.sink.ending.proven_ends import ProvenEnds
from sparkapp.sink.ending.proven_fence import PROOF_SECONDS, ProvenFence
from sparkapp.sink.ending.used_ids import UsedIds, states_of

LOG = logging.getLogger(__name__)

_FENCE_SECONDS = 120.0
"""For the ids of all subtasks; the next attempt continues."""


class Claim(Protocol):
    """Part of :class:`sparkapp.checkpoint.claim.Claim`."""

    def require(self) -> None: ...

    def require_no_successor(self) -> None: ...


class TransactionControl(Protocol):
    """What recovery needs of :class:`KafkaTransactionControl`."""

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        """Fences drivers of previous attempts, and subtasks that commit by themselves. Then commits each committable of
        the document, or proves its outcome with the evidence group."""
        ...

    def abort_lingering(self, document: CheckpointDocument, *, lists_again: bool = False) -> int:
        """Aborts every open transaction of the document's prefixes; returns how many.

        Under a document without committables no producer can begin a transaction of a previous prefix after this call.

        :param lists_again: whether the list of a :meth:`settle` with nothing to settle is not enough: subtasks of this
            attempt may have begun transactions behind it.
        """
        ...


class KafkaTransactionControl:
    """Settles and aborts the transactions of a job; made once an attempt, by the driver or by what settles a job.

    :param client: the sink's control plane. :param config: the job's consumer configuration, for the group's offsets.
    :param claim: read before each fencing; nothing else stops a driver that was paused after it claimed the document.
    """

    def __init__(self, job: Job, client: TransactionClient, config: Mapping[str, str], claim: Claim) -> None:
        self._job = job
        self._client = client
        self._config = config
        self._claim = claim
        self._aborted_early = 0
        self._listed: Sequence[TransactionListing] | None = None
        """By a :meth:`settle` that has ended nothing since."""
        self._told: frozenset[str] = frozenset()

    @property
    def answers(self) -> int:
        """See :attr:`TransactionClient.answers`."""
        return self._client.answers

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        """See :meth:`TransactionControl.settle`.

        First of all it ends what hangs in partitions: a fence would erase how it ended (ADR 68).

        :raises CheckpointError: another attempt owns the job, or that is not known.
        :raises TransactionHanging: how a transaction ended is forgotten.
        :raises KafkaAccessError: not every id is fenced in time, or a partition has no leader.
        :raises CommitOutcomeUnknown: no deciding answer to EndTxn in time.
        """
        fence = self._fence(document)
        self._listed = None
        if self._may_have_transactions(document):
            rows = self._rows(document)
            self._end_hanging(document, rows, spare=[each.transactional_id for each in document.committables])
            # Before the evidence is read: from now on brokers refuse requests of previous attempts' drivers.
            fence.fence_all(offsets_id(prefix) for prefix in document.prefixes)
            if document.local is None and not document.committables:
                self._listed = rows
        if document.local is not None:
            # Idle ids, too: an instance that was granted may begin its next transaction whenever it continues.
            self._claim.require_no_successor()
            ids = (
                local_id(prefix, subtask) for prefix in document.prefixes for subtask in range(document.slots.subtasks)
            )
            fence.fence_all(ids, deadline=Deadline.after(_FENCE_SECONDS))
        if not document.committables:
            return ()
        evidence = None
        if document.evidence_group:
            offsets = GroupOffsetsEvidence(
                self._config, group_id=document.evidence_group, confirm_as=offsets_id(document.prefix)
            )
            # It would wait for a lingering transaction with offsets of the same partitions.
            before = partial(self._abort_early, document)
            evidence = MarkedOffsets(offsets=offsets, job_uid=self._job.uid, before=before)
        committer = KafkaCommitter(self._client, evidence, describer=self._client, restored=True)
        return committer.commit(document.committables, whole=not document.aligned)

    def look(self, document: CheckpointDocument, *, deadline: Deadline) -> None:
        """Asks what :meth:`settle` and :meth:`abort_lingering` will ask, and ends nothing; for a driver that waits.

        Then the connections stand, and brokers and leaders are known.

        :raises KafkaAccessError: the brokers refuse, or do not answer in time.
        """
        if self._may_have_transactions(document):
            rows = self._ids(document, document.prefixes).rows(self._client, deadline=deadline)
            logs = self._client.logs.open_in(self._scope(document), deadline=deadline)
            find_hanging(self._client, rows, logs, deadline=deadline)
            self._client.describe([offsets_id(document.prefix)], deadline=deadline)

    def _abort_early(self, document: CheckpointDocument) -> None:
        self._aborted_early = self.abort_lingering(document)

    def abort_lingering(self, document: CheckpointDocument, *, lists_again: bool = False) -> int:
        """See :meth:`TransactionControl.abort_lingering`; counts those that :meth:`settle` has aborted, too."""
        if not self._may_have_transactions(document):
            return 0
        listed, self._listed = None if lists_again else self._listed, None
        # The transactions of the document have ended by now.
        self._end_hanging(document, self._rows(document) if listed is None else listed, spare=())
        aborted = abort_lingering(
            self._fence(document), self._ids(document, document.prefixes),
            states=None if listed is None else self._left(document, listed),
            retired=() if document.committables else document.previous_prefixes,
            before_fencing=self._claim.require_no_successor,
        )  # fmt: skip
        return len(aborted) + self._aborted_early

    def fence(self, ids: Collection[str]) -> None:
        """Ends what the subtasks of a running attempt have left open; called by its engine when they are lost.

        :raises CheckpointError: another attempt owns the job, or that is not known; nothing was fenced.
        :raises KafkaAccessError: not all are fenced, or not all aborts are proven.
        """
        self._claim.require_no_successor()
        ProvenFence(self._client, self.ends()).fence_all(ids)

    def ends(self, document: CheckpointDocument | None = None) -> ProvenEnds:
        """Proves the ends of the job's transactions.

        :param document: with the topics and the group of earlier specs, for a recovery.
        """
        return ProvenEnds(self._client, self._scope(document), refused=self._unproven)

    def orphan_sweep(self, coordinator: OwnTransactions, observed: Callable[[OpenNow | None], None]) -> OrphanSweep:
        """The sweep that aborts orphan transactions while the attempt runs; made by the driver after recovery.

        :param observed: gets the open transactions after each sweep.
        """

        def hanging(deadline: Deadline) -> frozenset[Hangs]:
            last = coordinator.document
            logs = self._client.logs.open_in(self._scope(last), deadline=deadline)
            rows = self._ids(last, last.prefixes).rows(self._client, deadline=deadline)
            found = find_hanging(self._client, rows, logs, deadline=deadline)
            return frozenset(Hangs(each.transactional_id, each.partition, each.found.start_offset) for each in found)

        def find(deadline: Deadline) -> list[str]:
            last = coordinator.document
            states = self._ids(last, [last.prefix]).states(self._client, deadline=deadline)
            own = offsets_id(last.prefix)  # A commit of offsets may be under way; it ends by itself after 10 s.
            return [each for each, state in states.items() if state.open and each != own]

        return OrphanSweep(
            self._client, coordinator, find=find, hanging=hanging, require_claim=self._claim.require, observed=observed,
        )  # fmt: skip

    def _scope(self, document: CheckpointDocument | None) -> LogScope:
        if document is None:
            return log_scope(self._job.spec)
        return log_scope(self._job.spec, earlier_topics=document.sink_topics, earlier_group=document.evidence_group)

    def _fence(self, document: CheckpointDocument) -> ProvenFence:
        return ProvenFence(self._client, self.ends(document))

    def _ids(self, document: CheckpointDocument, prefixes: Sequence[str]) -> UsedIds:
        spec = self._job.spec
        return UsedIds(
            prefixes=prefixes, hint=document.hint, slots=document.slots, parallelism=spec.parallelism,
            pool_size=spec.sink.producers_pool_size,
        )  # fmt: skip

    @staticmethod
    def _left(document: CheckpointDocument, rows: Iterable[TransactionListing]) -> dict[str, TransactionState]:
        """The states by a list of :meth:`settle`, without the ids that it has fenced since."""
        fenced = {offsets_id(prefix) for prefix in document.prefixes}
        return {each: state for each, state in states_of(rows).items() if each not in fenced}

    def _rows(self, document: CheckpointDocument) -> list[TransactionListing]:
        return self._ids(document, document.prefixes).rows(self._client, deadline=Deadline.after(PROOF_SECONDS))

    def _end_hanging(
        self, document: CheckpointDocument, rows: Sequence[TransactionListing], *, spare: Collection[str]
    ) -> None:
        hanging = HangingAtStart(
            self._client, self.ends(document), scope=self._scope(document), fence=document.local is not None,
            require_claim=self._claim.require_no_successor,
        )  # fmt: skip
        ended = hanging.end(rows, spare=spare, deadline=Deadline.after(PROOF_SECONDS))
        if ended:
            LOG.warning("%d hanging transaction(s) of earlier attempts ended as their coordinators say", ended)

    def _unproven(self, topics: frozenset[str]) -> None:
        if not topics <= self._told:
            self._told |= topics
            LOG.warning(
                "the user may not read %s: ends of transactions are not proven there", ", ".join(sorted(topics))
            )

    def _may_have_transactions(self, document: CheckpointDocument) -> bool:
        """A job without transactions may have no permission to list them."""
        return self._job.spec.sink.delivery_guarantee.transactional or document.may_have_transactions


def leave_nothing_open(
    control: TransactionControl, claim: Claim, document: CheckpointDocument, error: Exception
) -> None:
    """Ends the open transactions, as far as a driver can that must stop and cannot drain. No attempt may follow soon.

    The job is deleted, or waits for a person or for room. In the first case Kubernetes deletes ConfigMaps, permissions
    and executors of the job at the same time as its driver. Transactions of the last document are final and are
    committed. All others are aborted, so that no reader waits for their time-out. Nothing is done where a next attempt
    may have begun, or where the document is unknown.

    :param claim: a superseded attempt leaves everything to its successor.
    :param document: the last document that this attempt wrote.
    :param error: the cause of the stop.
    """
    if isinstance(error, CheckpointConflict | CheckpointStoreUnavailable | CommitOutcomeUnknown):
        return
    try:
        claim.require_no_successor()
        control.settle(document)
        aborted = control.abort_lingering(document, lists_again=True)
        LOG.info("the attempt could not drain: %d transaction(s) aborted", aborted)
    except Exception as problem:  # must not replace the first error
        LOG.warning("transactions may still be open: %s", problem)
