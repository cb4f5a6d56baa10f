"""Orphans: open transactions of a job's prefix that no running checkpoint writes, while the job runs.

A superseded attempt that goes on, or a request that comes late, can open a transaction after the start has aborted all
others. With ``sink.transactionTimeout: Never`` no time-out ends it, and readers wait behind it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sparkapp.model.deadline import Deadline
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.settlement import EndTxnAnswer
from sparkapp.sink.transaction_client import TransactionClient
from sparkapp.sink.transactions import EndTxn, TransactionDescription, TransactionState

LOG = logging.getLogger(__name__)

INTERVAL_SECONDS = 10.0
"""Between two sweeps. An orphan is promised to end within 30 s."""
_SWEEP_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNow:
    """What a sweep has left open.

    :param oldest_start_millis: when the oldest of them began, in its broker's clock; None where none is open.
    """

    count: int
    oldest_start_millis: int | None


class OrphanSweep:
    """Aborts orphans and tells what else is open; :meth:`sweep` once, or a thread of its own from :meth:`start` on.

    **What it cannot hit.** A triple names one transaction (ADR 28), and EndTxn by a triple ends no other one. The order
    of a sweep is: describe, ask what is in use, require the claim, end. A transaction that was described and belongs to
    this attempt is in use, or its checkpoint is complete and EndTxn changes nothing. One of a later attempt began after
    that attempt's claim, so it was not described before this one's claim was still valid.

    :param find: ids of the job that may be open, as far as coordinators tell.
    :param in_use: ids that the running checkpoint may write under; none where no checkpoint runs.
    :param require_claim: raises where another attempt owns the job; called before anything is ended.
    :param observed: told what is open after each sweep, None where it is not known.
    """

    def __init__(
        self,
        client: TransactionClient,
        *,
        find: Callable[[Deadline], Collection[str]],
        in_use: Callable[[], Collection[str]],
        require_claim: Callable[[], None],
        observed: Callable[[OpenNow | None], None] = lambda _: None,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._client = client
        self._find = find
        self._in_use = in_use
        self._require_claim = require_claim
        self._observed = observed
        self._interval = interval
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orphan-sweep", daemon=True)

    def start(self) -> None:
        """Sweeps at once, and again and again until :meth:`close`."""
        self._thread.start()

    def close(self) -> None:
        """No sweep begins after this; one that is under way is waited for."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(_SWEEP_SECONDS)

    def sweep(self) -> tuple[str, ...]:
        """One sweep; returns the ids of the transactions that it has aborted.

        :raises CheckpointConflict: another attempt owns the job; nothing was aborted.
        :raises KafkaAccessError: its subclasses: what is open is not known.
        """
        deadline = Deadline.after(_SWEEP_SECONDS)
        described = self._client.describe(self._find(deadline), deadline=deadline)
        found = {one: now for one, now in described.items() if now.state is TransactionState.ONGOING}
        in_use = frozenset(self._in_use())
        orphans = {one: now for one, now in found.items() if one not in in_use}
        aborted = self._abort(orphans, deadline) if orphans else ()
        left = [now.start_time_ms for one, now in found.items() if one not in aborted]
        self._observed(OpenNow(count=len(left), oldest_start_millis=min(left, default=None)))
        return aborted

    def _abort(self, orphans: dict[str, TransactionDescription], deadline: Deadline) -> tuple[str, ...]:
        self._require_claim()
        ends = [
            EndTxn(transactional_id=one, producer_id=now.producer_id, producer_epoch=now.producer_epoch, commit=False)
            for one, now in orphans.items()
        ]
        answers = self._client.end_all(ends, deadline=deadline)
        for end, answer in zip(ends, answers, strict=True):
            said = answer.name if isinstance(answer, EndTxnAnswer) else answer
            LOG.warning("orphan %s, no transaction of a running checkpoint: aborted: %s", end.transactional_id, said)
        return tuple(
            end.transactional_id for end, answer in zip(ends, answers, strict=True) if answer is EndTxnAnswer.NONE
        )

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self.sweep()
            except KafkaSparkJobError as error:
                LOG.warning("open transactions are not known: %s", error.message)
                self._observed(None)
            self._closed.wait(self._interval)
