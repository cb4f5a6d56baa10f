"""``python -m tests.streams``: every test, in streams side by side.

The cluster's tests come first. They have deadlines, so the machine is theirs; what they leave of it goes to tests that
have all the time in the world. Of the others each waits more than it works: what takes long begins first, and where one
has ended the next one begins. Each stream writes ``artifacts/<stream>.log``; here is told how far they are, and in the
end what each said. The exit status is 0 if all of them passed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARTIFACTS = ROOT / "artifacts"
_ENGINE = "tests/integration/engine"
_FAULTS = "tests/integration/faults"
_KUBEAPI = "tests/integration/kubeapi"
_PROTOCOL = "tests/integration/protocol"
_PROGRESS_SECONDS = 30
WIDTH = 5
"""Streams at a time, once the cluster's tests are over."""
_PATIENCE = "--timeout=600"
_CHATTER = re.compile(r"^%\d\|.*\|(FAIL|TERMINATE|GETPID)\|")
"""What librdkafka says when a broker has ended before its clients."""


@dataclass
class Stream:
    """One pytest.

    :param alone: beside it run only streams that are patient, one at a time.
    :param patient: needs neither broker nor cluster, and gives way to everything.
    :param nice: gives way to tests with tight deadlines.
    """

    name: str
    what: list[str]
    alone: bool = False
    patient: bool = False
    nice: bool = False
    process: subprocess.Popen[bytes] | None = None
    cost: str = ""
    """Once it has ended: time by the clock, and of CPU by it and what it has waited for."""

    @property
    def log(self) -> Path:
        return ARTIFACTS / f"{self.name}.log"

    @property
    def began(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        self._began = time.monotonic()
        niceness = 19 if self.patient else 5 if self.nice else 0
        command = ["nice", "-n", str(niceness), sys.executable, "-m", "pytest", "-q", *self.what]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    @property
    def status(self) -> int | None:
        if self.process is None:
            return None
        if self.process.returncode is None:
            # Popen's own way does not tell what the process has used.
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                seconds = time.monotonic() - self._began
                how = f", ended by signal {-self.process.returncode}" if self.process.returncode < 0 else ""
                self.cost = f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU{how}"
        return self.process.returncode

    @property
    def progress(self) -> str:
        if self.process is None:
            return f"{self.name} waits"
        shares = re.findall(r"\[ *(\d+)%\]", self.log.read_text(errors="replace"))
        status = self.status
        return f"{self.name} {'failed' if status else 'passed' if status == 0 else f'{shares[-1] if shares else 0}%'}"

    def report(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not _CHATTER.match(line))


def streams() -> list[Stream]:
    """Everything below ``tests`` once."""
    apart = (_ENGINE, _FAULTS, _KUBEAPI, _PROTOCOL)
    return [
        Stream("cluster", ["tests/e2e", "-vv", "--durations=12"], alone=True),
        Stream("properties", ["tests/property", _PATIENCE], patient=True),
        Stream("units", ["tests/unit", _PATIENCE], patient=True),
        *(Stream(f"engine-{number}", files, nice=True) for number, files in enumerate(_dealt(_ENGINE), 1)),
        *(Stream(f"protocol-{number}", files) for number, files in enumerate(_dealt(_PROTOCOL), 1)),
        Stream("parts", ["tests/integration", *(f"--ignore={folder}" for folder in apart)]),
        Stream("conformance", ["tests/conformance"]),
        Stream("kubernetes", [_KUBEAPI]),
        Stream("faults", [_FAULTS]),
    ]


def _dealt(folder: str) -> list[list[str]]:
    """A folder's files for two streams, by their size in turns."""
    files = sorted((ROOT / folder).glob("test_*.py"), key=lambda file: file.stat().st_size)
    return [[str(file.relative_to(ROOT)) for file in files[start::2]] for start in range(2)]


def due(every: list[Stream]) -> list[Stream]:
    """Which of them are to begin now."""
    waiting = [one for one in every if not one.began]
    running = [one for one in every if one.began and one.status is None]
    if not any(one.alone for one in (*waiting, *running)):
        return waiting[: WIDTH - len(running)]
    beside = [one for one in waiting if one.patient]
    return [one for one in waiting if one.alone] + beside[: not any(one.patient for one in running)]


def main() -> int:
    """Runs them all; 1 where one failed."""
    ARTIFACTS.mkdir(exist_ok=True)
    every = streams()
    began = time.monotonic()
    told = 0.0
    while any(one.status is None for one in every):
        for one in due(every):
            one.start()
        time.sleep(1)
        if time.monotonic() - told >= _PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"[{told - began:5.0f} s] " + ", ".join(one.progress for one in every), flush=True)
    for one in every:
        print(f"\n== {one.name}: {' '.join(one.what)}\n{one.report()}\n{one.cost}", flush=True)
    return int(any(one.status for one in every))


if __name__ == "__main__":
    sys.exit(main())
