"""What a person sees: progress while it works, and a way out when it fails."""

import io
import time
from pathlib import Path

import pytest

from localcluster.errors import SetupError
from localcluster.machine.commands import run
from localcluster.progress import Progress


def test_a_failed_command_shows_its_log_and_what_to_do(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    script = "for i in $(seq 40); do echo line $i; done; exit 3"
    with pytest.raises(SetupError) as caught:
        run(["sh", "-c", script], log=log, hint="try again")
    report = caught.value.report()
    assert "ended with status 3" in report
    assert str(log) in report
    assert "| line 40" in report
    assert "| line 25\n" not in report
    assert report.endswith("Fix: try again")


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no-such-program"):
        run(["no-such-program"], log=tmp_path / "x.log")


def test_a_long_step_says_how_far_it_is() -> None:
    screen = io.StringIO()
    with Progress(screen, heartbeat=0.02).step("build") as step:
        step.detail = "package 7 of 9"
        time.sleep(0.1)
    assert "… build: package 7 of 9" in screen.getvalue()


def test_a_failed_step_says_so() -> None:
    screen = io.StringIO()
    with pytest.raises(SetupError), Progress(screen).step("build"):
        raise SetupError("no")
    assert "build: failed" in screen.getvalue()
