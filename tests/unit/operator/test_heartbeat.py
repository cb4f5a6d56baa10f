"""A driver whose reports stop: what the status says by the operator's own clock, and what follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sparkapp.model import names
from tests.support.operator_bench import DRAINED, KEY, OperatorBench

BEAT = {"heartbeat_seconds": 10, "checkpoint_id": 10, "lag_records": 7}
STANDBY = {"restartPolicy": {"successor": "Standby"}}


async def running(**spec: Any) -> OperatorBench:
    bench = OperatorBench(**spec)
    await bench.run()
    bench.kubernetes.add_executor(KEY, 1)
    beat(bench)
    await bench.settle()
    assert bench.ready["status"] == "True"
    return bench


def beat(bench: OperatorBench, **fields: Any) -> None:
    """A driver's clock is its own: what it writes as the time is a text to the operator."""
    bench.report(1, updated_at=f"2020-01-01T00:00:00.{bench.now.timestamp()}", **(BEAT | fields))


async def seen_from_the_cache(bench: OperatorBench) -> None:
    await bench.reconciler.reconcile(KEY)


def lose_node(bench: OperatorBench, pod: str) -> None:
    status = bench.kubernetes.objects["Pod", "team", pod]["status"]
    status["conditions"] = [{"type": "Ready", "status": "False"}]


async def test_a_silent_driver_is_neither_ready_nor_healthy_and_its_lag_is_unknown() -> None:
    bench = await running()
    assert bench.status["source"]["lagRecords"] == 7
    bench.wait(29)
    await seen_from_the_cache(bench)
    assert bench.ready["status"] == "True"
    bench.wait(2)
    await seen_from_the_cache(bench)
    assert (bench.ready["status"], bench.ready["reason"]) == ("False", "HeartbeatTimeout")
    condition = bench.kubernetes.condition(KEY, "CheckpointHealthy")
    assert (condition["status"], condition["reason"]) == ("False", "HeartbeatTimeout")
    assert bench.kubernetes.condition(KEY, "TransactionsHealthy")["status"] == "Unknown"
    assert "lagRecords" not in bench.status["source"]
    assert bench.kubernetes.events(warning=True) == ["HeartbeatTimeout"]
    assert bench.drivers == ["orders-1-driver"]

    beat(bench)
    await bench.settle()
    assert bench.ready["status"] == "True"
    assert bench.status["source"]["lagRecords"] == 7


async def test_transactions_that_run_out_of_time_are_told_by_the_condition() -> None:
    bench = await running()
    beat(bench, transaction_time_used=80, transactions_known=True)
    await bench.settle()
    condition = bench.kubernetes.condition(KEY, "TransactionsHealthy")
    assert (condition["status"], condition["reason"]) == ("True", "TransactionTimeRunsOut")
    assert "80 %" in condition["message"]


async def test_the_operator_looks_again_by_its_own_clock() -> None:
    bench = await running()
    bench.wait(12)
    await seen_from_the_cache(bench)
    timer = bench.queue._timers[KEY]
    assert 0 < timer.when() - asyncio.get_running_loop().time() <= 18.1


async def test_an_idle_driver_that_sends_heartbeats_stays_ready() -> None:
    bench = await running()
    for _ in range(20):
        bench.wait(10)
        beat(bench)
        await bench.settle()
        assert bench.ready["status"] == "True"


async def test_a_driver_of_a_previous_release_sends_no_heartbeats_and_is_not_judged_by_them() -> None:
    bench = await running()
    beat(bench, heartbeat_seconds=0)
    await bench.settle()
    bench.wait(3600)
    await bench.settle()
    assert bench.ready["status"] == "True"


async def test_a_report_that_only_the_watch_has_missed_is_no_silence() -> None:
    bench = await running()
    bench.wait(40)
    beat(bench)
    await seen_from_the_cache(bench)
    assert bench.ready["status"] == "True"


async def test_a_driver_that_stays_silent_is_ended_and_the_next_attempt_starts_when_it_is_gone() -> None:
    bench = await running()
    bench.wait(80)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]
    assert "deletionTimestamp" not in bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    bench.wait(11)
    await bench.settle()
    assert bench.status["attempt"]["stopReason"] == "HeartbeatTimeout"
    assert "deletionTimestamp" in bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    assert bench.drivers == ["orders-1-driver"], "its pod may still write"
    bench.kubernetes.pod_ends("orders-1-exec-1")
    bench.driver_ends(1, code=137, reason="Error")
    await bench.settle()
    assert bench.status["lastFailure"]["reason"] == "HeartbeatTimeout"
    assert bench.status["restarts"]["total"] == 1
    bench.wait(2)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]


async def test_a_driver_that_wakes_up_and_drains_is_no_failure() -> None:
    bench = await running()
    bench.wait(100)
    await bench.settle()
    bench.checkpoint(1, 11, drained=True)
    bench.kubernetes.pod_ends("orders-1-exec-1")
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert "lastFailure" not in bench.status
    assert bench.drivers == ["orders-2-driver"]


async def test_a_silent_driver_beside_a_standby_is_replaced_at_once() -> None:
    bench = await running(**STANDBY)
    bench.wait(31)
    beat(bench)
    await bench.settle()
    bench.kubernetes.pod_runs("orders-2-driver")
    bench.wait(31)
    await bench.settle()
    bench.wait(2)
    await bench.settle()
    assert bench.status["attempt"]["id"] == 2


@pytest.mark.parametrize("silent", [True, False])
async def test_a_pod_that_is_not_ready_ends_the_attempt_only_where_its_driver_is_silent(silent: bool) -> None:
    bench = await running()
    lose_node(bench, "orders-1-driver")
    bench.wait(31)
    if not silent:
        beat(bench)
    await bench.settle()
    deleted = "deletionTimestamp" in bench.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    assert deleted is silent
    assert (bench.ready["status"] == "True") is not silent


async def test_with_standby_a_lost_node_is_not_waited_for() -> None:
    bench = await running(**STANDBY)
    bench.wait(31)
    beat(bench)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver", "orders-2-driver"]
    bench.kubernetes.pod_runs("orders-2-driver")
    lose_node(bench, "orders-1-driver")
    bench.wait(31)
    await bench.settle()
    bench.wait(2)
    await bench.settle()
    assert "orders-1-driver" in bench.drivers, "nobody can delete a pod of a node that is gone"
    assert bench.status["attempt"]["id"] == 2
    annotations = bench.kubernetes.objects["Pod", "team", "orders-2-driver"]["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_TURN] == names.TURN_GIVEN
    assert bench.status["lastFailure"]["reason"] == "HeartbeatTimeout"

    bench.kubernetes.add_executor(KEY, 2)
    bench.report(2, checkpoint_id=11, heartbeat_seconds=10, lag_records=0)
    await bench.settle()
    assert bench.ready["status"] == "True"


async def test_a_standby_on_a_lost_node_is_no_successor() -> None:
    bench = await running(**STANDBY)
    bench.wait(31)
    beat(bench)
    await bench.settle()
    bench.kubernetes.pod_runs("orders-2-driver")
    lose_node(bench, "orders-1-driver")
    lose_node(bench, "orders-2-driver")
    bench.wait(31)
    await bench.settle()
    assert bench.status["attempt"]["id"] == 1
    assert bench.status["state"] == "Restarting"
