"""A job without executors reads nothing, whatever its driver says; an executor that ended by itself is told of."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.model.report import DriverState
from tests.support.operator_bench import DRAINED, KEY, OperatorBench


@pytest.fixture
def bench() -> OperatorBench:
    return OperatorBench()


def unschedulable(bench: OperatorBench, number: int = 1) -> str:
    name = bench.kubernetes.add_executor(KEY, 1, number, phase="Pending")
    words = {"reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}
    bench.kubernetes.objects["Pod", "team", name]["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", **words}
    ]
    return name


def ends(bench: OperatorBench, name: str, *, code: int = 1, reason: str = "Error", **status: Any) -> None:
    terminated = {"exitCode": code, "reason": reason}
    bench.kubernetes.objects["Pod", "team", name]["status"] = {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "executor", "state": {"terminated": terminated}}],
        **status,
    }


def messages(bench: OperatorBench, reason: str) -> list[str]:
    return [
        body["message"]
        for place, body in bench.kubernetes.objects.items()
        if place[0] == "Event" and body["reason"] == reason
    ]


async def test_ready_is_true_at_once_although_no_executor_is_seen_yet(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.wait(29)
    await bench.settle()
    assert bench.ready["status"] == "True"


async def test_a_job_without_executors_is_not_ready_and_says_what_the_scheduler_says(bench: OperatorBench) -> None:
    await bench.run(1)
    unschedulable(bench)
    bench.wait(31)
    await bench.settle()
    await bench.settle()
    assert (bench.ready["status"], bench.ready["reason"]) == ("False", "ExecutorsPending")
    assert bench.status["state"] == "Running"
    assert "Insufficient memory" in bench.status["message"]
    assert bench.kubernetes.events(warning=True) == ["ExecutorsPending"]


async def test_without_a_pod_to_look_at_the_drivers_log_is_named(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.wait(31)
    await bench.settle()
    assert bench.ready["reason"] == "ExecutorsPending"
    assert "kubectl logs orders-1-driver" in bench.status["message"]


async def test_it_is_looked_at_again_when_the_time_is_over(bench: OperatorBench) -> None:
    await bench.run(1)
    waits: list[float] = []
    bench.queue.add_after = lambda _, seconds: waits.append(seconds)  # type: ignore[method-assign]
    bench.wait(10)
    await bench.look()
    assert waits == [pytest.approx(20, abs=0.1)]


async def test_one_executor_makes_it_ready_again_and_a_short_gap_is_none(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.wait(31)
    await bench.settle()
    name = bench.kubernetes.add_executor(KEY, 1)
    await bench.settle()
    assert bench.ready["status"] == "True"
    assert "noneSince" not in bench.status["executors"]
    ends(bench, name)
    bench.wait(100)
    await bench.settle()
    bench.wait(29)
    await bench.settle()
    assert bench.ready["status"] == "True", "Spark has brought up another one for 29 seconds"
    bench.wait(2)
    await bench.settle()
    assert bench.ready["reason"] == "ExecutorsPending"


async def test_the_time_counts_from_the_drivers_start_so_that_a_driver_which_waited_in_vain_is_never_ready(
    bench: OperatorBench,
) -> None:
    await bench.settle()
    bench.kubernetes.pod_runs("orders-1-driver")
    bench.report(1, DriverState.RECOVERING)
    await bench.settle()
    bench.wait(40)
    bench.report(1)
    await bench.settle()
    assert bench.ready["reason"] == "ExecutorsPending"


async def test_a_job_that_stops_is_not_asked_for_executors(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.wait(31)
    bench.kubernetes.edit_job(KEY, suspend=True)
    await bench.settle()
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.status["state"] == "Suspended"
    assert bench.kubernetes.events(warning=True) == []
    assert "noneSince" not in bench.status["executors"]


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_a_clock_that_jumps_ends_no_attempt(bench: OperatorBench, jump: float) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1)
    await bench.settle()
    bench.wait(jump)
    await bench.settle()
    assert bench.ready["status"] == "True"


async def test_an_executor_out_of_memory_is_told_of_once_with_what_to_do(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1, 1)
    ends(bench, bench.kubernetes.add_executor(KEY, 1, 2), code=137, reason="OOMKilled")
    for _ in range(3):
        await bench.settle()
    bench.restart_operator()
    await bench.settle()
    assert bench.kubernetes.events(warning=True) == ["ExecutorFailed"]
    (message,) = messages(bench, "ExecutorFailed")
    assert "-exec-2" in message
    assert "exit status 137" in message
    assert message.endswith("raise spec.executor.memory")
    assert bench.status["executors"]["failed"] == 1
    assert bench.ready["status"] == "True"


async def test_an_executor_that_ended_beside_a_sidecar_does_not_run(bench: OperatorBench) -> None:
    await bench.run(1)
    name = bench.kubernetes.add_executor(KEY, 1)
    await bench.settle()
    ends(bench, name, code=137, reason="OOMKilled")
    status = bench.kubernetes.objects["Pod", "team", name]["status"]
    status["phase"] = "Running"
    status["containerStatuses"].append({"name": "proxy", "state": {"running": {}}})
    await bench.settle()
    assert bench.status["executors"]["running"] == 0
    assert bench.kubernetes.events(warning=True) == ["ExecutorFailed"]


async def test_each_executor_that_fails_is_told_of_and_an_evicted_one_with_the_kubelets_words(
    bench: OperatorBench,
) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1, 9)
    for number in (1, 2):
        name = bench.kubernetes.add_executor(KEY, 1, number)
        ends(bench, name, code=52)
        await bench.settle()
        bench.kubernetes.remove(("Pod", "team", name))
        await bench.settle()
    evicted = bench.kubernetes.add_executor(KEY, 1, 3)
    bench.kubernetes.objects["Pod", "team", evicted]["status"] = {
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
    }  # fmt: skip
    await bench.settle()
    told = messages(bench, "ExecutorFailed")
    assert [("exit status 52" in one) for one in told] == [True, True, False]
    assert "Evicted: The node was low" in told[2]
    assert bench.status["executors"]["failed"] == 3


async def test_an_executor_that_ended_well_or_is_being_deleted_is_no_failure(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1, 9)
    ends(bench, bench.kubernetes.add_executor(KEY, 1, 1), code=0, reason="Completed")
    gone = bench.kubernetes.add_executor(KEY, 1, 2)
    ends(bench, gone, code=143)
    bench.kubernetes.objects["Pod", "team", gone]["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    await bench.settle()
    assert bench.kubernetes.events(warning=True) == []


async def test_executors_that_fail_without_end_are_told_of_so_often_and_counted(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1, 999)
    for number in range(30):
        name = bench.kubernetes.add_executor(KEY, 1, number)
        ends(bench, name)
        await bench.settle()
        bench.kubernetes.remove(("Pod", "team", name))
    told = messages(bench, "ExecutorFailed")
    assert len(told) == 20
    assert "status.executors.failed" in told[-1]
    assert bench.status["executors"]["failed"] == 30


async def test_a_first_checkpoint_that_does_not_complete_is_a_stall(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1)
    bench.report(1, checkpoint_id=10, lag_records=5)
    await bench.settle()
    bench.wait(59)
    await bench.settle()
    assert bench.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"
    bench.restart_operator()
    bench.wait(2)
    await bench.settle()
    healthy = bench.kubernetes.condition(KEY, "CheckpointHealthy")
    assert (healthy["status"], healthy["reason"]) == ("False", "CheckpointStalled")
    assert "5 records wait" in healthy["message"]
    assert bench.kubernetes.events(warning=True) == ["CheckpointStalled"]


async def test_a_first_checkpoint_with_nothing_to_read_is_no_stall(bench: OperatorBench) -> None:
    await bench.run(1)
    bench.kubernetes.add_executor(KEY, 1)
    bench.report(1, checkpoint_id=10)
    bench.wait(1000)
    await bench.settle()
    assert bench.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"
