"""Progress lines with the elapsed seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

HEARTBEAT_SECONDS = 10.0


class Step:
    """A running step. The code that does the work may set :attr:`detail` to report how far it is."""

    def __init__(self) -> None:
        """A step without a detail."""
        self.detail = ""


class Progress:
    """Prints the running steps and their duration; safe to use from several threads."""

    def __init__(self, stream: TextIO | None = None, heartbeat: float = HEARTBEAT_SECONDS) -> None:
        """``heartbeat``: seconds between two lines of a running step."""
        self._stream = stream if stream is not None else sys.stdout
        self._heartbeat = heartbeat
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        """Prints a line with the seconds since this object was created."""
        with self._lock:
            print(f"[{time.monotonic() - self._began:6.1f} s] {text}", file=self._stream, flush=True)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Prints the begin of a step, a line every few seconds, and at the end its duration or that it failed."""
        step = Step()
        began = time.monotonic()
        finished = threading.Event()

        def beat() -> None:
            while not finished.wait(self._heartbeat):
                detail = f": {step.detail}" if step.detail else ""
                self.say(f"  … {name}{detail} ({time.monotonic() - began:.0f} s so far)")

        self.say(name)
        thread = threading.Thread(target=beat, name=f"heartbeat of {name}", daemon=True)
        thread.start()
        outcome = "failed"
        try:
            yield step
            outcome = "done"
        finally:
            finished.set()
            thread.join()
            took = time.monotonic() - began
            if outcome == "failed" or took >= 1:
                self.say(f"{name}: {outcome} in {took:.1f} s")
