"""The last look at pre-committed transactions, before a document makes them final."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sparkapp.clients.deadline import Clock, Deadline
from sparkapp.clients.transactions.states import TransactionDescriber, TransactionDescription
from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.errors import TransactionFenced
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.committer import COMMIT_SECONDS

_SECONDS = 60.0
"""As long as a commit would wait for the coordinators; after that the attempt ends, and nothing was final."""
_COMMIT_SHARE = 0.2
"""Of a transaction's time-out, kept for its commit where that is less than :data:`COMMIT_SECONDS`."""
_WRITE_SECONDS = 10.0
_WRITE_SHARE = 0.05
"""Share of a transaction's time-out that a write of the document needs at least, where that is less than the seconds
above. A write takes tens of milliseconds, and some seconds where an API server restarts."""


class CommitTimes(NamedTuple):
    """Deadlines by which document and commits are safe from the transactions' time-out.

    :param write_by: for the write; the time that a commit may take is left after it.
    :param commit_by: when the coordinator of the oldest transaction may end it.
    :param partitions: that each id's transaction has written to, the partition of the group's offsets included.
    """

    write_by: Deadline
    commit_by: Deadline
    partitions: Mapping[str, frozenset[TopicPartition]] = {}


class TransactionAges:
    """Upper bounds of the ages of transactions, in the driver's monotonic seconds.

    A transaction begins after its checkpoint, whose begin the driver's clock has. Its start time is in the wall clock
    of its coordinator. Each start time bounds how far that clock is ahead of the driver's, and the smallest bound of an
    id counts. So the two clocks need not agree, and a jump of the driver's wall clock changes nothing. Another
    coordinator may have another clock.
    """

    def __init__(self) -> None:
        self._ahead: dict[str, float] = {}

    def at_most(self, transactional_id: str, start_time_ms: int, *, began: float, now: float) -> float:
        """Seconds.

        :param start_time_ms: by the coordinator; not positive where it is unknown.
        :param began: when the transaction's checkpoint began.
        """
        if start_time_ms <= 0:
            return now - began
        start = start_time_ms / 1000
        ahead = min(self._ahead.get(transactional_id, start - began), start - began)
        if now + ahead < start:  # that would be the future: the id has another coordinator, whose clock is ahead
            ahead = start - began
        self._ahead[transactional_id] = ahead
        return now + ahead - start


class PreCommitCheck:
    """Asks the coordinators about a whole checkpoint; called by the checkpoint coordinator from one thread.

    Each subtask has asked about its own transaction when it pre-committed (:meth:`ProducerPool.verify`). The checkpoint
    waits for the last subtask. Until then a transaction can time out, or lose its id to a second task of the same
    subtask. A document with its name would be committed in part.
    """

    def __init__(self, client: TransactionDescriber, *, clock: Clock = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._ages = TransactionAges()

    def require(self, committables: Sequence[KafkaCommittable], *, began: float) -> CommitTimes:
        """Returns if every transaction is open, its writer's, and young enough; one request a coordinator.

        :param began: when the checkpoint began, by the clock.
        :raises TransactionFenced: otherwise; nothing is final yet, the attempt reads and writes the ranges again.
        :raises KafkaUnreachable: no answer in time. :raises AuthorizationFailed: DESCRIBE is missing on an id.
        """
        ids = [committable.transactional_id for committable in committables]
        found = self._client.describe(ids, deadline=Deadline.after(_SECONDS))
        now = self._clock()
        times = [
            self._times(committable, found.get(committable.transactional_id), began, now)
            for committable in committables
        ]
        return CommitTimes(
            Deadline(min(limit.write_by.at for limit in times), self._clock),
            Deadline(min(limit.commit_by.at for limit in times), self._clock),
            {transactional_id: found[transactional_id].partitions for transactional_id in ids},
        )

    def _times(
        self, committable: KafkaCommittable, described: TransactionDescription | None, began: float, now: float
    ) -> CommitTimes:
        if described is None or not _is_same(committable, described):
            msg = (
                f"checkpoint {committable.checkpoint_id}: {committable.transactional_id} was pre-committed with"
                f" producer {committable.producer_id} epoch {committable.producer_epoch};"
                f" its coordinator now says {described}"
            )
            raise TransactionFenced(msg, remedy=_REMEDY)
        timeout = described.timeout_ms / 1000
        age = self._ages.at_most(committable.transactional_id, described.start_time_ms, began=began, now=now)
        commit = min(COMMIT_SECONDS, timeout * _COMMIT_SHARE)
        write = min(_WRITE_SECONDS, timeout * _WRITE_SHARE)
        if timeout - age < commit + write:
            msg = (
                f"checkpoint {committable.checkpoint_id}: {committable.transactional_id} is open for up to"
                f" {age:.1f} s of its {timeout:g} s. A write and a commit may take {commit + write:.1f} s: not written"
            )
            raise TransactionFenced(msg, remedy=_REMEDY)
        ends = now + timeout - age
        return CommitTimes(Deadline(ends - commit, self._clock), Deadline(ends, self._clock))


def _is_same(committable: KafkaCommittable, described: TransactionDescription) -> bool:
    """Whether exactly this transaction is open: its producer may write several, one by one (ADR 24, ADR 62)."""
    is_its_producer = described.is_open_with(committable.producer_id, committable.producer_epoch)
    return is_its_producer and committable.start_time_ms in (0, described.start_time_ms)


_REMEDY = (
    "nothing, the job writes the checkpoint again; where this repeats, a checkpoint takes longer than"
    " spec.sink.transactions.timeoutSeconds: raise it, or lower spec.source.limits.maxOffsetsPerCheckpoint"
)
