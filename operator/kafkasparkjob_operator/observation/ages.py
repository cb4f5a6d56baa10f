"""The ages of a report and of its values, by the clock of the process that observes them.

A driver and a broker write times of their own clocks, which may differ from the operator's by hours. So an age counts
from the moment at which this process saw a value change (ADR 29). A process that starts counts from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkasparkjob_operator.identity import owner_uid
from sparkapp.model import names
from sparkapp.model.report import decode_report


class Marks(NamedTuple):
    """The values of a report whose ages count.

    :param report: its whole text: every heartbeat changes it.
    :param progress: attempt, state, checkpoint and steps, and whether there is anything to read.
    :param transaction: start of the oldest open transaction.
    """

    report: object = None
    progress: object = None
    transaction: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """Seconds since each of the :class:`Marks` was seen to change; 0 for an unknown age."""

    report: float = 0.0
    progress: float = 0.0
    transaction: float = 0.0


UNKNOWN = Ages()
"""No report was seen."""


def marks_of(body: Mapping[str, Any] | None) -> Marks:
    """The values of a report's ConfigMap, as :func:`~.observation.report_body` has reduced it; untrusted."""
    if body is None:
        return Marks()
    text = body["data"][names.REPORT_KEY]
    found = decode_report(text, job_uid=owner_uid(body))
    if found is None:
        return Marks(report=text)
    progress = (
        found.attempt,
        found.state,
        found.checkpoint_id,
        found.checkpoint_time,
        found.lag_records == 0,
        found.steps,
    )
    return Marks(report=text, progress=progress, transaction=found.oldest_transaction_time)


class ObservedReport:
    """A job's report as the watches bring it: when each of its values changed.

    :param clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: Marks | None = None
        self._changed = [0.0, 0.0, 0.0]

    def see(self, marks: Marks) -> None:
        """Called for each report that a watch or a live look brings."""
        now = self._clock()
        before = self._marks or (object(),) * len(marks)
        self._changed = [
            at if new == old else now for at, new, old in zip(self._changed, marks, before, strict=True)
        ]  # fmt: skip
        self._marks = marks

    def restart(self) -> None:
        """Counts from now: this process could not see whether the report changed."""
        self._changed = [self._clock()] * len(self._changed)

    def ages(self, found: Marks | None = None) -> Ages:
        """The ages now.

        :param found: of a live look, which may be newer than what the watches have brought.
        """
        if self._marks is None:
            return UNKNOWN
        now, marks = self._clock(), found or self._marks
        report, progress, transaction = (
            now - at if new == old else 0.0 for at, new, old in zip(self._changed, marks, self._marks, strict=True)
        )
        return Ages(report=report, progress=progress, transaction=transaction)
