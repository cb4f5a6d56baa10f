"""The clock of the operator's node is set forward or back by an hour: no attempt is lost, doubled or kept waiting."""

from __future__ import annotations

import pytest

from tests.support.operator_bench import DRAINED, FAILED, KEY, OperatorBench

HOUR = 3600.0
JUMPS = [HOUR, -HOUR]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_running_job_is_left_alone(jump: float) -> None:
    bench = OperatorBench()
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1)
    await bench.settle()
    bench.wait(jump)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    assert (bench.ready["status"], bench.status["state"]) == ("True", "Running")


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_pause_after_a_failure_does_not_last_an_hour(jump: float) -> None:
    bench = OperatorBench()
    await bench.run(1)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    bench.wait(jump)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_pause_is_kept_as_long_as_it_can_be_right(jump: float) -> None:
    """The jump comes first: the next pause is measured by the new clock, and as long as ever."""
    bench = OperatorBench(restartPolicy={"backoff": {"initialSeconds": 5}})
    await bench.run(1)
    bench.wait(jump)
    bench.driver_ends(1, FAILED)
    await bench.settle()
    bench.wait(4)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    bench.wait(1)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_drain_that_nobody_asked_for(jump: float) -> None:
    bench = OperatorBench()
    await bench.run(1)
    bench.wait(jump)
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1, 2]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_restarted_operator_adopts_what_runs(jump: float) -> None:
    bench = OperatorBench()
    await bench.run(1)
    bench.wait(jump)
    bench.restart_operator()
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    assert bench.drivers == ["orders-1-driver"]
