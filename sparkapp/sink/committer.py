"""The second phase: commits what a checkpoint document says is final, or proves what became of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Protocol

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.deadline import Clock, Deadline
from sparkapp.model.errors import CommitOutcomeUnknown, KafkaAccessError, KafkaSparkJobError
from sparkapp.model.partition import TopicPartition
from sparkapp.model.settlement import (
    VERDICTS,
    EndTxnAnswer,
    Fate,
    GroupOffset,
    Verdict,
    ends_another,
    evidence,
)
from sparkapp.sink.transaction_describer import TransactionDescriber
from sparkapp.sink.transactions import EndTxn, TransactionDescription
from sparkapp.sink.witness import Witness

LOG = logging.getLogger(__name__)

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 1.0
COMMIT_SECONDS = 60.0
"""For the commits of one checkpoint, retries included."""


class Outcome(Enum):
    """What became of a committable."""

    COMMITTED = "committed"
    LOST = "lost"
    """Proven: nothing of it is or will be visible."""
    UNCERTAIN = "uncertain"
    """The broker no longer knows the transaction, and no witness could say. Neither lost nor committed: nothing may be
    concluded from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """One committable and its end. ``answer`` is the coordinator's last one."""

    committable: KafkaCommittable
    outcome: Outcome
    answer: EndTxnAnswer


class TransactionEnds(Protocol):
    """What the committer needs of :class:`sparkapp.sink.transaction_client.TransactionClient`."""

    def end_all(
        self, ends: Sequence[EndTxn], *, deadline: Deadline | None = None
    ) -> list[EndTxnAnswer | KafkaSparkJobError]: ...


class KafkaCommitter:
    """Commits by the triple, from any process; repeating a commit is harmless.

    Called by the coordinator after the document is written, and by recovery for what the last document names.

    :param witness: None unless source offsets are inside the transactions: offsets committed in another way prove
        nothing about a transaction. Asked where the coordinators do not prove the commit.
    :param describer: recovery's, whose document may be an older one that was put back: asked what is open under an id
        before it is ended, and what became of a transaction where the answer does not decide. None for the driver
        that has just written the document: nothing of it can be in use again, and the next attempt finds out what was
        lost.
    :param job_uid: whose marks the witness looks for; needed with one.
    :param timeout: seconds for one :meth:`commit`, retries included.
    :param before_witness: called once before the witness is asked. Recovery aborts lingering transactions here: one
        that holds offsets of the same partitions would make the witness wait.
    :param sleep: replaced by tests.
    """

    def __init__(
        self,
        client: TransactionEnds,
        witness: Witness | None,
        *,
        describer: TransactionDescriber | None = None,
        job_uid: str = "",
        timeout: float = COMMIT_SECONDS,
        before_witness: Callable[[], None] | None = None,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._witness = witness
        self._describer = describer
        self._job_uid = job_uid
        self._timeout = timeout
        self._before_witness = before_witness
        self._clock = clock
        self._sleep = sleep

    def commit(
        self,
        committables: Sequence[KafkaCommittable],
        *,
        whole: bool = False,
        after_each: Callable[[KafkaCommittable], None] | None = None,
    ) -> tuple[Settled, ...]:
        """Ends every transaction with a commit; one :class:`Settled` for each, in the order given.

        Checkpoints are committed in their order (C08), the transactions of one side by side.

        :param whole: recovery's: no part can be written again without the others. Where one is lost already and none
            is committed, those that are still open are aborted instead, and all of them are lost.
        :param after_each: called after each single commit, which are then sent one after the other.
        :raises CommitOutcomeUnknown: no answer that decides within the time-out, or one that proves nothing. Other
            transactions of the call may have been committed; calling again with the same ones is safe.
        :raises AuthorizationFailed: and the other errors of access, where every attempt met them.
        """
        deadline = Deadline.after(self._timeout, clock=self._clock)
        described = self._described(committables, deadline)
        answers = _in_use_again(described)
        if whole:
            self._abort_what_cannot_be_whole(committables, described, deadline)
        for group in _groups([one for one in committables if one not in answers], alone=after_each is not None):
            answers |= self._end_group(group, deadline)
            if after_each is not None:
                after_each(group[0])
        asking = [one for one in committables if VERDICTS[answers[one]] is Verdict.ASK_WITNESS]
        witnessed = self._ask(asking, answers, deadline)
        return tuple(
            Settled(committable=one, outcome=witnessed.get(one, Outcome.COMMITTED), answer=answers[one])
            for one in committables
        )

    def _abort_what_cannot_be_whole(
        self,
        committables: Sequence[KafkaCommittable],
        described: Mapping[KafkaCommittable, TransactionDescription],
        deadline: Deadline,
    ) -> None:
        """Ends the rest of a checkpoint as its lost part ended; whoever dies here leaves the same to be found."""
        fates = self._fates(committables, described, {})
        if set(fates.values()) != {Fate.LOST, Fate.PENDING}:
            return
        ongoing = [one for one, fate in fates.items() if fate is Fate.PENDING]
        LOG.warning(
            "aborting %s: other transactions of the checkpoint are lost, and it was to be final as a whole",
            ", ".join(one.transactional_id for one in ongoing),
        )
        # Asked to commit next, they refuse, and their coordinators tell why.
        self._end_group(ongoing, deadline, commit=False)

    def _described(
        self, committables: Sequence[KafkaCommittable], deadline: Deadline
    ) -> dict[KafkaCommittable, TransactionDescription]:
        if self._describer is None:
            return {}
        found = self._describer.describe([one.transactional_id for one in committables], deadline=deadline)
        return {one: found[one.transactional_id] for one in committables if one.transactional_id in found}

    def _end_group(
        self, group: Sequence[KafkaCommittable], deadline: Deadline, *, commit: bool = True
    ) -> dict[KafkaCommittable, EndTxnAnswer]:
        answers: dict[KafkaCommittable, EndTxnAnswer] = {}
        problems: dict[KafkaCommittable, KafkaSparkJobError | None] = {}
        waiting = list(group)
        pause = _FIRST_PAUSE
        while True:
            again = []
            found = self._client.end_all(_ends(waiting, commit=commit), deadline=deadline)
            for one, answer in zip(waiting, found, strict=True):
                if isinstance(answer, KafkaSparkJobError):
                    problems[one] = answer
                    continue
                answers[one] = answer
                if VERDICTS[answer] is Verdict.RETRY:
                    again.append(one)
                elif VERDICTS[answer] is Verdict.FAIL:
                    problems[one] = None
            waiting = again
            if not waiting or deadline.expired:
                break
            self._sleep(deadline.bound(pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
        if problems or waiting:
            raise _unsettled(problems, [(one, answers[one]) for one in waiting])
        return answers

    def _ask(
        self,
        asking: Sequence[KafkaCommittable],
        answers: Mapping[KafkaCommittable, EndTxnAnswer],
        deadline: Deadline,
    ) -> dict[KafkaCommittable, Outcome]:
        if not asking:
            return {}
        # First of all: whoever aborts what is open under an id wipes what its coordinator knows.
        described = self._described(asking, deadline)
        fates = self._fates(asking, described, {})
        doubtful = [one for one, fate in fates.items() if fate is not Fate.COMMITTED]
        partitions = {split.partition for one in doubtful for split in one.ranges}
        if self._witness is not None and partitions:
            if self._before_witness is not None:
                self._before_witness()
            fates |= self._fates(doubtful, described, self._committed(self._witness, sorted(partitions)))
        for one, fate in fates.items():
            if fate is Fate.PENDING:
                raise _unsettled({}, [(one, answers[one])])
            LOG.warning(
                "EndTxn of %s (checkpoint %d): %s; by its coordinator and the group's offsets it is %s",
                one.transactional_id, one.checkpoint_id, answers[one].name, fate.value,
            )  # fmt: skip
        return {one: _OUTCOMES[fate] for one, fate in fates.items()}

    def _fates(
        self,
        asking: Sequence[KafkaCommittable],
        described: Mapping[KafkaCommittable, TransactionDescription],
        offsets: Mapping[TopicPartition, GroupOffset],
    ) -> dict[KafkaCommittable, Fate]:
        return {one: evidence(one, described.get(one), offsets, job_uid=self._job_uid) for one in asking}

    @staticmethod
    def _committed(source: Witness, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, GroupOffset]:
        try:
            return source.committed(partitions)
        except KafkaAccessError as error:
            msg = f"the group's committed offsets, which decide, could not be read: {error.message}"
            raise CommitOutcomeUnknown(msg, remedy=error.remedy) from error


_OUTCOMES: Mapping[Fate, Outcome] = {
    Fate.COMMITTED: Outcome.COMMITTED,
    Fate.LOST: Outcome.LOST,
    Fate.UNKNOWN: Outcome.UNCERTAIN,
}


def _in_use_again(
    described: Mapping[KafkaCommittable, TransactionDescription],
) -> dict[KafkaCommittable, EndTxnAnswer]:
    """Committables whose id has another open transaction of the same producer. No EndTxn is sent; recovery aborts that
    transaction."""
    return {one: EndTxnAnswer.LATER_TRANSACTION for one, now in described.items() if ends_another(one, now)}


def _groups(committables: Sequence[KafkaCommittable], *, alone: bool) -> Iterator[list[KafkaCommittable]]:
    ordered = sorted(committables, key=lambda one: one.checkpoint_id)
    if alone:
        return ([one] for one in ordered)
    return (list(group) for _, group in groupby(ordered, key=lambda one: one.checkpoint_id))


def _ends(committables: Sequence[KafkaCommittable], *, commit: bool = True) -> list[EndTxn]:
    return [
        EndTxn(
            transactional_id=one.transactional_id,
            producer_id=one.producer_id,
            producer_epoch=one.producer_epoch,
            commit=commit,
        )
        for one in committables
    ]


def _unsettled(
    problems: Mapping[KafkaCommittable, KafkaSparkJobError | None],
    waiting: Sequence[tuple[KafkaCommittable, EndTxnAnswer]],
) -> KafkaSparkJobError:
    for error in problems.values():
        if error is not None:
            return error
    refused = [f"{one.transactional_id} (an answer that proves nothing)" for one in problems]
    shown = [*refused, *(f"{one.transactional_id} ({answer.name})" for one, answer in waiting)]
    return CommitOutcomeUnknown(f"whether these transactions are committed is not known: {', '.join(shown)}")
