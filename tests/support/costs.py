"""What each test costs: the CPU seconds of pytest and of all processes below it.

A plugin of pytest: ``pytest -p tests.support.costs --costs=FILE``. The file gets a line with tabs for each test.
:mod:`tests.streams` gives each stream a file. Pods of the local cluster are not below pytest. The CPU time of a test on
the cluster is that of its own questions alone; its duration is complete.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

_TICK = os.sysconf("SC_CLK_TCK")
_USER, _CHILDREN_SYSTEM = 13, 17
"""Fields of ``/proc/PID/stat`` (proc(5)), counted from 0: utime, stime, and those of the children that have ended."""


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, of its children that have ended, and of those that run. 0 if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for thread in threads for child in _children(thread)]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The name, the second field, may have spaces. The fields behind it begin with the third.
    own = sum(int(field) for field in fields[_USER - 2 : _CHILDREN_SYSTEM - 1]) / _TICK
    return own + sum(cpu_seconds(child) for child in children)


def _children(thread: Path) -> list[str]:
    try:
        return (thread / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []


class Costs:
    """A line for each test, with its fixtures: CPU seconds, seconds, and the test's name.

    :param file: to which the lines are added.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._cpu = cpu_seconds(os.getpid())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures from the end of the test before to the end of this one."""
        began = time.monotonic()
        result = yield
        now = cpu_seconds(os.getpid())
        with self._file.open("a") as file:
            file.write(f"{max(0.0, now - self._cpu):.2f}\t{time.monotonic() - began:.2f}\t{item.nodeid}\n")
        self._cpu = now
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    """The file."""
    parser.addoption("--costs", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    """Begins to measure."""
    config.pluginmanager.register(Costs(config.getoption("--costs")))
