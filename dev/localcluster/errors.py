"""The exception for failures that a person can understand and solve."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

LOG_TAIL_LINES = 12
_ERROR_LINES = 4
# How Java, klog, Go, apt, pip and compilers mark an error.
_ERROR = re.compile(r"\b(ERROR|FATAL|[A-Za-z]*Exception|panic:)|^[EF]\d{4} |^E: |(^| )(fatal |[A-Za-z]*)[eE]rror: ")


class SetupError(Exception):
    """A step of the tool failed. The error has the failure, its log and a remedy.

    :func:`localcluster.cli.main` prints it without a traceback. Any other exception is a bug of the tool and keeps its
    traceback.
    """

    def __init__(self, what: str, *, log: Path | None = None, hint: str = "") -> None:
        """``what`` failed and why; ``log`` is the file with the details; ``hint`` is the remedy."""
        super().__init__(what)
        self.what = what
        self.log = log
        self.hint = hint

    def report(self) -> str:
        """The message for a terminal: the failure, the log's errors and last lines, the remedy."""
        lines = [f"error: {self.what}"]
        if self.log is not None and self.log.exists():
            errors = error_lines(self.log)
            if errors:
                lines.append(f"  errors in {self.log}:")
                lines.extend(f"  | {line}" for line in errors)
            lines.append(f"  last lines of {self.log}:")
            lines.extend(f"  | {line}" for line in tail(self.log))
        if self.hint:
            lines.append(f"  Fix: {self.hint}")
        return "\n".join(lines)


def error_lines(log: Path, lines: int = _ERROR_LINES) -> list[str]:
    """The first ``lines`` error lines of a log: later error lines are mostly consequences."""
    found = []
    with log.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if _ERROR.search(line):
                found.append(line.rstrip("\n"))
                if len(found) == lines:
                    break
    return found


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> list[str]:
    """The last ``lines`` lines of a file, which may hold any bytes."""
    with log.open(encoding="utf-8", errors="replace") as stream:
        return [line.rstrip("\n") for line in deque(stream, maxlen=lines)]
