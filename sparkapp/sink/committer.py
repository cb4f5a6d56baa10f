"""The second phase: commits the transactions of a checkpoint document, or proves their outcome."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from sparkapp.clients.deadline import Clock, Deadline
from sparkapp.clients.group_offsets import Evidence
from sparkapp.clients.transactions.current_descriptions import CurrentDescriptions, Descriptions
from sparkapp.clients.transactions.states import EndTxn, TransactionDescriber
from sparkapp.model.checkpoint.commit_outcome import (
    VERDICTS,
    CommitOutcome,
    EndTxnAnswer,
    GroupOffset,
    Verdict,
    ends_another,
    outcome_of,
)
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import CommitOutcomeUnknown, KafkaAccessError, KafkaSparkJobError
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

COMMIT_SECONDS = 60.0
"""For the commits of one checkpoint, retries included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A committable with its outcome and the coordinator's last answer; ``at_once`` if only one request was sent."""

    committable: KafkaCommittable
    outcome: CommitOutcome
    answer: EndTxnAnswer
    at_once: bool = False


class TransactionEnds(Protocol):
    """Part of :class:`sparkapp.clients.transactions.client.TransactionClient`."""

    def end_all(
        self, ends: Sequence[EndTxn], *, deadline: Deadline | None = None
    ) -> list[EndTxnAnswer | KafkaSparkJobError]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedOffsets:
    """The group's offsets, where they prove a commit by their marks.

    :param job_uid: of the marks that count.
    :param before: called once before the offsets are read. Recovery aborts lingering transactions here: the evidence
        would wait for a transaction with offsets of the same partitions.
    """

    offsets: Evidence
    job_uid: str
    before: Callable[[], None] = lambda: None


class KafkaCommitter:
    """Commits by the triple, from any process; repeating a commit is harmless.

    Called by the coordinator after the document is written, and by recovery for what the last document names.

    :param evidence: asked where the coordinators do not prove the commit. None unless source
        offsets are inside the transactions: other offsets prove nothing about a transaction.
    :param describer: describes a transaction without a deciding answer. Success of a second request does not decide: a
        broker that has lost its role may mean an earlier transaction.
    :param restored: the document may be an earlier document that was restored by hand, so each id is described before
        its transaction is ended. The driver has just described what it commits (:mod:`sparkapp.sink.pre_commit_check`).
    :param timeout: seconds for one :meth:`commit`, retries included.
    :param sleep: replaced by tests.
    """

    def __init__(
        self,
        client: TransactionEnds,
        evidence: MarkedOffsets | None,
        *,
        describer: TransactionDescriber | None = None,
        restored: bool = False,
        timeout: float = COMMIT_SECONDS,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._evidence = evidence
        self._descriptions = None if describer is None else CurrentDescriptions(describer, sleep=sleep)
        self._restored = restored
        self._timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._resent: set[KafkaCommittable] = set()
        self._behind: set[KafkaCommittable] = set()

    def commit(
        self,
        committables: Sequence[KafkaCommittable],
        *,
        whole: bool = False,
        after_each: Callable[[KafkaCommittable], None] | None = None,
    ) -> tuple[Settled, ...]:
        """Ends every transaction with a commit; a :class:`Settled` for each, in the given order.

        Checkpoints are committed in their order (C08), the transactions of a checkpoint concurrently.

        :param whole: set by recovery where no part can be written again without the others. Where a transaction is lost
            and none is committed, open transactions are aborted instead, and all of them are lost.
        :param after_each: called after each commit; commits are then sequential.
        :raises CommitOutcomeUnknown: no deciding answer within the time-out, or an answer that proves nothing. Other
            transactions of the call may be committed; a repeated call with the same committables is safe.
        :raises AuthorizationFailed: and other errors of access, where every request met them.
        """
        deadline = Deadline.after(self._timeout, clock=self._clock)
        self._resent.clear()
        self._behind.clear()
        described = self._described(committables, deadline) if self._restored else {}
        answers = _in_use_again(described) | dict.fromkeys(self._behind, EndTxnAnswer.EARLIER_TRANSACTION)
        if whole:
            self._abort_what_cannot_be_whole(committables, described, deadline)
        left = [committable for committable in committables if committable not in answers]
        for group in _groups(left, alone=after_each is not None):
            answers |= self._end_group(group, deadline)
            if after_each is not None:
                after_each(group[0])
        asking = [committable for committable in committables if VERDICTS[answers[committable]] is Verdict.ASK_EVIDENCE]
        proven = self._ask(asking, answers, deadline)
        return tuple(
            Settled(
                committable=committable,
                outcome=proven.get(committable, CommitOutcome.COMMITTED),
                answer=answers[committable],
                at_once=answers[committable] is EndTxnAnswer.NONE and committable not in self._resent,
            )
            for committable in committables
        )

    def _abort_what_cannot_be_whole(
        self, committables: Sequence[KafkaCommittable], described: Descriptions, deadline: Deadline
    ) -> None:
        """Aborts the rest of a checkpoint whose first part is lost; a crash here leaves the same situation."""
        outcomes = self._outcomes(committables, described, {})
        if set(outcomes.values()) != {CommitOutcome.LOST, CommitOutcome.PENDING}:
            return
        ongoing = [committable for committable, outcome in outcomes.items() if outcome is CommitOutcome.PENDING]
        LOG.warning(
            "aborting %s: other transactions of the checkpoint are lost, and it is final as a whole or not at all",
            ", ".join(committable.transactional_id for committable in ongoing),
        )
        # The commits that follow fail, and their coordinators have the reason.
        self._end_group(ongoing, deadline, commit=False)

    def _described(self, committables: Sequence[KafkaCommittable], deadline: Deadline) -> Descriptions:
        if not self._descriptions or not committables:
            return {}
        described, behind = self._descriptions.of(committables, deadline)
        self._behind.update(behind)
        return described

    def _end_group(
        self, group: Sequence[KafkaCommittable], deadline: Deadline, *, commit: bool = True
    ) -> dict[KafkaCommittable, EndTxnAnswer]:
        answers: dict[KafkaCommittable, EndTxnAnswer] = {}
        problems: dict[KafkaCommittable, KafkaSparkJobError | None] = {}
        waiting = list(group)
        pauses = deadline.pauses(0.01, 1.0)
        while True:
            again = []
            found = self._client.end_all(_ends(waiting, commit=commit), deadline=deadline)
            for committable, answer in zip(waiting, found, strict=True):
                if isinstance(answer, KafkaSparkJobError):
                    problems[committable] = answer
                    continue
                answers[committable] = answer
                if VERDICTS[answer] is Verdict.RETRY:
                    again.append(committable)
                elif VERDICTS[answer] is Verdict.FAIL:
                    problems[committable] = None
            if commit:
                again += self._unconfirmed(waiting, answers, deadline)
            waiting = again
            self._resent.update(again)
            if not waiting or deadline.expired:
                break
            self._sleep(next(pauses))
        if problems or waiting:
            raise _unsettled(problems, [(committable, answers[committable]) for committable in waiting])
        return answers

    def _unconfirmed(
        self, asked: Sequence[KafkaCommittable], answers: dict[KafkaCommittable, EndTxnAnswer], deadline: Deadline
    ) -> list[KafkaCommittable]:
        """Transactions that are open, although a broker has answered their second request with success.

        Where a coordinator describes neither this nor the commit, the answer becomes that for an aborted transaction.
        """
        doubted = [
            each
            for each in asked
            if each in self._resent and each.start_time_ms and answers.get(each) is EndTxnAnswer.NONE
        ]
        described = self._described(doubted, deadline)
        outcomes = self._outcomes(doubted if self._descriptions else (), described, {})
        neither = {CommitOutcome.LOST, CommitOutcome.UNCERTAIN}
        refuted = [each for each, outcome in outcomes.items() if outcome in neither]
        answers.update(dict.fromkeys(refuted, EndTxnAnswer.INVALID_TXN_STATE))
        return [each for each, outcome in outcomes.items() if outcome is CommitOutcome.PENDING]

    def _ask(
        self, asking: Sequence[KafkaCommittable], answers: Mapping[KafkaCommittable, EndTxnAnswer], deadline: Deadline
    ) -> dict[KafkaCommittable, CommitOutcome]:
        if not asking:
            return {}
        # First of all: an abort under the id erases the coordinator's description.
        described = self._described([each for each in asking if each not in self._behind], deadline)
        outcomes = self._outcomes(asking, described, {})
        doubtful = [committable for committable, outcome in outcomes.items() if outcome is not CommitOutcome.COMMITTED]
        partitions = {split.partition for committable in doubtful for split in committable.ranges}
        if self._evidence is not None and partitions:
            self._evidence.before()
            committed = self._committed(self._evidence.offsets, sorted(partitions))
            outcomes |= self._outcomes(doubtful, described, committed)
        for committable, outcome in outcomes.items():
            # Behind a replaced coordinator a transaction that nothing proves may still be open.
            if outcome is CommitOutcome.PENDING or (outcome is CommitOutcome.UNCERTAIN and committable in self._behind):
                raise _unsettled({}, [(committable, answers[committable])])
            LOG.warning(
                "EndTxn of %s (checkpoint %d): %s; by its coordinator and the group's offsets it is %s",
                committable.transactional_id, committable.checkpoint_id, answers[committable].name, outcome.value,
            )  # fmt: skip
        return outcomes

    def _outcomes(
        self, asking: Sequence[KafkaCommittable], described: Descriptions, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> dict[KafkaCommittable, CommitOutcome]:
        job_uid = "" if self._evidence is None else self._evidence.job_uid
        return {
            committable: outcome_of(committable, described.get(committable), offsets, job_uid=job_uid)
            for committable in asking
        }

    @staticmethod
    def _committed(source: Evidence, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        try:
            return source.committed(partitions)
        except KafkaAccessError as error:
            msg = f"the group's committed offsets, the remaining evidence, could not be read: {error.message}"
            raise CommitOutcomeUnknown(msg, remedy=error.remedy) from error


def _in_use_again(described: Descriptions) -> dict[KafkaCommittable, EndTxnAnswer]:
    """Committables whose id has a later open transaction of the same producer. No EndTxn is sent; recovery aborts that
    transaction."""
    return {each: EndTxnAnswer.LATER_TRANSACTION for each, now in described.items() if ends_another(each, now)}


def _groups(committables: Sequence[KafkaCommittable], *, alone: bool) -> Iterator[list[KafkaCommittable]]:
    ordered = sorted(committables, key=lambda committable: committable.checkpoint_id)
    if alone:
        return ([committable] for committable in ordered)
    return (list(group) for _, group in groupby(ordered, key=lambda committable: committable.checkpoint_id))


def _ends(committables: Sequence[KafkaCommittable], *, commit: bool = True) -> list[EndTxn]:
    return [
        EndTxn(
            transactional_id=each.transactional_id, producer_id=each.producer_id, producer_epoch=each.producer_epoch,
            commit=commit,
        )
        for each in committables
    ]  # fmt: skip


def _unsettled(
    problems: Mapping[KafkaCommittable, KafkaSparkJobError | None],
    waiting: Sequence[tuple[KafkaCommittable, EndTxnAnswer]],
) -> KafkaSparkJobError:
    for error in problems.values():
        if error is not None:
            return error
    refused = [f"{committable.transactional_id} (an answer that proves nothing)" for committable in problems]
    shown = [*refused, *(f"{committable.transactional_id} ({answer.name})" for committable, answer in waiting)]
    return CommitOutcomeUnknown(f"the outcome of these transactions is unknown: {', '.join(shown)}")
