"""``kafkaspark dev`` as a process: it runs again after each change of a file, on the same Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkaspark.__main__ import main
from tests.support.jobs.local_job import ROOT, START_SECONDS, environment

pytestmark = pytest.mark.spark


class Dev:
    """The process, and what it has printed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder.with_suffix(".log")
        # A shell that runs the tests in the background ignores the signal, and its children inherit that.
        command = ["env", "--default-signal=INT"]
        command += [sys.executable, "-m", "kafkaspark", "dev", "job.yaml", "--input", "orders.jsonl"]
        path = os.pathsep.join([str(ROOT), str(ROOT / "operator")])
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, env={**environment(), "PYTHONPATH": path}, stdout=log, stderr=log
            )

    @property
    def printed(self) -> str:
        return self._log.read_text(errors="replace")

    def change(self, file: str, before: str, after: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after))

    def await_rounds(self, count: int) -> str:
        """What the last round of that number has printed."""
        end = time.monotonic() + START_SECONDS
        while self.printed.count("waiting for a change") < count:
            assert self.process.poll() is None, self.printed
            assert time.monotonic() < end, self.printed
            time.sleep(0.05)
        return self.printed.split("waiting for a change")[count - 1]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Dev]]:
    monkeypatch.chdir(tmp_path)
    started: list[Dev] = []

    def begin(template: str) -> Dev:
        assert main(["init", "shop-orders", "--template", template]) == 0
        started.append(Dev(tmp_path / "shop-orders"))
        return started[-1]

    yield begin
    for dev in started:
        dev.process.kill()
        dev.process.wait()


@pytest.mark.parametrize("template", ["python", "arrow"])
def test_code_job_and_input_are_read_again(template: str, start: Callable[[str], Dev]) -> None:
    dev = start(template)
    assert "shop-orders-out ann: {" in dev.await_rounds(1)
    before, after, shown = {
        "python": ("TAX = 0.25", "TAX = 0.50", '"tax":125.0'), "arrow": ('"*"', '"#"', '"a##"'),
    }[template]  # fmt: skip
    dev.change("transform.py", before, after)
    assert shown in dev.await_rounds(2)
    dev.change("transform.py", "import", "imp0rt")
    assert "SyntaxError: invalid syntax (transform.py" in dev.await_rounds(3)
    dev.change("transform.py", "imp0rt", "import")
    dev.await_rounds(4)
    dev.change("orders.jsonl", "980.5", "1.25")
    assert "1.25" in dev.await_rounds(5)
    dev.change("job.yaml", "topic: shop-orders-out", "topic: elsewhere")
    assert "elsewhere ann: {" in dev.await_rounds(6)
    dev.change("job.yaml", "parallelism: 1", "parallelism: 0")
    assert "spec.parallelism" in dev.await_rounds(7)
    dev.process.send_signal(signal.SIGINT)
    assert dev.process.wait(60) == 0
