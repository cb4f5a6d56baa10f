"""The soak itself: what it counts when its time is up, and attempts that share a process."""

import time
from types import SimpleNamespace

import pytest

from tests.soak.__main__ import report
from tests.support.jobs.engine_host import give_code


def test_schedules_under_way_when_the_time_is_up_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    status = report([((7,), ""), ((9,), None), ((8,), "lost"), ((10,), None)], time.monotonic())

    assert "1 schedules clean, seeds 7 to 8, failed seeds: [8]" in capsys.readouterr().out
    assert status == 1


def test_an_attempt_that_starts_leaves_alone_what_another_sends_to_the_jvm() -> None:
    context = SimpleNamespace(environment={"KAFKASPARK_CODE": "/code", "OTHER": "1"})
    sent = iter(context.environment)
    assert next(sent) == "KAFKASPARK_CODE"
    give_code(SimpleNamespace(sparkContext=context), {"spark.executorEnv.KAFKASPARK_CODE": "/code"})  # type: ignore[arg-type]
    assert list(sent) == ["OTHER"]
    assert context.environment == {"KAFKASPARK_CODE": "/code", "OTHER": "1"}
