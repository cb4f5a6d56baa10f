"""Only processes that are certainly ours are ever signalled."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster.machine.processes import Daemons, Identity, spawn

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


@pytest.fixture
def daemons(tmp_path: Path) -> Daemons:
    return Daemons(tmp_path / "processes", tmp_path / "log")


def test_a_started_process_is_found_again_by_the_next_command(daemons: Daemons, tmp_path: Path) -> None:
    started = daemons.start("sleeper", SLEEPER)
    try:
        assert Daemons(tmp_path / "processes", tmp_path / "log").running("sleeper") == started
        assert daemons.start("sleeper", SLEEPER) == started
    finally:
        daemons.stop("sleeper")
    assert daemons.running("sleeper") is None
    assert not started.is_running()


def test_a_recycled_process_id_is_somebody_else(daemons: Daemons, tmp_path: Path) -> None:
    myself = Identity.of(os.getpid())
    assert myself is not None
    previous = replace(myself, start_ticks=myself.start_ticks - 1)
    (tmp_path / "processes").mkdir()
    (tmp_path / "processes" / "sleeper.json").write_text(json.dumps({"identity": previous.__dict__}))
    assert daemons.running("sleeper") is None
    daemons.stop("sleeper")  # would end this test run if it believed the record


def test_a_process_of_the_boot_before_is_not_ours() -> None:
    myself = Identity.of(os.getpid())
    assert myself is not None
    assert myself.is_running()
    assert not replace(myself, boot="another boot").is_running()


def test_a_frozen_process_has_no_thread_that_runs_on(tmp_path: Path) -> None:
    busy = """
import threading
def count():
    with open("/dev/stdout", "a", buffering=1) as out:
        while True:
            print("x", file=out)
for _ in range(8):
    threading.Thread(target=count).start()
"""
    log = tmp_path / "busy.log"
    process = spawn([sys.executable, "-c", busy], log)
    try:
        while not log.stat().st_size:
            time.sleep(0.01)
        for _ in range(5):
            assert process.freeze(10)
            size = log.stat().st_size
            time.sleep(0.05)
            assert log.stat().st_size == size
            process.send(signal.SIGCONT)
            while log.stat().st_size == size:
                time.sleep(0.001)
    finally:
        process.send(signal.SIGKILL)
        process.wait_until_gone(10)
    assert not process.freeze(10), "there is none any more"


@pytest.mark.parametrize("record", ["", "{", "{}", '{"identity": {"pid": 1}}'])
def test_a_record_cut_short_by_a_crash_is_no_process(daemons: Daemons, tmp_path: Path, record: str) -> None:
    (tmp_path / "processes").mkdir()
    (tmp_path / "processes" / "sleeper.json").write_text(record)
    assert daemons.running("sleeper") is None


def test_the_log_of_the_run_before_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for word in ("first", "second"):
        spawn([sys.executable, "-c", f"print({word!r})"], log).wait_until_gone(10)
    assert log.read_text() == "second\n"
    assert log.with_name("x.log.1").read_text() == "first\n"


def test_a_process_that_has_ended_is_not_running(tmp_path: Path) -> None:
    identity = spawn([sys.executable, "-c", ""], tmp_path / "x.log")
    assert identity.wait_until_gone(10)
    assert not identity.is_running()
