"""CPU time and memory of a program with all processes that it started, read from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_SESSION, _USER, _SYSTEM, _START = 3, 11, 12, 19
"""Fields of /proc/PID/stat, counted from the state, which follows the bracket of the name."""
_SAMPLE_SECONDS = 0.5


@dataclass(slots=True)
class Usage:
    """What a program used while it was watched.

    :param cpu_seconds: of all its processes, in user and system mode.
    :param peak_bytes: the largest sum of proportional set sizes, where shared pages count once.
    """

    cpu_seconds: float = 0.0
    peak_bytes: int = 0


@contextmanager
def watch(session: int) -> Iterator[Usage]:
    """Samples the processes of a session; the usage is complete when the block ends.

    A process keeps its session when its parent ends. A process that ends within 0.5 s is missed.

    :param session: the id of the program that leads the session.
    """
    usage = Usage()
    before = _ticks(session)
    latest: dict[tuple[int, int], int] = {}
    done = threading.Event()

    def sample() -> None:
        latest.update(_ticks(session))
        usage.peak_bytes = max(usage.peak_bytes, sum(_proportional_bytes(pid) for pid, _ in _ticks(session)))

    def run() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            sample()

    sampler = threading.Thread(target=run, daemon=True)
    sampler.start()
    try:
        yield usage
    finally:
        done.set()
        sampler.join()
        sample()
        usage.cpu_seconds = sum(ticks - before.get(process, 0) for process, ticks in latest.items()) / _TICKS


def _ticks(session: int) -> dict[tuple[int, int], int]:
    """CPU ticks of each process of the session, by its id and start."""
    found = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[_SESSION]) == session:
            found[int(folder.name), int(fields[_START])] = int(fields[_USER]) + int(fields[_SYSTEM])
    return found


def _proportional_bytes(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
