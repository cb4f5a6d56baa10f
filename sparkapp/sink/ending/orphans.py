"""Orphans: open transactions of a job's prefix that no running checkpoint writes, while the job runs.

A superseded attempt that still runs, or a late request, can open a transaction after recovery has aborted all others.
With ``sink.transactions.timeoutSeconds: 0`` no time-out ends it, and readers wait behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import EndTxn, TransactionDescription, TransactionState
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.partition import TopicPartition

LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 10.0
"""Between two sweeps. An orphan is promised to end within 30 s."""
_SWEEP_SECONDS = 20.0
_LEADERS_SECONDS = 5.0


class Hangs(NamedTuple):
    """A transaction that hangs in a partition; by its offset the same as at another look."""

    transactional_id: str
    partition: TopicPartition
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNow:
    """Open transactions after a sweep.

    :param oldest_start_millis: begin of the oldest, by its broker's clock; None where none is open.
    :param hanging: transactions that their coordinators call ended, and that a partition's leader has open since the
        sweep before (ADR 68).
    """

    count: int
    oldest_start_millis: int | None
    hanging: int = 0


class Retirable(Protocol):
    """Part of :class:`sparkapp.sink.producers.reusable_producers.ReusableProducers`."""

    def retire(self, triples: Collection[tuple[str, int, int]]) -> None: ...


class OwnTransactions(Protocol):
    """What the sweep asks of a coordinator, of either pace."""

    @property
    def document(self) -> CheckpointDocument: ...

    def ids_in_use(self) -> Collection[str]:
        """Ids that the running checkpoint may write under; none where no checkpoint runs."""
        ...

    @property
    def reusable(self) -> Retirable:
        """Producers that a later checkpoint may use, unless they are retired."""
        ...


class OrphanSweep:
    """Aborts orphans and reports other open transactions; :meth:`sweep` once, or periodically from :meth:`start` on.

    **Why it is safe.** A triple names one transaction (ADR 28), or several of one producer, one after the other (ADR
    62). The order of a sweep is: describe, retire its producer, ask for ids in use, require the claim, end. A
    described transaction of this attempt is in use, or its checkpoint is complete and its producer begins no other: so
    EndTxn changes nothing. A transaction of a later attempt began after that attempt's claim, so it cannot have been
    described while this attempt's claim was still valid.

    :param own: transactions of this attempt. Its producers are retired before their triples are ended: they begin no
        other transaction.
    :param find: ids of the job that may be open, by their coordinators.
    :param require_claim: raises where another attempt owns the job; called before a transaction is ended.
    :param hanging: asks the partitions' leaders for what hangs. A marker on its way may be among it.
    :param observed: receives the open transactions after each sweep, None where they are unknown.
    """

    def __init__(
        self,
        client: TransactionClient,
        own: OwnTransactions,
        *,
        find: Callable[[Deadline], Collection[str]],
        require_claim: Callable[[], None],
        hanging: Callable[[Deadline], frozenset[Hangs]] = lambda _: frozenset(),
        observed: Callable[[OpenNow | None], None] = lambda _: None,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._client = client
        self._own = own
        self._find = find
        self._require_claim = require_claim
        self._hanging = hanging
        self._hung: frozenset[Hangs] = frozenset()
        self._observed = observed
        self._thread = PeriodicThread(self._step, name="orphan-sweep", interval=interval, patience=_SWEEP_SECONDS)

    def start(self, *, after: float = 0.0) -> None:
        """Sweeps again and again until :meth:`close`.

        :param after: seconds until the first sweep.
        """
        self._thread.start(after=after)

    def close(self) -> None:
        """Ends the thread, and waits for a sweep under way."""
        self._thread.close()

    def sweep(self) -> tuple[str, ...]:
        """One sweep; returns the ids of the transactions that it has aborted.

        :raises CheckpointConflict: another attempt owns the job; nothing was aborted.
        :raises KafkaAccessError: its subclasses: what is open is not known.
        """
        deadline = Deadline.after(_SWEEP_SECONDS)
        described = self._client.describe(self._find(deadline), deadline=deadline)
        found = {
            transactional_id: now
            for transactional_id, now in described.items()
            if now.state is TransactionState.ONGOING
        }
        orphans = self._unused(found)
        if orphans:
            self._own.reusable.retire([(each, now.producer_id, now.producer_epoch) for each, now in orphans.items()])
            orphans = self._unused(orphans)
        aborted = self._abort(orphans, deadline) if orphans else ()
        left = [now.start_time_ms for transactional_id, now in found.items() if transactional_id not in aborted]
        before, self._hung = self._hung, self._look_for_hanging()
        hanging = len({hangs.transactional_id for hangs in self._hung & before})
        self._observed(OpenNow(count=len(left), oldest_start_millis=min(left, default=None), hanging=hanging))
        return aborted

    def _unused(self, found: dict[str, TransactionDescription]) -> dict[str, TransactionDescription]:
        in_use = frozenset(self._own.ids_in_use())
        return {transactional_id: now for transactional_id, now in found.items() if transactional_id not in in_use}

    def _abort(self, orphans: dict[str, TransactionDescription], deadline: Deadline) -> tuple[str, ...]:
        self._require_claim()
        ends = [
            EndTxn(
                transactional_id=transactional_id,
                producer_id=now.producer_id,
                producer_epoch=now.producer_epoch,
                commit=False,
            )
            for transactional_id, now in orphans.items()
        ]
        answers = self._client.end_all(ends, deadline=deadline)
        for end, answer in zip(ends, answers, strict=True):
            said = answer.name if isinstance(answer, EndTxnAnswer) else answer
            LOG.warning("orphan %s, no transaction of a running checkpoint: aborted: %s", end.transactional_id, said)
        return tuple(
            end.transactional_id for end, answer in zip(ends, answers, strict=True) if answer is EndTxnAnswer.NONE
        )

    def _look_for_hanging(self) -> frozenset[Hangs]:
        """What hung before where the leaders do not answer: without a leader no marker is written."""
        try:
            return self._hanging(Deadline.after(_LEADERS_SECONDS))
        except KafkaSparkJobError as error:
            LOG.info("what hangs in partitions is not known: %s", error.message)
            return self._hung

    def _step(self) -> None:
        try:
            self.sweep()
        except Exception as error:
            self._observed(None)
            if not isinstance(error, KafkaSparkJobError):
                raise
            LOG.warning("open transactions are not known: %s", error.message)
