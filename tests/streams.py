"""``python -m tests.streams``: every test but those of the cluster, in streams side by side.

Each of them waits more than it works. Each writes ``artifacts/<stream>.log``; here is told how far they are, and in the
end what each said. The exit status is 0 if all of them passed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARTIFACTS = ROOT / "artifacts"
_ENGINE = "tests/integration/engine"
_PROTOCOL = "tests/integration/protocol"
_PROGRESS_SECONDS = 30
_CHATTER = re.compile(r"^%\d\|.*\|(FAIL|TERMINATE|GETPID)\|")
"""What librdkafka says when a broker has ended before its clients."""


@dataclass
class Stream:
    """One pytest; ``nice`` gives way to tests with tight deadlines."""

    name: str
    what: list[str]
    nice: bool = False

    def start(self) -> None:
        self.log = ARTIFACTS / f"{self.name}.log"
        command = [*(["nice", "-n", "5"] if self.nice else []), sys.executable, "-m", "pytest", "-q", *self.what]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    @property
    def progress(self) -> str:
        shares = re.findall(r"\[ *(\d+)%\]", self.log.read_text(errors="replace"))
        status = self.process.poll()
        return f"{self.name} {'failed' if status else 'passed' if status == 0 else f'{shares[-1] if shares else 0}%'}"

    def report(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(line for line in lines if not _CHATTER.match(line))


def streams() -> list[Stream]:
    """Everything below ``tests`` once, but ``tests/e2e``; Spark's files are dealt out by their size."""
    engine = sorted((ROOT / _ENGINE).glob("test_*.py"), key=lambda file: file.stat().st_size)
    dealt = [[str(file.relative_to(ROOT)) for file in engine[start::2]] for start in range(2)]
    return [
        Stream("protocol", ["tests/unit", "tests/property", "tests/conformance", _PROTOCOL]),
        Stream("parts", ["tests/integration", f"--ignore={_ENGINE}", f"--ignore={_PROTOCOL}"]),
        *(Stream(f"engine-{number}", files, nice=True) for number, files in enumerate(dealt, 1)),
    ]


def main() -> int:
    """Runs them all; 1 where one failed."""
    ARTIFACTS.mkdir(exist_ok=True)
    every = streams()
    began = time.monotonic()
    for one in every:
        one.start()
    told = 0.0
    while any(one.process.poll() is None for one in every):
        time.sleep(1)
        if time.monotonic() - told >= _PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"[{told - began:5.0f} s] " + ", ".join(one.progress for one in every), flush=True)
    for one in every:
        print(f"\n== {one.name}: {' '.join(one.what)}\n{one.report()}", flush=True)
    return int(any(one.process.returncode for one in every))


if __name__ == "__main__":
    sys.exit(main())
