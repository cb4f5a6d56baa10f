"""``python -m tests.streams``: runs the tests of every commit, in parallel streams; with ``--all``, every test.

A test with the mark ``thorough`` is not for every commit. ``docs/internals/tests.md`` says which tests have it.

The cluster's tests come first, together with patient tests at a lower priority: two streams of jobs, and then the tests
that change the operator. The first of the other streams run next to them as soon as one of the jobs' streams has ended.
The longest of the other streams start first. When a stream ends, the next stream starts. In the pipeline the cluster
ends with its last test.

A stream writes ``artifacts/<stream>.log``, and ``artifacts/<stream>.costs`` with the cost of each test. The program
prints their progress with the failures so far, because a limit of time may end the run before its reports. It prints
a stream's report when the stream has ended, and at the end the failures of all. The exit status is 0 if all passed.

A stream's temporary files are in a folder of its own. It is removed unless a test of the stream failed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARTIFACTS = ROOT / "artifacts"
_DATAPLANE = "tests/integration/dataplane"
_ENGINE = "tests/integration/engine"
_FAULTS = "tests/integration/faults"
BY_HAND = "tests/integration/images"
"""``make images-test``: builds an image twice from nothing, with the exact packages of the lock. The machine's archive
of Debian may have newer versions, so these tests say something about a release, and not about every commit."""
_KUBEAPI = "tests/integration/kubeapi"
_PROTOCOL = "tests/integration/protocol"
_SECURITY = "tests/integration/security"
_PROGRESS_SECONDS = 30
_JOBS, _OPERATOR, _LAST = 1, 2, 3
"""The stages. The last is that of the streams without the cluster."""
WIDTH = {_JOBS: 5, _OPERATOR: 5, _LAST: 6}
"""Number of parallel streams in a stage that streams without the cluster take part in."""
_CLUSTER = "tests/e2e"
CHANGE_THE_OPERATOR = tuple(
    f"{_CLUSTER}/test_{name}.py"
    for name in ("absences", "canary", "lifecycle", "network_policies", "release", "upgrade")
)
"""They install another release, or end the operator, which every other test on the cluster uses."""
_STORIES = tuple(f"{_CLUSTER}/test_{name}.py" for name in ("story", "crash_points", "no_leak"))
"""About half of the time of the other tests on the cluster."""
_CHATTER = re.compile(r"^%\d\|.*\|(FAIL|TERMINATE|GETPID)\|")
"""Lines that librdkafka logs when a broker ends before its clients."""
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
"""A line of pytest's short summary."""
_NO_TEST = 5
"""pytest's exit status where no test was selected."""
_COSTLIEST = 25


@dataclass
class Stream:
    """A run of pytest.

    :param stage: starts when every stream of an earlier stage has ended.
    :param patient: needs neither broker nor cluster, and may run next to the cluster's tests.
    :param niceness: as of ``nice``. At 19 a stream next to four others would stand still for half a minute at a time.
    :param is_every: with the tests that have the mark ``thorough``.
    """

    name: str
    what: list[str]
    stage: int = _LAST
    patient: bool = False
    niceness: int = 0
    is_every: bool = True
    process: subprocess.Popen[bytes] | None = None
    temporary: str = ""
    """The folder of its temporary files. Tests kill processes with SIGKILL, and those remove nothing."""
    cost: str = ""
    """After its end: the duration, and the CPU time with that of its child processes."""

    @property
    def log(self) -> Path:
        return ARTIFACTS / f"{self.name}.log"

    @property
    def costs(self) -> Path:
        """See :mod:`tests.support.costs`."""
        return ARTIFACTS / f"{self.name}.costs"

    @property
    def began(self) -> bool:
        return self.process is not None

    def start(self) -> None:
        self._began = time.monotonic()
        self.costs.unlink(missing_ok=True)
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.costs", f"--costs={self.costs}"]
        selected = [] if self.is_every else ["-m", "not thorough"]
        command = ["nice", "-n", str(self.niceness), *pytest, *selected, *self.what]
        # A short name, because a path of a socket may have 107 characters.
        self.temporary = tempfile.mkdtemp(prefix="")
        environment = {**os.environ, "TMPDIR": self.temporary}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)

    @property
    def status(self) -> int | None:
        if self.process is None:
            return None
        if self.process.returncode is None:
            # Popen does not report the CPU time of the process.
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.process.returncode = 0 if code == _NO_TEST and not self.is_every else code
                seconds = time.monotonic() - self._began
                how = f", ended by signal {-self.process.returncode}" if self.process.returncode < 0 else ""
                self.cost = f"{seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU{how}"
                if self.process.returncode:
                    self.cost += f"; its files are in {self.temporary}"
                else:
                    shutil.rmtree(self.temporary, ignore_errors=True)
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
        shown = "\n".join(line for line in lines if not _CHATTER.match(line))
        return f"\n== {self.name}: {' '.join(self.what)}\n{shown}\n{self.cost}"

    @property
    def failures(self) -> list[str]:
        """The tests that failed, of a stream that has ended; the stream itself if it failed without a test."""
        if not self.status:
            return []
        found = _FAILURE.findall(self.log.read_text(errors="replace"))
        return found or [f"{self.name} ended with status {self.status}"]


def streams(*, is_every: bool) -> list[Stream]:
    """Every test below ``tests``, once, but those of :data:`BY_HAND` and, unless ``is_every``, the thorough tests."""
    apart = (_DATAPLANE, _ENGINE, _FAULTS, BY_HAND, _KUBEAPI, _PROTOCOL, _SECURITY)
    elsewhere = [f"--ignore={file}" for file in (*CHANGE_THE_OPERATOR, *_STORIES)]
    # A stream costs a start of pytest and of a broker: for less work there are fewer.
    protocol = _dealt("protocol", 4 if is_every else 3, files_below(_PROTOCOL))
    engine = _dealt("engine", 3 if is_every else 1, files_below(_ENGINE), niceness=5)
    parts = _dealt("parts", 2, files_below("tests/integration", apart))
    # The second half fills the processors at the end, when the others wait.
    units = _dealt("units", 2, files_below("tests/unit"), niceness=10)
    units[0].patient = True
    found = [
        Stream("stories", [*_STORIES, "-vv"], stage=_JOBS),
        Stream("jobs", [_CLUSTER, *elsewhere, "-vv"], stage=_JOBS),
        Stream("operator", [*CHANGE_THE_OPERATOR, "-vv"], stage=_OPERATOR),
        Stream("kubernetes", [_KUBEAPI], patient=True, niceness=5),
        Stream("properties", ["tests/property"], patient=True, niceness=10),
        units[0],
        *protocol,
        *parts,
        Stream("faults", [_FAULTS]),
        *engine,
        Stream("dataplane", [_DATAPLANE]),
        Stream("conformance", ["tests/conformance"]),
        Stream("security", [_SECURITY]),
        units[1],
    ]
    for stream in found:
        stream.is_every = is_every
    return found


def files_below(folder: str, apart: Sequence[str] = ()) -> list[str]:
    """The files of tests below a folder but those below the folders ``apart``, the smallest first."""
    files = sorted((ROOT / folder).rglob("test_*.py"), key=lambda file: file.stat().st_size)
    names = [str(file.relative_to(ROOT)) for file in files]
    return [name for name in names if not name.startswith(tuple(f"{each}/" for each in apart))]


def _dealt(name: str, hands: int, files: Sequence[str], *, niceness: int = 0) -> list[Stream]:
    """Streams of about the same size."""
    return [
        Stream(f"{name}-{number}", list(files[number - 1 :: hands]), niceness=niceness)
        for number in range(1, hands + 1)
    ]


def due(every: list[Stream]) -> list[Stream]:
    """The streams that start now."""
    waiting = [stream for stream in every if not stream.began]
    running = [stream for stream in every if stream.began and stream.status is None]
    stage = min((stream.stage for stream in (*waiting, *running) if not stream.patient), default=_LAST)
    patient = [stream for stream in waiting if stream.patient]
    ours = [stream for stream in waiting if stream.stage == stage and not stream.patient]
    if stage == _LAST:
        return [*patient, *ours][: WIDTH[stage] - len(running)]
    found = ours + patient[: not any(stream.patient for stream in running)]
    if stage == _OPERATOR or any(stream.stage == stage and stream.status is not None for stream in every):
        others = [stream for stream in waiting if stream.stage == _LAST and not stream.patient]
        found += others[: max(0, WIDTH[stage] - len(running) - len(found))]
    return found


def main() -> int:
    """Runs all streams; 1 if a stream failed."""
    ARTIFACTS.mkdir(exist_ok=True)
    every = streams(is_every="--all" in sys.argv[1:])
    reported: list[Stream] = []
    began = time.monotonic()
    printed = 0.0
    down: subprocess.Popen[bytes] | None = None
    while len(reported) < len(every):
        for stream in due(every):
            stream.start()
        time.sleep(1)
        for stream in [each for each in every if each.status is not None and each not in reported]:
            print(stream.report(), flush=True)
            reported.append(stream)
        if down is None and "CI" in os.environ and all(each.status is not None for each in every if each.stage < _LAST):
            down = subprocess.Popen(["make", "--no-print-directory", "cluster-down"], cwd=ROOT)
        if time.monotonic() - printed >= _PROGRESS_SECONDS:
            printed = time.monotonic()
            print(f"[{printed - began:5.0f} s] " + ", ".join(stream.progress for stream in every), flush=True)
            _print_failures(every)
    _print_failures(every)
    print(costliest(every), flush=True)
    if down is not None:
        down.wait()
    return int(any(stream.status for stream in every))


def costliest(every: Sequence[Stream]) -> str:
    """The sum of the costs, and the tests that use the processors most: CPU seconds, seconds, name."""
    costs = [line.split("\t") for each in every if each.costs.exists() for line in each.costs.read_text().splitlines()]
    costs.sort(key=lambda cost: -float(cost[0]))
    lines = [f"{float(cpu):8.1f} {float(seconds):8.1f}  {name}" for cpu, seconds, name in costs[:_COSTLIEST]]
    total = sum(float(cost[0]) for cost in costs)
    return "\n".join([f"\n== {len(costs)} tests, {total:.0f} s of CPU; the costliest, in s of CPU and s", *lines])


def _print_failures(every: list[Stream]) -> None:
    for stream in every:
        for failure in stream.failures:
            print(f"  failed: {failure}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
