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
from sparkapp.model.report import report_fields

_OF_EACH_REPORT = frozenset({"updated_at", "steps"})
"""Fields that differ in a report of a job that does nothing. Progress has an age, and no other meaning."""


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
_PROGRESS = ("attempt", "state", "checkpoint_id", "checkpoint_time", "steps")


def marks_of(body: Mapping[str, Any] | None) -> Marks:
    """The values of a report's ConfigMap, as :func:`~.observation.report_body` has reduced it; untrusted."""
    if body is None:
        return Marks()
    text = body["data"][names.REPORT_KEY]
    found = report_fields(text, job_uid=owner_uid(body))
    if found is None:
        return Marks(report=text)
    idle = found.get("lag_records") == 0 and found.get("lag_known") is not False
    progress = [found.get(name) for name in _PROGRESS]
    return Marks(report=text, progress=[*progress, idle], transaction=found.get("oldest_transaction_time"))


def is_heartbeat(before: Mapping[str, Any] | None, after: Mapping[str, Any], *, needs_load: bool) -> bool:
    """Whether a report tells nothing but that its driver runs.

    :param before: the report's ConfigMap as :func:`~.observation.report_body` has reduced it, and so is ``after``. None
        for none. The operator makes the ConfigMap without a report.
    :param needs_load: the job has an autoscaler. Other jobs need no load, which differs in each report.
    """
    if before is None:
        return not any(after["data"].values())
    if before["metadata"] != after["metadata"]:
        return False
    if before["data"] == after["data"]:
        return True
    uid = owner_uid(after)
    old, new = (report_fields(body["data"][names.REPORT_KEY], job_uid=uid) for body in (before, after))
    if old is None or new is None or before["data"][names.PREPARED_KEY] != after["data"][names.PREPARED_KEY]:
        return False
    ignored = _OF_EACH_REPORT if needs_load else _OF_EACH_REPORT | {"load"}
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)} <= ignored


class ObservedReport:
    """A job's report as the watches bring it: when each of its values changed.

    :param clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: Marks | None = None
        self._changed = [0.0, 0.0, 0.0]

    def see(self, marks: Marks) -> float:
        """Called for each report that a watch or a live look brings.

        :returns: the longest age that a value had until now; 0 for a first report.
        """
        now = self._clock()
        before = self._marks or (object(),) * len(marks)
        ended = [now - at for at, new, old in zip(self._changed, marks, before, strict=True) if new != old]
        longest = 0.0 if self._marks is None else max(ended, default=0.0)
        self._changed = [
            at if new == old else now for at, new, old in zip(self._changed, marks, before, strict=True)
        ]  # fmt: skip
        self._marks = marks
        return longest

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
