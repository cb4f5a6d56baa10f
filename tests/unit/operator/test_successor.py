"""The next attempt beside the present one: when it is made, when it has its turn, and when it is done without."""

from __future__ import annotations

import pytest

from kafkasparkjob_operator.starting import AWAIT_CLAIMANT
from kafkasparkjob_operator.successor import PREPARE_SECONDS, STANDBY_AFTER_SECONDS, STANDBY_AGAIN_SECONDS
from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.operator_bench import DRAINED, FAILED, FATAL, KEY, OperatorBench

BEFORE_STOP = {"restartPolicy": {"successor": "BeforeStop"}}
STANDBY = {"restartPolicy": {"successor": "Standby"}}


def turn_of(bench: OperatorBench, attempt: int) -> str:
    pod = bench.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return str((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_TURN, ""))


def is_being_deleted(bench: OperatorBench, attempt: int) -> bool:
    pod = bench.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return "deletionTimestamp" in pod["metadata"]


def prepared(bench: OperatorBench, attempt: int) -> None:
    """The successor's driver has come up, with an executor, and says so."""
    bench.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
    bench.kubernetes.add_executor(KEY, attempt)
    bench.kubernetes.set_data(KEY, names.report_config_map(KEY.name), names.PREPARED_KEY, str(attempt))


async def after_the_kubelet(bench: OperatorBench) -> None:
    """Seconds later, too: the ConfigMap of a successor that is gone could be that of one whose pod is about to come."""
    bench.kubernetes.kubelet()
    bench.wait(AWAIT_CLAIMANT)
    await bench.settle()


@pytest.fixture
async def rescaling() -> OperatorBench:
    """Attempt 1 runs, attempt 2 comes up beside it."""
    bench = OperatorBench(**BEFORE_STOP)
    await bench.run()
    bench.kubernetes.edit_job(KEY, parallelism=3)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver", "orders-2-driver"]
    return bench


@pytest.fixture
async def standing_by() -> OperatorBench:
    """Attempt 1 runs, attempt 2 stands by."""
    bench = OperatorBench(**STANDBY)
    await bench.run()
    assert bench.drivers == ["orders-1-driver"], "catching up comes first"
    bench.wait(STANDBY_AFTER_SECONDS)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver", "orders-2-driver"]
    prepared(bench, 2)
    await bench.settle()
    return bench


async def test_the_running_attempt_goes_on_until_its_successor_is_prepared(rescaling: OperatorBench) -> None:
    bench = rescaling
    assert (turn_of(bench, 1), turn_of(bench, 2)) == ("", "awaited")
    assert (bench.status["state"], bench.status["reason"]) == ("Rescaling", "PreparingSuccessor")
    assert not is_being_deleted(bench, 1)
    assert bench.status["attempt"]["id"] == 1
    prepared(bench, 2)
    await bench.settle()
    assert is_being_deleted(bench, 1)
    assert bench.status["attempt"]["stopReason"] == "Rescale"
    assert turn_of(bench, 2) == "awaited", "the former attempt still drains"


async def test_the_turn_is_given_when_every_pod_of_the_former_attempt_is_gone(rescaling: OperatorBench) -> None:
    bench = rescaling
    executor = bench.kubernetes.add_executor(KEY, 1)
    prepared(bench, 2)
    await bench.settle()
    bench.checkpoint(1, 11, drained=True)
    bench.driver_ends(1, DRAINED)
    await after_the_kubelet(bench)
    assert turn_of(bench, 2) == "awaited", f"{executor} is still there"
    bench.kubernetes.pod_ends(executor)
    await after_the_kubelet(bench)
    assert turn_of(bench, 2) == "given"
    attempt = bench.status["attempt"]
    assert (attempt["id"], attempt["startReason"], attempt["generation"]) == (2, "Rescaled", 2)
    assert attempt["driverPodUID"]
    assert bench.status["parallelism"] == 3
    bench.report(2, checkpoint_id=12)
    await bench.settle()
    assert (bench.status["state"], bench.ready["status"]) == ("Running", "True")
    assert bench.kubernetes.driver_attempts == [1, 2]


async def test_a_lost_answer_to_the_turn_changes_nothing(rescaling: OperatorBench) -> None:
    """The operator dies between the turn and the status: the driver that has its turn is adopted."""
    bench = rescaling
    prepared(bench, 2)
    await bench.settle()
    bench.driver_ends(1, DRAINED)
    bench.kubernetes.kubelet()
    await bench.kubernetes.annotate_pod(
        KEY, "orders-2-driver", {names.ANNOTATION_TURN: names.TURN_GIVEN},
        uid=bench.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]["metadata"]["uid"],
    )  # fmt: skip
    bench.restart_operator()
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["attempt"]["id"] == 2


@pytest.mark.parametrize("waits", [True, False])
async def test_a_successor_that_does_not_come_up_is_not_waited_for(rescaling: OperatorBench, waits: bool) -> None:
    bench = rescaling
    if waits:
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        pod = bench.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
        pod["status"] = {"phase": "Pending", "conditions": [unschedulable]}
        bench.wait(11)
    else:
        bench.wait(PREPARE_SECONDS + 1)
    await bench.settle()
    assert is_being_deleted(bench, 1)
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert turn_of(bench, 2) == "given", "there is room for it now"


async def test_a_successor_that_fails_is_done_without(rescaling: OperatorBench) -> None:
    bench = rescaling
    bench.driver_ends(2, FATAL)
    await bench.settle()
    assert is_being_deleted(bench, 1)
    bench.driver_ends(1, DRAINED)
    await after_the_kubelet(bench)
    assert bench.drivers == ["orders-3-driver"]
    assert turn_of(bench, 3) == ""


async def test_a_refused_successor_is_done_without(rescaling: OperatorBench) -> None:
    bench = OperatorBench(**BEFORE_STOP)
    await bench.run()
    bench.kubernetes.refuse_pods = "exceeded quota: pods"
    bench.kubernetes.edit_job(KEY, parallelism=3)
    await bench.settle()
    assert bench.kubernetes.events(warning=True) == ["SuccessorRefused"]
    assert is_being_deleted(bench, 1)
    bench.kubernetes.refuse_pods = ""
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert bench.status["parallelism"] == 3


async def test_another_edit_replaces_the_successor(rescaling: OperatorBench) -> None:
    bench = rescaling
    prepared(bench, 2)
    bench.kubernetes.edit_job(KEY, parallelism=4)
    await bench.settle()
    assert is_being_deleted(bench, 2)
    assert not is_being_deleted(bench, 1)
    bench.driver_ends(2, DRAINED)
    for pod in bench.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        bench.kubernetes.pod_ends(pod["metadata"]["name"])
    await after_the_kubelet(bench)
    assert bench.drivers == ["orders-1-driver", "orders-3-driver"]


async def test_an_edit_that_is_taken_back_leaves_the_attempt_alone(rescaling: OperatorBench) -> None:
    bench = rescaling
    bench.kubernetes.edit_job(KEY, parallelism=2)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]
    assert (bench.status["state"], bench.ready["status"]) == ("Running", "True")


async def test_suspension_takes_the_successor_too(rescaling: OperatorBench) -> None:
    bench = rescaling
    bench.kubernetes.edit_job(KEY, suspend=True)
    await bench.settle()
    bench.driver_ends(1, DRAINED)
    await bench.settle()
    assert bench.drivers == []
    assert bench.status["state"] == "Suspended"


async def test_what_runs_dies_while_its_successor_comes_up(rescaling: OperatorBench) -> None:
    bench = rescaling
    bench.driver_ends(1, code=137)
    await bench.settle()
    bench.wait(1)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert turn_of(bench, 2) == "given"
    assert bench.status["restarts"]["total"] == 1
    assert bench.status["restarts"]["consecutiveFailures"] == 0, "what failed was of the former generation"


async def test_the_standby_takes_the_place_of_a_dead_attempt(standing_by: OperatorBench) -> None:
    bench = standing_by
    assert (bench.status["state"], bench.ready["status"]) == ("Running", "True")
    bench.driver_ends(1, code=137)
    await bench.settle()
    assert turn_of(bench, 2) == "awaited", "the backoff holds for it, too"
    bench.wait(1)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver"]
    assert turn_of(bench, 2) == "given"
    assert bench.status["attempt"]["startReason"] == "Restarted"
    bench.report(2, checkpoint_id=12)
    bench.wait(STANDBY_AFTER_SECONDS)
    await bench.settle()
    assert bench.drivers == ["orders-2-driver", "orders-3-driver"], "another one stands by"


async def test_no_standby_before_the_attempt_runs() -> None:
    bench = OperatorBench(**STANDBY)
    await bench.settle()
    bench.kubernetes.pod_runs("orders-1-driver")
    bench.report(1, DriverState.RECOVERING)
    bench.wait(STANDBY_AFTER_SECONDS)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]


async def test_a_standby_that_ends_is_brought_up_again_later(standing_by: OperatorBench) -> None:
    bench = standing_by
    bench.driver_ends(2, FAILED)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver", "orders-2-driver"], "kept for kubectl logs"
    for pod in bench.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        bench.kubernetes.pod_ends(pod["metadata"]["name"])
    bench.wait(STANDBY_AGAIN_SECONDS + 1)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver", "orders-3-driver"]


async def test_a_standby_for_nobody_goes(standing_by: OperatorBench) -> None:
    """The job may not be started again before a person acts."""
    bench = standing_by
    bench.driver_ends(1, FATAL)
    await bench.settle()
    assert bench.status["state"] == "Failed"
    assert is_being_deleted(bench, 2)


async def test_a_job_with_a_state_volume_has_no_successor() -> None:
    bench = OperatorBench(**STANDBY, checkpoint={"stateVolume": {"claimName": "state"}})
    await bench.run()
    bench.kubernetes.edit_job(KEY, parallelism=3)
    await bench.settle()
    assert bench.drivers == ["orders-1-driver"]
    assert is_being_deleted(bench, 1)


async def test_the_status_may_be_lost_at_any_time(standing_by: OperatorBench) -> None:
    bench = standing_by
    bench.kubernetes.job(KEY)["status"] = {}
    bench.restart_operator()
    await bench.settle()
    assert bench.drivers == ["orders-1-driver", "orders-2-driver"]
    assert bench.status["attempt"]["id"] == 1
    assert turn_of(bench, 2) == "awaited"
