"""Transactions of a job that brokers have committed, or lost: for units of recovery and of the coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from sparkapp.clients.deadline import Deadline
from sparkapp.model.checkpoint.commit_outcome import CommitOutcome, EndTxnAnswer
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import KafkaSparkJobError, TransactionFenced
from sparkapp.sink.committer import Settled
from sparkapp.sink.pre_commit_check import CommitTimes

_ANSWERS = {
    CommitOutcome.COMMITTED: EndTxnAnswer.NONE,
    CommitOutcome.LOST: EndTxnAnswer.PRODUCER_FENCED,
    CommitOutcome.UNCERTAIN: EndTxnAnswer.PRODUCER_FENCED,
}


class FakeControl:
    """Recovery's control of the brokers' transactions.

    :param outcomes: of the document's committables, in their order; without any all are committed.
    :param failure: why nothing is settled.
    :ivar settled: documents whose transactions were settled. :ivar aborted: documents of the calls that abort the rest.
    :ivar calls: names of the calls that came through, in order.
    """

    def __init__(self, *outcomes: CommitOutcome, failure: KafkaSparkJobError | None = None) -> None:
        self.settled: list[CheckpointDocument] = []
        self.aborted: list[CheckpointDocument] = []
        self.calls: list[str] = []
        self._outcomes = outcomes
        self._failure = failure

    def settle(self, document: CheckpointDocument) -> Sequence[Settled]:
        if self._failure is not None:
            raise self._failure
        self.calls.append("settle")
        self.settled.append(document)
        outcomes = self._outcomes or (CommitOutcome.COMMITTED,) * len(document.committables)
        return [
            Settled(committable=each, outcome=outcome, answer=_ANSWERS[outcome])
            for each, outcome in zip(document.committables, outcomes, strict=True)
        ]

    def abort_lingering(self, document: CheckpointDocument, *, lists_again: bool = False) -> int:
        self.calls.append("abort")
        self.aborted.append(document)
        return 0


class FakeTransactions:
    """The transactions of an attempt that runs: open until they are committed, unless the test has ended them before.

    :ivar ended: whether they have ended before. :ivar at_once: whether each commit took one request.
    :ivar calls: names of the calls. :ivar began: of the last check, when the checkpoint began.
    :ivar now: the clock. :ivar write_by: until when the document may be written. :ivar commit_by: the time-out.
    """

    def __init__(self) -> None:
        self.ended = False
        self.at_once = True
        self.calls: list[str] = []
        self.began, self.now, self.write_by, self.commit_by = -1.0, 0.0, 30.0, 40.0

    def require(self, committables: Sequence[KafkaCommittable], *, began: float) -> CommitTimes:
        self.calls.append("require")
        self.began = began
        if self.ended:
            raise TransactionFenced("ended")
        return CommitTimes(Deadline(self.write_by, self.clock), Deadline(self.commit_by, self.clock))

    def clock(self) -> float:
        return self.now

    def commit(self, committables: Sequence[KafkaCommittable], **_: object) -> Sequence[Settled]:
        self.calls.append("commit")
        return [
            Settled(committable=each, outcome=CommitOutcome.COMMITTED, answer=EndTxnAnswer.NONE, at_once=self.at_once)
            for each in committables
        ]
