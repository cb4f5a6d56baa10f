"""Reports to the operator: collects changes and events, and writes a report after a change or for a heartbeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.report import (
    HEARTBEAT_SECONDS,
    MAX_EVENTS,
    MAX_MESSAGE,
    DriverState,
    Report,
    ReportEvent,
    encode_report,
)


def now() -> str:
    """The present time in RFC 3339, UTC, whole seconds, as in Kubernetes."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Reporter:
    """Writes reports in its own thread, at most once an interval, so that no checkpoint waits for it. Thread-safe.

    :param write: puts the text where the operator reads it; must not raise.
    :param interval: seconds between two reports at least.
    :param heartbeat: seconds after which an unchanged report is written again.
    :param steps: the number of the present step, for each report; must not block.
    """

    def __init__(
        self, *, job_uid: str, attempt: int, write: Callable[[str], None], interval: float = 2.0,
        heartbeat: float = HEARTBEAT_SECONDS, steps: Callable[[], int] | None = None,
    ) -> None:  # fmt: skip
        self._report = Report(
            job_uid=job_uid, attempt=attempt, state=DriverState.STARTING, updated_at=now(),
            heartbeat_seconds=HEARTBEAT_SECONDS,
        )  # fmt: skip
        self._heartbeat = heartbeat
        self._steps = steps
        self._write = write
        self._interval = interval
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._sequence = 0
        self._changed.set()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        self._thread.start()

    def update(self, **changes: Any) -> None:
        """Replaces fields of the report."""
        with self._lock:
            self._report = replace(self._report, **changes)
        self._changed.set()

    def event(self, reason: DriverEvent, message: str, *, warning: bool = False) -> None:
        """Adds an event for the operator to publish on the resource."""
        with self._lock:
            self._sequence += 1
            event = ReportEvent(
                sequence=self._sequence, type="Warning" if warning else "Normal", reason=reason,
                message=message[:MAX_MESSAGE], time=now(),
            )  # fmt: skip
            self._report = replace(self._report, events=(*self._report.events, event)[-MAX_EVENTS:])
        self._changed.set()

    def warn(self, reason: DriverEvent, message: str) -> None:
        """Adds an event of type Warning."""
        self.event(reason, message, warning=True)

    def close(self) -> None:
        """Writes the last report and ends the thread."""
        self._closed.set()
        self._changed.set()
        self._thread.join(timeout=15)

    def _run(self) -> None:
        while True:
            self._changed.wait(self._heartbeat)
            self._changed.clear()
            with self._lock:
                steps = 0 if self._steps is None else self._steps()
                self._report = replace(self._report, updated_at=now(), steps=steps)
                text = encode_report(self._report)
            self._write(text)
            if self._closed.is_set():
                if not self._changed.is_set():
                    return
                continue
            self._closed.wait(self._interval)
