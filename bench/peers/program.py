"""A contestant's program: a process that takes tasks by its standard input, one a line, and stays between them.

A line has ``--name value`` pairs. The program answers a task with a line ``ANSWER {"ended": seconds}``: the moment of
the last commit on the monotonic clock, which all processes share. A task without an end runs until the line ``stop``.
A program that fails ends itself with a message on its standard error, and one without standard input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.allocator import allocator
from bench.peers.workload import Shape
from sparkapp.model.delivery_guarantee import DeliveryGuarantee

ANSWER = "ANSWER "
STOP = "stop"
_CLOSE_SECONDS = 30.0


class ProgramFailed(Exception):
    """A program ended, or did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One line of a program's input.

    :param records: of the source; 0 for a task without an end.
    :param interval_millis: between commits or checkpoints.
    :param options: of this contestant, for its program alone.
    """

    bootstrap: str
    source: str
    sink: str
    records: int
    delivery_guarantee: DeliveryGuarantee
    parallelism: int
    interval_millis: int
    shape: Shape = Shape.COPY
    options: Mapping[str, str] = field(default_factory=dict)

    def line(self) -> str:
        """The task as a program reads it."""
        pairs = {
            "bootstrap": self.bootstrap, "source": self.source, "sink": self.sink, "records": str(self.records),
            "delivery-guarantee": self.delivery_guarantee.value, "parallelism": str(self.parallelism),
            "interval-millis": str(self.interval_millis), "shape": self.shape.value, **self.options,
        }  # fmt: skip
        return " ".join(f"--{name} {value}" for name, value in pairs.items())


class Program:
    """A running program. The leader of a session of its own, so that its processes can be told from others."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        """
        :param log: of its standard error.
        """
        self._name = name
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                start_new_session=True, env={**os.environ, **allocator()},
            )  # fmt: skip
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def session(self) -> int:
        """The id of the session of its processes."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def begin(self, task: Task) -> None:
        """Hands it a task. :meth:`answer` waits for the end.

        :raises ProgramFailed: it has ended.
        """
        self._write(task.line())

    def stop(self) -> None:
        """Ends a task without an end.

        :raises ProgramFailed: it has ended.
        """
        self._write(STOP)

    def answer(self, seconds: float) -> float:
        """Waits for the answer to the task.

        :returns: the moment of the last commit on the monotonic clock.
        :raises ProgramFailed: it ended, or did not answer in time.
        """
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise self._failed() from None
        if line is None:
            self._answers.put(None)  # an end is an end for every later call, too
            raise self._failed()
        return float(json.loads(line)["ended"])

    def close(self) -> None:
        """Ends it with all its processes."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise self._failed() from error

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                self._answers.put(line.removeprefix(ANSWER))
        self._answers.put(None)

    def _failed(self) -> ProgramFailed:
        status = self._process.poll()
        what = "did not answer in time" if status is None else f"ended with status {status}"
        last = self._log.read_text(errors="replace").strip().splitlines()[-5:]
        return ProgramFailed(f"{self._name} {what}: " + " | ".join(last))
