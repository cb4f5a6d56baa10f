"""Daemons: processes that outlive the command that started them, and that the next command finds again.

Each started process is recorded in a small file. A process id alone is not an identity, because the kernel reuses it.
The record also has the boot and the process's start time. Only a process that matches all of them is ever signalled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_PROC = Path("/proc")
_START_TIME_FIELD = 22  # of /proc/PID/stat, counted from 1 as proc(5) does
_POLL_SECONDS = 0.05
_FREEZE_POLL_SECONDS = 0.001


@dataclass(frozen=True)
class Identity:
    """Identifies a process, and not a later process with the same id."""

    pid: int
    start_ticks: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Identity | None:
        """The identity of a running process, or None if it does not run. A zombie does not run."""
        try:
            stat = (_PROC / str(pid) / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The command name, field 2, may have blanks and brackets: the fields follow its last bracket.
        fields = stat.rpartition(")")[2].split()
        if fields[0] in {"Z", "X"}:
            return None
        return cls(pid=pid, start_ticks=int(fields[_START_TIME_FIELD - 3]), boot=_boot_id())

    def is_running(self) -> bool:
        """Whether exactly this process still runs."""
        return Identity.of(self.pid) == self

    def send(self, number: signal.Signals) -> bool:
        """Signals the process if it still runs; returns whether it did."""
        if not self.is_running():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return True

    def freeze(self, seconds: float) -> bool:
        """Stops the process and waits until none of its threads runs; returns whether they stopped in time.

        The signal takes effect when a thread next gets a processor. On a busy machine other threads run until then.
        """
        deadline = time.monotonic() + seconds
        if not self.send(signal.SIGSTOP):
            return False
        while not self._is_frozen():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_FREEZE_POLL_SECONDS)
        return True

    def _is_frozen(self) -> bool:
        states = set()
        for stat in (_PROC / str(self.pid) / "task").glob("*/stat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                states.add(stat.read_text().rpartition(")")[2].split()[0])
        return states == {"T"}

    def wait_until_gone(self, seconds: float) -> bool:
        """Waits until the process has ended, and reaps it if it is a child; returns whether it ended in time."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
            if not self.is_running():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def end(identity: Identity, grace_seconds: float) -> None:
    """Sends SIGTERM to a process, and SIGKILL after the grace time."""
    if identity.send(signal.SIGTERM) and not identity.wait_until_gone(grace_seconds):
        identity.send(signal.SIGKILL)
        identity.wait_until_gone(grace_seconds)


def spawn(
    argv: Sequence[str | Path], log: Path, *, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> Identity:
    """Starts a process in its own session, with its output in ``log``. The previous log is kept as ``.1``.

    :raises OSError: the program does not exist or is not executable.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(argument) for argument in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environment) if environment is not None else None,
            start_new_session=True,
        )
    identity = Identity.of(process.pid)
    process.returncode = 0  # silences "still running" at exit: the process is followed by its identity
    return identity if identity is not None else Identity(pid=process.pid, start_ticks=-1, boot=_boot_id())


class Daemons:
    """The recorded processes of a cluster, by name."""

    def __init__(self, records: Path, logs: Path) -> None:
        """``records``: the folder of the record files. ``logs``: the folder of the processes' logs."""
        self._records = records
        self._logs = logs

    def log(self, name: str) -> Path:
        """The log of the named process."""
        return self._logs / f"{name}.log"

    def running(self, name: str) -> Identity | None:
        """The named process if it was started by this tool and still runs."""
        try:
            identity = Identity(**json.loads(self._record(name).read_text())["identity"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # never started, or a crash cut the record short
        return identity if identity.is_running() else None

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Identity:
        """Starts and records the named process, if it does not run; returns its identity."""
        running = self.running(name)
        if running is not None:
            return running
        identity = spawn(argv, self.log(name), cwd=cwd, environment=environment)
        self._records.mkdir(parents=True, exist_ok=True)
        record = {"identity": asdict(identity), "argv": [str(argument) for argument in argv]}
        unfinished = self._record(name).with_suffix(".tmp")
        unfinished.write_text(json.dumps(record, indent=1))
        unfinished.replace(self._record(name))
        return identity

    def stop(self, name: str, grace_seconds: float = 10.0) -> None:
        """Ends the named process if it runs, and deletes its record."""
        identity = self.running(name)
        if identity is not None:
            end(identity, grace_seconds)
        self._record(name).unlink(missing_ok=True)

    def _record(self, name: str) -> Path:
        return self._records / f"{name}.json"
