"""Events on the resource about an attempt: its recovery, records that fail, and its subtasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from sparkapp.checkpoint.recovery.recovery import Recovery
from sparkapp.model.checkpoint.document import Counters
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.job.spec import Job
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.frames.record_policy import catches

LOG = logging.getLogger(__name__)

_SHOWN = 5


class Events(Protocol):
    """Receives events; the driver's reporter."""

    def event(self, reason: DriverEvent, message: str, *, warning: bool = False) -> None:
        """Adds an event, see :meth:`sparkapp.spark.reporting.reporter.Reporter.event`."""
        ...


class Announcements:
    """Made by the wiring once an attempt, after recovery."""

    def __init__(self, job: Job, events: Events) -> None:
        self._job = job
        self._events = events
        self._bad_records: int | None = None
        """Records that failed before this attempt; None after the event about more of them."""
        self._silent: set[int] = set()
        self._waits = False
        self._all_dropped = False
        self._growing: frozenset[str] = frozenset()

    def recovery(self, recovery: Recovery) -> None:
        """Events about aborted and lost transactions, a restored checkpoint and an edited document."""
        counters = recovery.document.counters
        self._bad_records = counters.records_skipped + counters.records_dead_lettered
        if recovery.aborted:
            self._events.event(
                DriverEvent.TRANSACTIONS_ABORTED,
                f"aborted {recovery.aborted} lingering transaction(s) of previous attempts",
            )
        if recovery.restored is not None:
            LOG.info("%s", recovery.restored.describe())
            is_start = recovery.restored.first_start
            reason = DriverEvent.STARTED_FROM_SNAPSHOT if is_start else DriverEvent.RESTORED_FROM_CHECKPOINT
            self._events.event(reason, recovery.restored.describe())
        elif (
            not recovery.document.checkpoint_id
            and recovery.first_start
            and self._job.spec.restore.names_target
            and self._job.spec.restore.nonce
        ):
            message = (
                "spec.restore has no effect on the job's first start: there is no checkpoint yet."
                " A later increase of spec.restore.nonce restores the checkpoint"
            )
            self._events.event(DriverEvent.RESTORE_IGNORED, message, warning=True)
        if recovery.edited:
            LOG.warning("%s", recovery.edited)
            self._events.event(DriverEvent.STATE_EDITED, recovery.edited, warning=True)
        if recovery.lost:
            ranges = ", ".join(f"{split.partition} [{split.start}, {split.stop})" for split in recovery.lost[:_SHOWN])
            self._events.event(
                DriverEvent.TRANSACTIONS_LOST, "the brokers aborted pre-committed transactions: "
                f"their source ranges are read and written again: {ranges}", warning=True,
            )  # fmt: skip

    def left_behind(self, recovery: Recovery, starts: Mapping[TopicPartition, int]) -> None:
        """An event about a stateless start, when the source has found where its partitions begin."""
        if recovery.left is not None:
            message = recovery.left.describe(starts)
            LOG.info("%s", message)
            self._events.event(DriverEvent.STARTED_STATELESS, message)

    def bad_records(self, counters: Counters) -> None:
        """An event at the attempt's first record that fails; later records are counted in the status only.

        :param counters: of the completed checkpoint.
        """
        bad = counters.records_skipped + counters.records_dead_lettered
        if self._bad_records is not None and bad > self._bad_records:
            self._bad_records = None
            topic = self._job.spec.record_errors.dead_letter_topic
            what = f"written to topic {topic}" if topic else "skipped"
            which = "do not parse, or that the transform fails for," if catches(self._job.spec) else "do not parse"
            message = f"records that {which} are {what}: {bad} since the job's first start, see status"
            self._events.event(self._reason_of_bad_records(), message, warning=True)

    def growing_state(self, findings: Sequence[str]) -> None:
        """A warning of this attempt for each operator that never forgets, where the first batch's plan has such.

        :param findings: of :attr:`sparkapp.spark.engine.interface.Engine.growing_state`.
        """
        for finding in findings:
            if finding not in self._growing:
                self._growing |= {finding}
                LOG.warning("%s", finding)
                self._events.event(DriverEvent.STATE_GROWS, finding, warning=True)

    def records_dropped(self, finding: str) -> None:
        """An event each time that all or many records of the job, a topic or a schema begin to be dropped.

        :param finding: of a completed checkpoint; empty where records parse.
        """
        if finding and not self._all_dropped:
            self._events.event(self._reason_of_bad_records(), finding, warning=True)
        self._all_dropped = bool(finding)

    def _reason_of_bad_records(self) -> DriverEvent:
        diverted = bool(self._job.spec.record_errors.dead_letter_topic)
        return DriverEvent.RECORDS_DEAD_LETTERED if diverted else DriverEvent.RECORDS_SKIPPED

    def subtask_silent(self, subtask: int) -> None:
        """An event at a subtask's first silence of this attempt; the log has all of them."""
        if subtask not in self._silent:
            self._silent.add(subtask)
            self._events.event(
                DriverEvent.SUBTASK_SILENT,
                f"subtask {subtask} is silent, and Spark starts its task again",
                warning=True,
            )

    def subtasks_wait(self, subtasks: set[int]) -> None:
        """An event at the first long wait of this attempt for executors with a place for every subtask."""
        if not self._waits:
            self._waits = True
            self._events.event(
                DriverEvent.SUBTASKS_WAIT,
                f"subtasks {sorted(subtasks)} wait for executors: all subtasks run at the same time",
                warning=True,
            )  # fmt: skip
