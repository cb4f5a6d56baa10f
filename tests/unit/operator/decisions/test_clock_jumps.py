"""The clock of the operator's node is set forward or back by an hour: no attempt is lost, doubled or kept waiting."""

from __future__ import annotations

import pytest

from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, OperatorFixture

HOUR = 3600.0
JUMPS = [HOUR, -HOUR]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_running_job_is_left_alone(jump: float) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    await operator_fixture.settle()
    operator_fixture.wait(jump)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert (operator_fixture.ready["status"], operator_fixture.status["state"]) == ("True", "Running")


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_pause_after_a_failure_does_not_last_an_hour(jump: float) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    operator_fixture.wait(jump)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_pause_is_kept_as_long_as_it_can_be_right(jump: float) -> None:
    """The jump comes first: the next pause is measured by the new clock, and as long as ever."""
    operator_fixture = OperatorFixture(restartPolicy={"backoff": {"initialSeconds": 3}})
    await operator_fixture.run(1)
    operator_fixture.wait(jump)
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    operator_fixture.wait(1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_drain_that_nobody_asked_for(jump: float) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    operator_fixture.wait(jump)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_restarted_operator_adopts_what_runs(jump: float) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run(1)
    operator_fixture.wait(jump)
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert operator_fixture.drivers == ["orders-1-driver"]
