"""The one exception that the tools raise for what a person can read and act on."""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path

LOG_TAIL_LINES = 12
_ERROR_LINES = 4
# How Java, Go's klog, Go itself, apt, pip and compilers mark what went wrong.
_ERROR = re.compile(r"\b(ERROR|FATAL|[A-Za-z]*Exception|panic:)|^[EF]\d{4} |^E: |(^| )(fatal |[A-Za-z]*)[eE]rror: ")


class SetupError(Exception):
    """Something the tool needs did not work: what, where its log is, and what to do about it.

    Raised anywhere in the package, caught once, by :func:`localcluster.cli.main`, which prints it without a
    traceback. Anything else that escapes is a bug of the tool and keeps its traceback.
    """

    def __init__(self, what: str, *, log: Path | None = None, hint: str = "") -> None:
        """``what`` failed, in one sentence; ``log`` is the file that tells more; ``hint`` says what to do."""
        super().__init__(what)
        self.what = what
        self.log = log
        self.hint = hint

    def report(self) -> str:
        """The whole message for a terminal: the failure, the log's last lines, the way out."""
        lines = [f"error: {self.what}"]
        if self.log is not None and self.log.exists():
            errors = error_lines(self.log)
            if errors:
                lines.append(f"  errors in {self.log}:")
                lines.extend(f"  | {line}" for line in errors)
            lines.append(f"  last lines of {self.log}:")
            lines.extend(f"  | {line}" for line in tail(self.log))
        if self.hint:
            lines.append(f"  what to do: {self.hint}")
        return "\n".join(lines)


def error_lines(log: Path, lines: int = _ERROR_LINES) -> list[str]:
    """The first ``lines`` lines of a log that tell of an error: what follows them is mostly its consequence."""
    found = []
    with log.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if _ERROR.search(line):
                found.append(line.rstrip("\n"))
                if len(found) == lines:
                    break
    return found


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> list[str]:
    """The last ``lines`` lines of a text file, whatever bytes are in it."""
    with log.open(encoding="utf-8", errors="replace") as stream:
        return [line.rstrip("\n") for line in deque(stream, maxlen=lines)]
