"""A bounded job that has read to its end: Finished, and left alone until the resource changes."""

from __future__ import annotations

import pytest

from tests.support.operator_bench import FINISHED, KEY, OperatorBench


@pytest.fixture
async def bench() -> OperatorBench:
    """A job whose driver has just finished."""
    bench = OperatorBench(source={"topics": ["orders"], "stopping": {"mode": "LATEST"}})
    await bench.run()
    bench.checkpoint(1, 10, drained=True, finished=True)
    bench.driver_ends(1, FINISHED)
    await bench.settle()
    return bench


async def test_it_is_told_by_state_and_condition_and_the_driver_stays_for_its_log(bench: OperatorBench) -> None:
    assert (bench.status["state"], bench.status["reason"]) == ("Finished", "Finished")
    assert bench.status["attempt"]["outcome"] == "Finished"
    assert bench.kubernetes.condition(KEY, "Finished")["status"] == "True"
    assert bench.ready["status"] == "False"
    assert bench.drivers == ["orders-1-driver"]
    assert bench.status["restarts"].get("total", 0) == 0


async def test_it_is_finished_when_its_executors_are_gone_and_never_restarting() -> None:
    bench = OperatorBench(source={"topics": ["orders"], "stopping": {"mode": "LATEST"}})
    await bench.run()
    executor = bench.kubernetes.add_executor(KEY, 1)
    await bench.settle()
    bench.checkpoint(1, 10, drained=True, finished=True)
    bench.driver_ends(1, FINISHED)
    await bench.look(2)
    assert bench.status["attempt"]["outcome"] == "Finished"
    assert (bench.status["state"], bench.status["reason"]) == ("Running", "WaitingForPods")
    assert bench.ready["status"] == "False"
    types = {one["type"] for one in bench.status["conditions"]}
    assert "Finished" not in types, "whoever waits for it may count on nothing being left"
    bench.kubernetes.remove(("Pod", "team", executor))
    await bench.settle()
    assert bench.status["state"] == "Finished"
    assert bench.kubernetes.condition(KEY, "Finished")["status"] == "True"


async def test_nothing_starts_it_again_but_a_change(bench: OperatorBench) -> None:
    bench.wait(3600)
    bench.restart_operator()
    await bench.settle()
    assert bench.status["state"] == "Finished"
    assert bench.drivers == ["orders-1-driver"]
    bench.kubernetes.edit_job(KEY, restartNonce=1)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["state"] == "Restarting"
    assert bench.kubernetes.condition(KEY, "Finished")["status"] == "False"


async def test_a_lost_status_does_not_start_it_again(bench: OperatorBench) -> None:
    bench.kubernetes.job(KEY)["status"] = {}
    bench.restart_operator()
    await bench.settle()
    assert bench.status["state"] == "Finished"
    assert bench.drivers == ["orders-1-driver"]


async def test_a_deleted_pod_does_not_start_it_again(bench: OperatorBench) -> None:
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    bench.restart_operator()
    await bench.settle()
    assert bench.status["state"] == "Finished"
    assert bench.drivers == []


async def test_the_state_tells_it_where_the_driver_left_no_last_word() -> None:
    bench = OperatorBench(source={"topics": ["orders"], "stopping": {"mode": "LATEST"}})
    await bench.run()
    bench.checkpoint(1, 10, drained=True, finished=True)
    bench.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await bench.settle()
    assert bench.status["state"] == "Finished"


async def test_suspended_and_resumed_it_runs_once_more(bench: OperatorBench) -> None:
    bench.kubernetes.edit_job(KEY, suspend=True)
    await bench.settle()
    assert bench.status["state"] == "Suspended"
    bench.kubernetes.edit_job(KEY, suspend=False)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
