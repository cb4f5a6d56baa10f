"""Why Kubernetes refuses executors' pods: the answers to Spark's requests, which only Spark's log has (ADR 65)."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sparkapp.clients.daemon_thread import PeriodicThread
from sparkapp.model.report import MAX_MESSAGE

LOG = logging.getLogger(__name__)

HOLD_SECONDS = 30.0
"""A refusal that is this old is over. Spark asks again each second, or as ``spark.kubernetes.allocation.batch.delay``
has it; then three of these pauses."""
_LOOK_SECONDS = 2.0
_TAIL_BYTES = 64 * 1024
"""More than the lines between two looks; the JVM starts another file at this size."""
_ANSWER = re.compile(r"Message: (.*?)\. Received status: ", re.DOTALL)
"""The API server's own text within the message of Spark's client."""
_NUMBER = re.compile(r"-exec-\d+")
_GAVE_UP = "Max number of executor failures"


class ExecutorPodsLog:
    """Made by the driver; a thread of its own reads the log of the JVM's allocator until :meth:`close`.

    :param file: of :func:`sparkapp.spark.launch.settings.pods_log`.
    :param report: gets fields of the driver's report.
    :param clock: monotonic, in seconds.
    """

    def __init__(self, file: Path, report: Callable[..., None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._report = report
        self._clock = clock
        self._place = -1
        self._seen_at = clock()
        self._pause = 0.0
        self._refusal = self._reported = ""
        self._thread = PeriodicThread(self.look, name="executor-pods", interval=_LOOK_SECONDS)

    def start(self) -> None:
        """Starts the thread; called before Spark asks for executors."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread."""
        self._thread.close()

    def look(self) -> None:
        """Reports a new refusal, and the end of a refusal."""
        now = self._clock()
        place, refusal = next(self._refusals(), (self._place, ""))
        if place != self._place:
            self._pause = now - self._seen_at if self._place >= 0 else 0.0
            self._place, self._seen_at, self._refusal = place, now, refusal
        if now - self._seen_at > max(HOLD_SECONDS, 3 * self._pause):
            self._refusal = ""
        if self._refusal != self._reported:
            if self._refusal:
                LOG.warning("Kubernetes refuses executors: %s", self._refusal)
            self._reported = self._refusal
            self._report(executors_refused=self._refusal)

    @property
    def gave_up(self) -> str:
        """What Spark said when it ended the application because too many executors failed; else empty."""
        said = (message for _, message, _ in self._newest_first() if message.startswith(_GAVE_UP))
        return next(said, "")

    def _refusals(self) -> Iterator[tuple[int, str]]:
        for place, _, cause in self._newest_first():
            if cause:
                found = _ANSWER.search(cause)
                # The name has the executor's number, which is another at each try.
                text = _NUMBER.sub("-exec-N", found.group(1) if found else cause)
                yield place, " ".join(text.split())[:MAX_MESSAGE]

    def _newest_first(self) -> Iterator[tuple[int, str, str]]:
        """Place, message and cause of each entry in the last part of the file."""
        try:
            with self._file.open("rb") as file:
                place = file.seek(max(0, self._file.stat().st_size - _TAIL_BYTES))
                lines = file.read(_TAIL_BYTES).splitlines(keepends=True)
        except FileNotFoundError:
            return
        place += sum(map(len, lines))
        for line in reversed(lines):
            place -= len(line)
            # The first line may be cut, and the last may still be written.
            if line.startswith(b"{") and line.endswith(b"\n"):
                try:
                    body = json.loads(line)
                except ValueError:
                    continue
                yield place, str(body.get("message") or ""), str(body.get("cause") or "")
