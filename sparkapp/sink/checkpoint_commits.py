"""The transactions of a checkpoint: checked before it is final, then ended, until every marker is in its log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import KafkaUnreachable, TransactionFenced
from sparkapp.model.partition import TopicPartition
from sparkapp.model.protocol import ProtocolStep, StepHook, no_hook
from sparkapp.sink.committer import Settled
from sparkapp.sink.ending.background_proof import BackgroundProof
from sparkapp.sink.ending.proven_ends import Ended
from sparkapp.sink.ending.proven_fence import PROOF_SECONDS
from sparkapp.sink.pre_commit_check import CommitTimes

Written = Mapping[str, frozenset[TopicPartition]]
"""The partitions that the transaction of each id has written to, by its coordinator before the commit."""


class PreCommits(Protocol):
    """Part of :class:`sparkapp.sink.pre_commit_check.PreCommitCheck`."""

    def require(self, committables: Sequence[KafkaCommittable], *, began: float) -> CommitTimes: ...


class Committer(Protocol):
    """Commits the transactions of one checkpoint."""

    def commit(
        self, committables: Sequence[KafkaCommittable], *, after_each: Callable[[KafkaCommittable], None] | None = None
    ) -> Sequence[Settled]: ...


class Ends(Protocol):
    """Part of :class:`sparkapp.sink.ending.proven_ends.ProvenEnds`."""

    def require(self, ends: Sequence[Ended], *, deadline: Deadline) -> None: ...


class CheckpointCommits:
    """A part of the checkpoint coordinator, used by its threads.

    The proof follows the commits in the background. A partition without a leader holds up nothing but the next use of
    the ids whose markers it may lack (ADR 68).
    """

    def __init__(self, pre_commits: PreCommits, committer: Committer, ends: Ends) -> None:
        self._pre_commits = pre_commits
        self._committer = committer
        self._ends = ends
        self._proofs: Mapping[int, Proof] = {}
        """By checkpoint. The thread that completes checkpoints adds to a copy, others read."""

    def require_open(self, committables: Sequence[KafkaCommittable], *, began: float) -> CommitTimes:
        """See :meth:`sparkapp.sink.pre_commit_check.PreCommitCheck.require`."""
        return self._pre_commits.require(committables, began=began)

    def commit(
        self,
        checkpoint_id: int,
        committables: Sequence[KafkaCommittable],
        written: Written,
        *,
        proven: Callable[[KafkaCommittable], None],
        hook: StepHook = no_hook,
    ) -> None:
        """Ends every transaction with a commit, and begins the proof.

        :param proven: called when the leaders have the markers, perhaps later and in another thread. It gets each
            transaction that a single request has committed, which was answered.
        :param hook: called between two commits, which are sequential then.
        :raises TransactionFenced: a transaction is lost; the next attempt replays it.
        :raises CommitOutcomeUnknown: no answer in time; the next attempt settles it.
        """
        if not committables:
            return
        watched = None if hook is no_hook else _between(hook, checkpoint_id, len(committables))
        settled = self._committer.commit(committables, after_each=watched)
        bad = [end for end in settled if end.outcome is not CommitOutcome.COMMITTED]
        if bad:
            shown = ", ".join(f"{end.committable.transactional_id} ({end.answer.name})" for end in bad)
            msg = f"checkpoint {checkpoint_id} is final, but could not be committed: {shown}"
            raise TransactionFenced(msg)
        ends = [_committed(each, written.get(each.transactional_id)) for each in committables]
        at_once = [end.committable for end in settled if end.at_once]

        def settle() -> None:
            for committable in at_once:
                proven(committable)

        proof = BackgroundProof(lambda deadline: self._ends.require(ends, deadline=deadline), proven=settle)
        ids = frozenset(each.transactional_id for each in committables)
        self._proofs = {**self._open(), checkpoint_id: Proof(ids, proof)}

    def require_proven(self, ids: Collection[str] | None = None) -> None:
        """Waits for the proof of the last commits under these ids, or of all.

        :raises KafkaUnreachable: a partition has had no leader for long; the next attempt waits for it.
        """
        due = [proof for proof in self._open().values() if ids is None or not proof.ids.isdisjoint(ids)]
        self._require(due, Deadline.after(PROOF_SECONDS))

    @property
    def unproven_ids(self) -> frozenset[str]:
        """Ids whose transactions a proof may be ending a second time. Nothing else may end them meanwhile."""
        return frozenset(each for proof in self._open().values() for each in proof.ids)

    def is_proven(self, *, within: float) -> bool:
        """Whether every commit is proven within that time, in seconds."""
        try:
            self._require(self._open().values(), Deadline.after(within))
        except KafkaUnreachable:
            return False
        return True

    def settled(self, committed_id: int) -> int:
        """The newest checkpoint before which every id may be used again; see ``Slots.settle``.

        :param committed_id: the newest checkpoint whose transactions are all committed.
        """
        return min((committed_id, *self._open()))

    def close(self) -> None:
        """Ends the proofs under way. The next recovery begins with the unproven commits."""
        for proof in self._proofs.values():
            proof.of_all.close()

    def _open(self) -> dict[int, Proof]:
        return {number: proof for number, proof in self._proofs.items() if proof.of_all.is_open}

    @staticmethod
    def _require(proofs: Iterable[Proof], deadline: Deadline) -> None:
        for proof in proofs:
            proof.of_all.require(deadline)


class Proof(NamedTuple):
    """Of the commits of a checkpoint, with the ids of its transactions."""

    ids: frozenset[str]
    of_all: BackgroundProof


def _between(hook: StepHook, checkpoint_id: int, count: int) -> Callable[[KafkaCommittable], None]:
    left = count

    def after_each(_: KafkaCommittable) -> None:
        nonlocal left
        left -= 1
        if left:
            hook(ProtocolStep.BETWEEN_COMMITS, checkpoint_id)

    return after_each


def _committed(committable: KafkaCommittable, partitions: frozenset[TopicPartition] | None) -> Ended:
    return Ended(
        end=EndTxn(
            transactional_id=committable.transactional_id, producer_id=committable.producer_id,
            producer_epoch=committable.producer_epoch, commit=True,
        ),
        epoch=committable.producer_epoch, partitions=partitions,
    )  # fmt: skip
