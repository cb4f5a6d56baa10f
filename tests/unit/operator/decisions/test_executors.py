"""A job without executors reads nothing, whatever its driver says; an executor that ended by itself is reported."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.kubernetes.port import NotLeading
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, OperatorFixture


@pytest.fixture
def operator_fixture() -> OperatorFixture:
    return OperatorFixture()


def unschedulable(operator_fixture: OperatorFixture, number: int = 1) -> str:
    name = operator_fixture.kubernetes.add_executor(KEY, 1, number, phase="Pending")
    words = {"reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient memory."}
    operator_fixture.kubernetes.objects["Pod", "team", name]["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", **words}
    ]
    return name


def ends(operator_fixture: OperatorFixture, name: str, *, code: int = 1, reason: str = "Error", **status: Any) -> None:
    terminated = {"exitCode": code, "reason": reason}
    operator_fixture.kubernetes.objects["Pod", "team", name]["status"] = {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "executor", "state": {"terminated": terminated}}],
        **status,
    }


def available(operator_fixture: OperatorFixture) -> tuple[str, str]:
    conditions = operator_fixture.status["conditions"]
    found = next(each for each in conditions if each["type"] == "ExecutorsAvailable")
    return found["status"], found["lastTransitionTime"]


async def test_ready_is_true_at_once_although_no_executor_is_seen_yet(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.wait(29)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"


async def test_a_job_without_executors_is_not_ready_and_says_what_the_scheduler_says(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    unschedulable(operator_fixture)
    operator_fixture.wait(31)
    await operator_fixture.settle()
    await operator_fixture.settle()
    assert (operator_fixture.ready["status"], operator_fixture.ready["reason"]) == ("False", "ExecutorsPending")
    assert operator_fixture.status["state"] == "Running"
    assert "Insufficient memory" in operator_fixture.status["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["ExecutorsPending"]


async def test_without_a_pod_to_look_at_the_drivers_log_is_named(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.wait(31)
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "ExecutorsPending"
    assert "kubectl logs orders-1-driver" in operator_fixture.status["message"]


async def test_it_is_looked_at_again_when_the_time_is_over(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    waits: list[float] = []
    operator_fixture.queue.add_after = lambda _, seconds: waits.append(seconds)  # type: ignore[method-assign]
    operator_fixture.wait(10)
    await operator_fixture.look()
    assert waits == [pytest.approx(20, abs=0.1)]


async def test_one_executor_makes_it_ready_again_and_a_short_gap_is_none(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.wait(31)
    await operator_fixture.settle()
    name = operator_fixture.kubernetes.add_executor(KEY, 1)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"
    assert available(operator_fixture) == ("True", "2026-11-21T12:00:31Z")
    ends(operator_fixture, name)
    operator_fixture.wait(100)
    await operator_fixture.settle()
    operator_fixture.wait(29)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True", "Spark has brought up another one for 29 seconds"
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "ExecutorsPending"


async def test_the_time_counts_from_the_drivers_start(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.report(1, DriverState.RECOVERING)
    await operator_fixture.settle()
    operator_fixture.wait(40)
    operator_fixture.report(1)
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "ExecutorsPending"


async def test_a_job_that_stops_is_not_asked_for_executors(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.wait(31)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    assert operator_fixture.kubernetes.events(warning=True) == []
    assert available(operator_fixture)[0] == "Unknown"


async def test_the_time_without_executors_goes_on_over_a_restart_of_the_operator(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.wait(20)
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"
    operator_fixture.wait(11)
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "ExecutorsPending"


async def test_a_failure_is_counted_once_by_an_operator_that_dies_before_the_status(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1, 1)
    ends(operator_fixture, operator_fixture.kubernetes.add_executor(KEY, 1, 2), code=52)
    with monkeypatch.context() as patch:

        async def dies(*_: Any, **__: Any) -> None:
            raise NotLeading("the process ended")

        patch.setattr(operator_fixture.kubernetes, "patch_status", dies)
        with pytest.raises(NotLeading):
            await operator_fixture.look()
    assert "failed" not in operator_fixture.status["executors"]
    ends(operator_fixture, operator_fixture.kubernetes.add_executor(KEY, 1, 3), code=52)
    for _ in range(2):
        operator_fixture.restart_operator()
        await operator_fixture.settle()
    assert operator_fixture.status["executors"]["failed"] == 2
    assert operator_fixture.kubernetes.events(warning=True) == ["ExecutorFailed", "ExecutorFailed"]


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_a_clock_that_jumps_ends_no_attempt(operator_fixture: OperatorFixture, jump: float) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    await operator_fixture.settle()
    operator_fixture.wait(jump)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"


async def test_an_executor_out_of_memory_is_reported_once_with_what_to_do(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1, 1)
    ends(operator_fixture, operator_fixture.kubernetes.add_executor(KEY, 1, 2), code=137, reason="OOMKilled")
    for _ in range(3):
        await operator_fixture.settle()
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.events(warning=True) == ["ExecutorFailed"]
    (message,) = operator_fixture.kubernetes.messages("ExecutorFailed")
    assert "-exec-2" in message
    assert "exit status 137" in message
    assert message.endswith("raise spec.executor.memoryOverhead")
    assert operator_fixture.status["executors"]["failed"] == 1
    assert operator_fixture.ready["status"] == "True"


async def test_an_executor_that_ended_next_to_a_sidecar_does_not_run(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    name = operator_fixture.kubernetes.add_executor(KEY, 1)
    await operator_fixture.settle()
    ends(operator_fixture, name, code=137, reason="OOMKilled")
    status = operator_fixture.kubernetes.objects["Pod", "team", name]["status"]
    status["phase"] = "Running"
    status["containerStatuses"].append({"name": "proxy", "state": {"running": {}}})
    await operator_fixture.settle()
    assert operator_fixture.status["executors"]["running"] == 0
    assert operator_fixture.kubernetes.events(warning=True) == ["ExecutorFailed"]


async def test_each_executor_that_fails_is_reported_with_the_kubelets_message(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1, 9)
    for number in (1, 2):
        name = operator_fixture.kubernetes.add_executor(KEY, 1, number)
        ends(operator_fixture, name, code=52)
        await operator_fixture.settle()
        operator_fixture.kubernetes.remove(("Pod", "team", name))
        await operator_fixture.settle()
    evicted = operator_fixture.kubernetes.add_executor(KEY, 1, 3)
    operator_fixture.kubernetes.objects["Pod", "team", evicted]["status"] = {
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
    }  # fmt: skip
    await operator_fixture.settle()
    events = operator_fixture.kubernetes.messages("ExecutorFailed")
    assert [("exit status 52" in each) for each in events] == [True, True, False]
    assert "Evicted: The node was low" in events[2]
    assert operator_fixture.status["executors"]["failed"] == 3


async def test_an_executor_that_ended_well_or_is_being_deleted_is_no_failure(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1, 9)
    ends(operator_fixture, operator_fixture.kubernetes.add_executor(KEY, 1, 1), code=0, reason="Completed")
    gone = operator_fixture.kubernetes.add_executor(KEY, 1, 2)
    ends(operator_fixture, gone, code=143)
    operator_fixture.kubernetes.objects["Pod", "team", gone]["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.events(warning=True) == []


async def test_executors_that_fail_without_end_are_reported_some_times_and_counted(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1, 999)
    for number in range(30):
        name = operator_fixture.kubernetes.add_executor(KEY, 1, number)
        ends(operator_fixture, name)
        await operator_fixture.settle()
        operator_fixture.kubernetes.remove(("Pod", "team", name))
    events = operator_fixture.kubernetes.messages("ExecutorFailed")
    assert len(events) == 20
    assert "status.executors.failed" in events[-1]
    assert operator_fixture.status["executors"]["failed"] == 30


async def test_a_first_checkpoint_that_does_not_complete_is_a_stall(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    operator_fixture.report(1, checkpoint_id=10, lag_records=5)
    await operator_fixture.settle()
    operator_fixture.wait(59)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True", "it counts anew"
    operator_fixture.wait(60)
    await operator_fixture.settle()
    healthy = operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")
    assert (healthy["status"], healthy["reason"]) == ("False", "CheckpointStalled")
    assert "5 records wait" in healthy["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["CheckpointStalled"]


async def test_a_first_checkpoint_with_nothing_to_read_is_no_stall(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    operator_fixture.report(1, checkpoint_id=10)
    operator_fixture.wait(1000)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"


async def test_a_failure_that_cannot_be_numbered_neither_counts_nor_blocks(operator_fixture: OperatorFixture) -> None:
    """A webhook that must be asked about changes of pods, and is down."""
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1, 9)
    operator_fixture.kubernetes.refuse_annotations = "failed calling webhook"
    for number in (1, 2):
        ends(operator_fixture, operator_fixture.kubernetes.add_executor(KEY, 1, number), code=52)
    operator_fixture.report(1, checkpoint_id=77)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.ready["status"]) == ("Running", "True")
    assert operator_fixture.status["checkpoint"]["id"] == 77
    assert operator_fixture.status["executors"].get("failed", 0) == 0
    assert operator_fixture.kubernetes.events(warning=True) == ["ExecutorFailed", "ExecutorFailed"]
    operator_fixture.kubernetes.refuse_annotations = ""
    await operator_fixture.settle()
    assert operator_fixture.status["executors"]["failed"] == 2
    operator_fixture.kubernetes.refuse_annotations = "failed calling webhook"
    ends(operator_fixture, operator_fixture.kubernetes.add_executor(KEY, 1, 3), code=52)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspending"
    assert operator_fixture.status["executors"]["failed"] == 2
    driver = operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]
    assert "deletionTimestamp" in driver["metadata"]


QUOTA = 'pods "orders-1-exec-N" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2'


async def test_a_refusal_is_named_at_once_and_the_attempt_runs_with_what_fits(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    operator_fixture.report(1, executors_refused=QUOTA)
    await operator_fixture.settle()
    ready = operator_fixture.ready
    assert (ready["status"], ready["reason"]) == ("True", "ExecutorsPending")
    assert QUOTA in ready["message"]
    assert operator_fixture.kubernetes.messages("ExecutorsPending") == [
        f"attempt 1 has fewer executors than it asks for; Kubernetes refuses executors: {QUOTA}"
    ]
    operator_fixture.report(1, executors_refused=QUOTA.replace("pods=2", "pods=3"))
    await operator_fixture.settle()
    assert len(operator_fixture.kubernetes.messages("ExecutorsPending")) == 1, "the numbers alone are others"
    operator_fixture.kubernetes.add_executor(KEY, 1, 2)
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "Running", "all run: the report is late"


@pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.RECOVERING])
async def test_a_refusal_is_named_while_the_driver_starts(
    operator_fixture: OperatorFixture, state: DriverState
) -> None:
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.report(1, state, executors_refused=QUOTA)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.ready["reason"]) == ("Starting", "ExecutorsPending")
    assert QUOTA in operator_fixture.status["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["ExecutorsPending"]


async def test_an_attempt_whose_only_executors_are_refused_is_not_ready_at_once(
    operator_fixture: OperatorFixture,
) -> None:
    await operator_fixture.run(1)
    operator_fixture.report(1, executors_refused=QUOTA)
    await operator_fixture.settle()
    assert (operator_fixture.ready["status"], operator_fixture.ready["reason"]) == ("False", "ExecutorsPending")
    assert QUOTA in operator_fixture.status["message"]


async def test_executors_without_a_node_are_named_although_others_run(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.kubernetes.add_executor(KEY, 1)
    unschedulable(operator_fixture, 2)
    await operator_fixture.settle()
    assert (operator_fixture.ready["status"], operator_fixture.ready["reason"]) == ("True", "ExecutorsPending")
    assert "Insufficient memory" in operator_fixture.status["message"]


async def test_a_refusal_of_a_forged_report_is_a_text_and_no_more(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.report(1, executors_refused="\n\x00" + "x" * 50_000)
    await operator_fixture.settle()
    assert len(operator_fixture.status["message"]) < 2000
