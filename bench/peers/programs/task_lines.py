"""The input of a program in Python."""

from __future__ import annotations

import json
import os
import queue
import shlex
import sys
import threading
import traceback
from collections.abc import Callable

from bench.peers.program import ANSWER, STOP

Lines = queue.SimpleQueue[str | None]


class TaskLine:
    """A task's options, and its end.

    :param lines: of the standard input.
    """

    def __init__(self, line: str, lines: Lines) -> None:
        words = shlex.split(line)
        self._options = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
        self._lines = lines

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def get(self, name: str, default: str = "") -> str:
        """An option that the task may lack."""
        return self._options.get(name, default)

    @property
    def records(self) -> int:
        """0 for a task without an end."""
        return int(self._options["records"])

    def await_stop(self) -> None:
        """Waits for the line that ends a task without an end."""
        line = self._lines.get()
        if line is None:
            self._lines.put(None)  # the end of the input is the end of the program, too
        elif line != STOP:
            msg = f"not {STOP!r}: {line!r}"
            raise ValueError(msg)


def serve(run: Callable[[TaskLine], float]) -> None:
    """Runs each task of the standard input, and ends the process at its end or at the first failure.

    :param run: returns the moment of the last commit on the monotonic clock.
    """
    lines: Lines = queue.SimpleQueue()

    def read() -> None:
        with os.fdopen(0) as standard_input:
            for line in standard_input:
                lines.put(line.strip())
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while (line := lines.get()) is not None:
            ended = run(TaskLine(line, lines))
            print(ANSWER + json.dumps({"ended": ended}), flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # no thread that still reads is waited for
