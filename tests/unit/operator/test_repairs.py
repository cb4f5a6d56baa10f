"""A Failed or Finished job and changes of its resource: parallelism alone starts nothing, everything else does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.operator_bench import FATAL, FINISHED, KEY, OperatorBench


@pytest.fixture(params=["Failed", "Finished", "RestartLimitReached"])
async def bench(request: pytest.FixtureRequest) -> OperatorBench:
    """A job at rest."""
    bench = OperatorBench(
        source={"topics": ["orders"], "stopping": {"mode": "LATEST"}}, restartPolicy={"maxConsecutiveFailures": 1}
    )
    await bench.run()
    await end(bench, request.param)
    await bench.settle()
    assert bench.status["state"] == ("Finished" if request.param == "Finished" else "Failed")
    return bench


async def end(bench: OperatorBench, how: str) -> None:
    if how == "Finished":
        bench.checkpoint(1, 10, drained=True, finished=True)
        bench.driver_ends(1, FINISHED)
    else:
        bench.driver_ends(1, FATAL if how == "Failed" else None, code=137)


async def test_a_scale_starts_nothing_and_the_status_tells(bench: OperatorBench) -> None:
    before = bench.status
    for parallelism in (5, 3):
        bench.kubernetes.edit_job(KEY, parallelism=parallelism)
        await bench.settle()
        bench.wait(3600)
        bench.restart_operator()
        await bench.settle()
    assert bench.kubernetes.driver_attempts == [1]
    assert (bench.status["state"], bench.status["reason"]) == (before["state"], before["reason"])
    told = "a change of spec.parallelism alone does not start it; raise spec.restartNonce"
    assert bench.status["message"].count(told) == 1
    assert bench.status["observedGeneration"] == 3
    assert "ScaleIgnored" in bench.kubernetes.events()


@pytest.mark.parametrize(
    "change", [{"restartNonce": 1}, {"sink": {"topic": "other"}}, {"redeployNonce": 1}, {"image": "x:2"}]
)
async def test_any_other_change_starts_it_with_that_parallelism(bench: OperatorBench, change: dict[str, Any]) -> None:
    bench.kubernetes.edit_job(KEY, parallelism=5)
    await bench.settle()
    bench.kubernetes.edit_job(KEY, **change)
    await bench.settle()
    assert bench.kubernetes.driver_attempts == [1, 2]
    assert bench.status["parallelism"] == 5


async def test_it_starts_after_a_suspension_too(bench: OperatorBench) -> None:
    for change in ({"suspend": True}, {"suspend": False}):
        bench.kubernetes.edit_job(KEY, **change)
        await bench.settle()
    assert bench.kubernetes.driver_attempts == [1, 2]


@pytest.mark.parametrize(("how", "seen"), [("Failed", False), ("Finished", False), ("Finished", True)])
async def test_a_scale_just_before_the_end_changes_nothing_of_it(how: str, seen: bool) -> None:
    bench = OperatorBench(source={"topics": ["orders"], "stopping": {"mode": "LATEST"}})
    await bench.run()
    bench.kubernetes.edit_job(KEY, parallelism=5)
    if seen:
        await bench.look()
    await end(bench, how)
    await bench.settle()
    assert bench.status["state"] == how
    assert bench.kubernetes.driver_attempts == [1]
