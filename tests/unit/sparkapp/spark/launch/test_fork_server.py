"""A forked process behaves as a started process, but comes up sooner."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkapp.spark.launch.fork_server import ForkServer
from sparkapp.spark.launch.forked_python import SOCKET
from tests.support.patience import PATIENCE

DRIVER = """
import sys, threading
from sparkapp.spark.launch.fork_server import ForkServer
server = ForkServer()
print(server.folder, flush=True)
sys.stdin.readline()
if sys.argv[1:] == ["with-a-thread"]:
    threading.Thread(target=sys.stdin.readline).start()
server.start()
print("started", flush=True)
sys.stdin.readline()
"""
PROBE = """
import json, os, sys, time
if sys.argv[1] == "sleep":
    print("asleep", flush=True)
    time.sleep(60)
print(json.dumps({
    "arguments": sys.argv[1:], "name": __name__, "pid": os.getpid(), "parent": os.getppid(),
    "environment": dict(os.environ), "input": sys.stdin.read(), "pyarrow": "pyarrow" in sys.modules,
}))
print("a word of error", file=sys.stderr)
sys.exit(None if sys.argv[1] == "good" else int(sys.argv[1]))
"""


@dataclass
class Driver:
    """A program that holds a fork server, and obeys lines of its input."""

    process: subprocess.Popen[str]
    folder: Path

    @classmethod
    def begin(cls, *arguments: str) -> Driver:
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        return cls(process, Path(process.stdout.readline().strip()))

    def serve(self) -> None:
        self._order()
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "started\n"

    def _order(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    made = Driver.begin()
    made.serve()
    yield made
    made.end()


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


def command(driver: Driver, *arguments: str) -> list[str]:
    return [str(driver.folder / "python3"), *arguments]


def run(driver: Driver, modules: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(driver, "-m", "probe", *arguments), input=text, capture_output=True, text=True, timeout=PATIENCE,
        check=False, env={"PYTHONPATH": str(modules), "WORD": "süß"},
    )  # fmt: skip


def test_a_fork_has_arguments_environment_streams_and_status_of_its_caller(driver: Driver, modules: Path) -> None:
    done = run(driver, modules, "3", "-x", text="what comes in")
    received = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, "a word of error\n")
    assert (received["arguments"], received["name"], received["input"]) == (["3", "-x"], "__main__", "what comes in")
    assert received["environment"] == {"PYTHONPATH": str(modules), "WORD": "süß"} | {
        name: value for name, value in received["environment"].items() if name == "LC_CTYPE"
    }
    assert received["pyarrow"], "it has what its parent has imported"


def test_forks_have_one_parent_which_is_not_the_caller(driver: Driver, modules: Path) -> None:
    parents = {json.loads(run(driver, modules, "good").stdout)["parent"] for _ in range(2)}
    assert len(parents) == 1
    assert parents != {os.getpid()}


def test_an_error_ends_with_a_traceback_and_a_status(driver: Driver, modules: Path) -> None:
    done = run(driver, modules, "no number")
    assert done.returncode == 1
    assert "ValueError: invalid literal for int()" in done.stderr


def test_a_signal_reaches_the_fork(driver: Driver, modules: Path) -> None:
    with subprocess.Popen(
        command(driver, "-m", "probe", "sleep"), stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": str(modules)}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asleep\n"
        process.send_signal(signal.SIGTERM)
        # Its output ends with the fork, not with its stand-in.
        assert process.stdout.read() == ""
        assert process.wait(PATIENCE) != 0


def test_a_signal_that_comes_before_the_answer_of_the_server_reaches_the_fork() -> None:
    folder = ForkServer().folder
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / SOCKET))
        listener.listen()
        with (
            subprocess.Popen([folder / "python3", "-m", "probe"]) as stand_in,
            subprocess.Popen(["sleep", "60"]) as fork,
        ):
            connection, _ = listener.accept()
            stand_in.send_signal(signal.SIGTERM)
            with suppress(BrokenPipeError):
                connection.sendall(fork.pid.to_bytes(4, "big"))
            try:
                assert fork.wait(PATIENCE) == -signal.SIGTERM
            finally:
                fork.kill()
            connection.sendall(bytes([7]))
            assert stand_in.wait(PATIENCE) == 7
            connection.close()
    shutil.rmtree(folder)


def test_what_is_no_module_gets_a_python_of_its_own(driver: Driver) -> None:
    program = "import os, sys; print(os.getppid(), 'pyarrow' in sys.modules)"
    done = subprocess.run(command(driver, "-c", program), capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(os.getpid()), "False"]


def test_before_the_server_has_begun_and_next_to_threads_python_is_started(modules: Path) -> None:
    driver = Driver.begin("with-a-thread")
    assert not json.loads(run(driver, modules, "good").stdout)["pyarrow"]
    driver.serve()
    assert not json.loads(run(driver, modules, "good").stdout)["pyarrow"], "a lock of another thread may be held"
    driver.end()


def test_a_killed_driver_leaves_neither_server_nor_folder(modules: Path) -> None:
    driver = Driver.begin()
    driver.serve()
    server = json.loads(run(driver, modules, "good").stdout)["parent"]
    driver.process.kill()
    driver.process.communicate()
    end = time.monotonic() + PATIENCE
    while (Path(f"/proc/{server}").exists() or driver.folder.exists()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not driver.folder.exists()
    assert not Path(f"/proc/{server}").exists()
