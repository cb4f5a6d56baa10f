"""The soak itself: what it counts when its time is up."""

import time

import pytest

from tests.soak.__main__ import report


def test_schedules_under_way_when_the_time_is_up_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    status = report([((7,), ""), ((9,), None), ((8,), "lost"), ((10,), None)], time.monotonic())

    assert "1 schedules clean, seeds 7 to 8, failed seeds: [8]" in capsys.readouterr().out
    assert status == 1
