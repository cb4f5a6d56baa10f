"""What people should hear of an attempt, by events on the resource: how it recovered, and that records do not parse."""

from __future__ import annotations

import logging
from typing import Protocol

from sparkapp.checkpoint.recovery import Recovery
from sparkapp.model.checkpoint import Counters
from sparkapp.model.job import Job

LOG = logging.getLogger(__name__)

_SHOWN = 5


class Events(Protocol):
    """Where events go; the driver's reporter."""

    def event(self, reason: str, message: str, *, warning: bool = False) -> None: ...


class Announcements:
    """Made once for an attempt, when it has recovered."""

    def __init__(self, job: Job, events: Events) -> None:
        self._job = job
        self._events = events
        self._bad_records: int | None = None
        """Records that had not parsed before this attempt; None once people have been told of more."""

    def recovery(self, recovery: Recovery) -> None:
        """What became of former attempts' transactions, and where this attempt goes on if not where they stopped."""
        counters = recovery.document.counters
        self._bad_records = counters.records_skipped + counters.records_dead_lettered
        if recovery.aborted:
            self._events.event(
                "TransactionsAborted", f"{recovery.aborted} lingering transaction(s) of former attempts aborted"
            )
        if recovery.restored is not None:
            LOG.info("%s", recovery.restored.describe())
            self._events.event("RestoredFromCheckpoint", recovery.restored.describe())
        elif recovery.first_start and self._job.spec.restore.checkpoint and self._job.spec.restore.nonce:
            message = (
                "this is the job's first start, there is no checkpoint to go back to; from here on a higher"
                " spec.redeployNonce restores spec.restoreFrom"
            )
            self._events.event("RestoreIgnored", message, warning=True)
        if recovery.edited:
            LOG.warning("%s", recovery.edited)
            self._events.event("StateEdited", recovery.edited, warning=True)
        if recovery.lost:
            ranges = ", ".join(f"{one.partition} [{one.start}, {one.stop})" for one in recovery.lost[:_SHOWN])
            self._events.event(
                "TransactionsLost", "the broker had aborted pre-committed transactions; "
                f"their source ranges are read and written again: {ranges}", warning=True,
            )  # fmt: skip

    def bad_records(self, counters: Counters) -> None:
        """Told once, at the first record that did not parse; from then on the numbers tell."""
        bad = counters.records_skipped + counters.records_dead_lettered
        if self._bad_records is not None and bad > self._bad_records:
            self._bad_records = None
            topic = self._job.spec.record_errors.dead_letter_topic
            what = f"go to topic {topic}" if topic else "are left out"
            message = f"records that do not parse {what}; their number is in status, {bad} since the job's first start"
            self._events.event("RecordsDeadLettered" if topic else "RecordsSkipped", message, warning=True)
