"""The standby next to the running attempt: when it is created, when it is activated, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.attempts import AWAIT_CLAIMANT
from kafkasparkjob_operator.decisions.standby import (
    PREPARE_SECONDS,
    STANDBY_AFTER_SECONDS,
    STANDBY_AGAIN_SECONDS,
)
from kafkasparkjob_operator.kubernetes.port import ClusterError
from sparkapp.model import names
from sparkapp.model.report import DriverState, Termination
from tests.support.kubernetes.operator_fixture import (
    DRAINED,
    FAILED,
    FATAL,
    KEY,
    ROTATED,
    OperatorFixture,
    record_name,
    report_event,
    secret_name,
)

BEFORE_STOP = {"restartPolicy": {"successor": "BeforeStop"}}
STANDBY = {"restartPolicy": {"successor": "Standby"}}


def turn_of(operator_fixture: OperatorFixture, attempt: int) -> str:
    pod = operator_fixture.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return str((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_TURN, ""))


def is_being_deleted(operator_fixture: OperatorFixture, attempt: int) -> bool:
    pod = operator_fixture.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return "deletionTimestamp" in pod["metadata"]


def prepared(operator_fixture: OperatorFixture, attempt: int) -> None:
    """The successor's driver has come up, with an executor, and says so."""
    operator_fixture.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
    operator_fixture.kubernetes.add_executor(KEY, attempt)
    operator_fixture.kubernetes.set_data(KEY, names.report_config_map(KEY.name), names.PREPARED_KEY, str(attempt))


async def after_the_kubelet(operator_fixture: OperatorFixture) -> None:
    """Seconds later, too: the ConfigMap of a successor that is gone could be that of one whose pod is about to come."""
    operator_fixture.kubernetes.kubelet()
    operator_fixture.wait(AWAIT_CLAIMANT)
    await operator_fixture.settle()


@pytest.fixture
async def rescaling() -> OperatorFixture:
    """Attempt 1 runs, attempt 2 starts as its standby."""
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.run()
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    return operator_fixture


@pytest.fixture
async def standing_by() -> OperatorFixture:
    """Attempt 1 runs, attempt 2 stands by."""
    operator_fixture = OperatorFixture(**STANDBY)
    await operator_fixture.run()
    assert operator_fixture.drivers == ["orders-1-driver"], "catching up comes first"
    operator_fixture.wait(STANDBY_AFTER_SECONDS)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    prepared(operator_fixture, 2)
    await operator_fixture.settle()
    return operator_fixture


async def test_the_running_attempt_continues_until_its_successor_is_prepared(rescaling: OperatorFixture) -> None:
    operator_fixture = rescaling
    assert (turn_of(operator_fixture, 1), turn_of(operator_fixture, 2)) == ("", "awaited")
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Rescaling", "PreparingSuccessor")
    assert not is_being_deleted(operator_fixture, 1)
    assert operator_fixture.status["attempt"]["id"] == 1
    prepared(operator_fixture, 2)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    assert operator_fixture.status["attempt"]["stopReason"] == "Rescale"
    assert turn_of(operator_fixture, 2) == "awaited", "the previous attempt still drains"


async def test_the_standby_is_activated_when_every_pod_of_the_previous_attempt_is_gone(
    rescaling: OperatorFixture,
) -> None:
    operator_fixture = rescaling
    executor = operator_fixture.kubernetes.add_executor(KEY, 1)
    prepared(operator_fixture, 2)
    await operator_fixture.settle()
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.driver_ends(1, DRAINED)
    await after_the_kubelet(operator_fixture)
    assert turn_of(operator_fixture, 2) == "awaited", f"{executor} is still there"
    operator_fixture.kubernetes.pod_ends(executor)
    await after_the_kubelet(operator_fixture)
    assert turn_of(operator_fixture, 2) == "given"
    attempt = operator_fixture.status["attempt"]
    assert (attempt["id"], attempt["startReason"], attempt["generation"]) == (2, "Rescaled", 2)
    assert attempt["driverPodUID"]
    assert operator_fixture.status["parallelism"] == 3
    operator_fixture.report(2, checkpoint_id=12)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.ready["status"]) == ("Running", "True")
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]


async def test_a_lost_answer_to_the_activation_changes_nothing(rescaling: OperatorFixture) -> None:
    """The operator dies between the turn and the status: the driver that has its turn is adopted."""
    operator_fixture = rescaling
    prepared(operator_fixture, 2)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    operator_fixture.kubernetes.kubelet()
    await operator_fixture.kubernetes.annotate_pod(
        KEY, "orders-2-driver", {names.ANNOTATION_TURN: names.TURN_GIVEN},
        uid=operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]["metadata"]["uid"],
    )  # fmt: skip
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["attempt"]["id"] == 2


@pytest.mark.parametrize("waits", [True, False])
async def test_a_successor_that_does_not_come_up_is_not_waited_for(rescaling: OperatorFixture, waits: bool) -> None:
    operator_fixture = rescaling
    if waits:
        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
        pod = operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
        pod["status"] = {"phase": "Pending", "conditions": [unschedulable]}
        operator_fixture.wait(11)
    else:
        operator_fixture.wait(PREPARE_SECONDS + 1)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert turn_of(operator_fixture, 2) == "given", "there is room for it now"


@pytest.fixture
async def working(rescaling: OperatorFixture) -> OperatorFixture:
    """As the other; attempt 1 has an executor."""
    rescaling.kubernetes.add_executor(KEY, 1)
    await rescaling.settle()
    return rescaling


def attempt_ends(operator_fixture: OperatorFixture, how: Termination) -> None:
    """Attempt 1 ends, with its executor."""
    operator_fixture.driver_ends(1, how)
    for pod in operator_fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == "1":
            operator_fixture.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))


def refused(operator_fixture: OperatorFixture, generation: int, *causes: str) -> None:
    """The edit is refused, and attempt 1 is ready and not asked to stop."""
    assert not is_being_deleted(operator_fixture, 1)
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Running", "RevisionRefused")
    assert operator_fixture.ready["status"] == "True"
    assert operator_fixture.kubernetes.condition(KEY, "Reconciling")["status"] == "False"
    stalled = operator_fixture.kubernetes.condition(KEY, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "RevisionRefused")
    assert operator_fixture.refusal["generation"] == generation
    for cause in (f"generation {generation}", "attempt 1 continues", *causes):
        assert cause in stalled["message"]


def does_not_start(operator_fixture: OperatorFixture, attempt: int, reason: str) -> None:
    pod = operator_fixture.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    waiting = {"waiting": {"reason": reason, "message": "no such thing"}} if reason else {}
    pod["spec"]["nodeName"] = "node"
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": "driver", "state": waiting}]}


async def test_a_revision_that_fails_does_not_replace_an_attempt_that_works(working: OperatorFixture) -> None:
    operator_fixture = working
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    refused(operator_fixture, 2, "no module enrich; correct spec.transform")
    assert operator_fixture.kubernetes.events(warning=True) == ["RevisionRefused"]
    for _ in range(20):
        operator_fixture.wait(60)
        operator_fixture.report(1, checkpoint_id=10)
        await operator_fixture.settle()
        refused(operator_fixture, 2)
    assert operator_fixture.kubernetes.driver_attempts == [1, 2], "a failure that no restart solves is not tried again"
    operator_fixture.kubernetes.edit_job(KEY, parallelism=4)
    await operator_fixture.settle()
    assert operator_fixture.refusal == {}
    await after_the_kubelet(operator_fixture)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]
    prepared(operator_fixture, 3)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError", ""])
async def test_a_revision_that_does_not_start_does_not_replace_what_works(
    working: OperatorFixture, reason: str
) -> None:
    operator_fixture = working
    does_not_start(operator_fixture, 2, reason)
    if not reason:
        operator_fixture.wait(PREPARE_SECONDS + 1)
    await operator_fixture.settle()
    refused(operator_fixture, 2, "orders-2-driver", *([f"{reason}: no such thing"] if reason else []))
    operator_fixture.restart_operator()
    operator_fixture.wait(3600)
    operator_fixture.report(1, checkpoint_id=10, updated_at="later")
    await operator_fixture.settle()
    refused(operator_fixture, 2)
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]
    prepared(operator_fixture, 2)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1), "the image exists now"
    attempt_ends(operator_fixture, DRAINED)
    await after_the_kubelet(operator_fixture)
    assert (operator_fixture.status["attempt"]["id"], turn_of(operator_fixture, 2)) == (2, "given")
    assert operator_fixture.refusal == {}


async def test_a_revision_that_a_restart_could_solve_is_tried_again(working: OperatorFixture) -> None:
    operator_fixture = working
    operator_fixture.driver_ends(2, code=137, reason="OOMKilled")
    await operator_fixture.settle()
    refused(operator_fixture, 2, "used more memory", "raise spec.driver.memoryOverhead")
    operator_fixture.wait(STANDBY_AGAIN_SECONDS)
    await operator_fixture.look(2)
    third = operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-3-driver"]
    third["metadata"]["creationTimestamp"] = format_time(operator_fixture.now)
    await after_the_kubelet(operator_fixture)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]
    refused(operator_fixture, 2)
    prepared(operator_fixture, 3)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)


async def test_a_refused_revision_replaces_no_attempt_that_dies(working: OperatorFixture) -> None:
    """The next attempt has the spec that worked."""
    operator_fixture = working
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    attempt_ends(operator_fixture, FAILED)
    await after_the_kubelet(operator_fixture)
    await after_the_kubelet(operator_fixture)
    assert operator_fixture.drivers == ["orders-3-driver"]
    attempt = operator_fixture.status["attempt"]
    assert (attempt["id"], attempt["generation"], operator_fixture.status["parallelism"]) == (3, 1, 2)
    assert operator_fixture.kubernetes.condition(KEY, "Stalled")["reason"] == "RevisionRefused"
    operator_fixture.kubernetes.pod_runs("orders-3-driver")
    operator_fixture.report(3, DriverState.RECOVERING)
    await operator_fixture.settle()
    assert not is_being_deleted(operator_fixture, 3), "it comes up"


async def test_a_refused_revision_is_tried_where_the_previous_fails_without_end(working: OperatorFixture) -> None:
    operator_fixture = working
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    attempt_ends(operator_fixture, FAILED)
    generations = []
    for _ in range(3):
        for _ in range(3):
            await after_the_kubelet(operator_fixture)
        attempt = operator_fixture.status["attempt"]
        generations.append(attempt["generation"])
        operator_fixture.driver_ends(attempt["id"], FAILED)
        await operator_fixture.settle()
    assert generations == [1, 1, 2]


async def test_a_refused_revision_is_tried_where_the_one_that_worked_fails_for_good(
    working: OperatorFixture,
) -> None:
    operator_fixture = working
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    attempt_ends(operator_fixture, FATAL)
    await after_the_kubelet(operator_fixture)
    await after_the_kubelet(operator_fixture)
    assert operator_fixture.status["attempt"]["generation"] == 2
    assert operator_fixture.refusal == {}


async def test_a_revision_replaces_an_attempt_that_does_not_work() -> None:
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.report(1, DriverState.STARTING)
    await operator_fixture.settle()
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)


async def test_corrected_code_ends_the_refusal() -> None:
    code = {"python": {"function": "enrich:run", "configMapRef": {"name": "code"}}}
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.run()
    operator_fixture.kubernetes.add_executor(KEY, 1)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": KEY.namespace, "name": "code"}}
    await operator_fixture.kubernetes.create({**body, "data": {"enrich.py": "?"}})
    operator_fixture.kubernetes.edit_job(KEY, transform=code)
    await operator_fixture.settle()
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    refused(operator_fixture, 2)
    operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, "code"]["data"] = {"enrich.py": "run = 1"}
    await after_the_kubelet(operator_fixture)
    await after_the_kubelet(operator_fixture)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]


async def test_a_refused_successor_is_done_without(rescaling: OperatorFixture) -> None:
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.run()
    operator_fixture.kubernetes.refuse_pods = "exceeded quota: pods"
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.events(warning=True) == ["SuccessorRefused"]
    assert is_being_deleted(operator_fixture, 1)
    operator_fixture.kubernetes.refuse_pods = ""
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["parallelism"] == 3


async def test_a_refused_standby_is_not_tried_again_by_another_operator() -> None:
    operator_fixture = OperatorFixture(**STANDBY)
    await operator_fixture.run()
    operator_fixture.kubernetes.refuse_pods = "exceeded quota: pods"
    operator_fixture.wait(STANDBY_AFTER_SECONDS + 1)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.events(warning=True) == ["SuccessorRefused"]
    operator_fixture.kubernetes.refuse_pods = ""
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["state"] == "Running"


async def test_another_edit_replaces_the_successor(rescaling: OperatorFixture) -> None:
    operator_fixture = rescaling
    prepared(operator_fixture, 2)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=4)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 2)
    assert not is_being_deleted(operator_fixture, 1)
    operator_fixture.driver_ends(2, DRAINED)
    for pod in operator_fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        operator_fixture.kubernetes.pod_ends(pod["metadata"]["name"])
    await after_the_kubelet(operator_fixture)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]


async def test_an_edit_that_is_taken_back_leaves_the_attempt_alone(rescaling: OperatorFixture) -> None:
    operator_fixture = rescaling
    operator_fixture.kubernetes.edit_job(KEY, parallelism=2)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert (operator_fixture.status["state"], operator_fixture.ready["status"]) == ("Running", "True")


async def test_suspension_takes_the_successor_too(rescaling: OperatorFixture) -> None:
    operator_fixture = rescaling
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == []
    assert operator_fixture.status["state"] == "Suspended"


async def test_what_runs_dies_while_its_successor_comes_up(rescaling: OperatorFixture) -> None:
    operator_fixture = rescaling
    operator_fixture.driver_ends(1, code=137)
    await operator_fixture.settle()
    operator_fixture.wait(1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert turn_of(operator_fixture, 2) == "given"
    assert operator_fixture.status["restarts"]["total"] == 1
    assert operator_fixture.status["restarts"]["consecutiveFailures"] == 0, "what failed was of the previous generation"


async def test_the_standby_takes_the_place_of_a_dead_attempt(standing_by: OperatorFixture) -> None:
    operator_fixture = standing_by
    assert (operator_fixture.status["state"], operator_fixture.ready["status"]) == ("Running", "True")
    operator_fixture.driver_ends(1, code=137)
    await operator_fixture.settle()
    assert turn_of(operator_fixture, 2) == "awaited", "the backoff holds for it, too"
    operator_fixture.wait(1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert turn_of(operator_fixture, 2) == "given"
    assert operator_fixture.status["attempt"]["startReason"] == "Restarted"
    operator_fixture.report(2, checkpoint_id=12)
    operator_fixture.wait(STANDBY_AFTER_SECONDS)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver", "orders-3-driver"], "another one stands by"


@pytest.fixture
async def stuck(standing_by: OperatorFixture) -> OperatorFixture:
    """The standby's node is lost: its pods are deleted, their grace period is over, and nobody removes them."""
    operator_fixture = standing_by
    await operator_fixture.kubernetes.delete("Pod", KEY.namespace, "orders-2-driver")
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"], "no standby before the grace is over"
    operator_fixture.wait(600)
    return operator_fixture


def is_never_activated(operator_fixture: OperatorFixture) -> bool:
    attempts = operator_fixture.kubernetes.driver_attempts
    return turn_of(operator_fixture, 2) == "awaited" and attempts == sorted(set(attempts))


async def test_a_change_of_the_spec_does_not_wait_for_a_standby_that_cannot_go(stuck: OperatorFixture) -> None:
    operator_fixture = stuck
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.look()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver", "orders-3-driver"]
    successor = operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-3-driver"]
    successor["metadata"]["creationTimestamp"] = format_time(operator_fixture.now)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "PreparingSuccessor"
    assert not is_being_deleted(operator_fixture, 1)
    prepared(operator_fixture, 3)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    operator_fixture.driver_ends(1, DRAINED)
    await after_the_kubelet(operator_fixture)
    assert turn_of(operator_fixture, 3) == "given"
    assert operator_fixture.status["attempt"]["id"] == 3
    assert is_never_activated(operator_fixture)


async def test_a_start_does_not_wait_for_a_standby_that_cannot_go(stuck: OperatorFixture) -> None:
    operator_fixture = stuck
    operator_fixture.driver_ends(1, code=137)
    await operator_fixture.settle()
    operator_fixture.wait(1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver", "orders-3-driver"]
    assert (operator_fixture.status["attempt"]["id"], turn_of(operator_fixture, 3)) == (3, "")
    assert is_never_activated(operator_fixture)


async def test_another_standby_comes_up_next_to_a_standby_that_cannot_go(stuck: OperatorFixture) -> None:
    """Its ConfigMap stays as long as its pod, which would else be somebody else's."""
    operator_fixture = stuck
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver", "orders-3-driver"]
    for attempt, following in ((1, 3), (3, 4)):
        prepared(operator_fixture, following)
        operator_fixture.driver_ends(attempt, code=137)
        for pod in operator_fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
            if pod["metadata"]["name"].startswith(f"orders-{attempt}-"):
                operator_fixture.kubernetes.pod_ends(pod["metadata"]["name"])
        await operator_fixture.settle()
        operator_fixture.wait(15)
        await operator_fixture.settle()
        operator_fixture.report(following, checkpoint_id=20)
        operator_fixture.wait(STANDBY_AFTER_SECONDS)
        await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 4
    assert operator_fixture.drivers == ["orders-2-driver", "orders-4-driver", "orders-5-driver"]
    assert "ForeignObject" not in operator_fixture.kubernetes.events()
    assert is_never_activated(operator_fixture)


async def test_a_start_waits_for_the_deletion_of_a_standby_and_not_for_its_end(standing_by: OperatorFixture) -> None:
    """A pod that was not deleted before the next attempt could be activated after it."""
    operator_fixture = standing_by
    operator_fixture.driver_ends(1, ROTATED)
    await operator_fixture.look()
    assert is_being_deleted(operator_fixture, 2)
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver", "orders-3-driver"]
    assert is_never_activated(operator_fixture)


async def test_a_suspended_job_has_no_pod(standing_by: OperatorFixture) -> None:
    operator_fixture = standing_by
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspending"
    operator_fixture.driver_ends(2, DRAINED)
    for pod in operator_fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        operator_fixture.kubernetes.pod_ends(pod["metadata"]["name"])
    await after_the_kubelet(operator_fixture)
    assert (operator_fixture.status["state"], operator_fixture.drivers) == ("Suspended", [])


async def test_no_standby_before_the_attempt_runs() -> None:
    operator_fixture = OperatorFixture(**STANDBY)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.report(1, DriverState.RECOVERING)
    operator_fixture.wait(STANDBY_AFTER_SECONDS)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_a_standby_that_ends_is_brought_up_again_later(standing_by: OperatorFixture) -> None:
    operator_fixture = standing_by
    operator_fixture.driver_ends(2, FAILED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"], "kept for kubectl logs"
    for pod in operator_fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        operator_fixture.kubernetes.pod_ends(pod["metadata"]["name"])
    operator_fixture.wait(STANDBY_AGAIN_SECONDS + 1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]


async def test_a_standby_for_nobody_goes(standing_by: OperatorFixture) -> None:
    """The job may not be started again before a person acts."""
    operator_fixture = standing_by
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Failed"
    assert is_being_deleted(operator_fixture, 2)


async def test_a_job_with_a_state_volume_has_no_successor() -> None:
    operator_fixture = OperatorFixture(**STANDBY, checkpoint={"stateVolume": {"claimName": "state"}})
    await operator_fixture.run()
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert is_being_deleted(operator_fixture, 1)


async def test_the_status_may_be_lost_at_any_time(standing_by: OperatorFixture) -> None:
    operator_fixture = standing_by
    operator_fixture.kubernetes.job(KEY)["status"] = {}
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    assert operator_fixture.status["attempt"]["id"] == 1
    assert turn_of(operator_fixture, 2) == "awaited"


async def foreign_secret(operator_fixture: OperatorFixture) -> None:
    """Somebody's Secret has the name of attempt 2's. The operator may not read it."""
    meta = {"name": secret_name(2), "namespace": KEY.namespace}
    await operator_fixture.kubernetes.create({"kind": "Secret", "metadata": meta})


class Fault:
    """Fails a number of creations of a kind; of those whose answer is lost, the object exists."""

    def __init__(self, operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
        self.left = self.lost = 0
        create = operator_fixture.kubernetes.create

        async def faulty(manifest: Any) -> Any:
            if manifest["kind"] == kind and self.left:
                self.left -= 1
                raise ClusterError("POST: no answer: read timed out")
            created = await create(manifest)
            if manifest["kind"] == kind and self.lost:
                self.lost -= 1
                raise ClusterError("POST: no answer: read timed out")
            return created

        monkeypatch.setattr(operator_fixture.kubernetes, "create", faulty)


async def test_a_standby_that_cannot_be_created_is_done_without() -> None:
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.run()
    await foreign_secret(operator_fixture)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.look()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Rescaling", "PreparingSuccessor")
    assert operator_fixture.kubernetes.events(warning=True) == [], "the next try may succeed"
    operator_fixture.wait(120)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    assert operator_fixture.status["attempt"]["stopReason"] == "Rescale"
    assert operator_fixture.kubernetes.events(warning=True) == ["SuccessorRefused"]
    assert "SuccessorStarted" not in operator_fixture.kubernetes.events()
    (message,) = operator_fixture.kubernetes.messages("SuccessorRefused")
    assert f"kubectl delete secret {secret_name(2)} -n team" in message


async def test_a_job_with_a_standby_that_cannot_be_created_is_shown_as_it_is() -> None:
    operator_fixture = OperatorFixture(**STANDBY)
    await operator_fixture.run()
    await foreign_secret(operator_fixture)
    operator_fixture.wait(STANDBY_AFTER_SECONDS + 1)
    for checkpoint in (11, 12, 13):
        event = report_event(checkpoint)
        operator_fixture.report(1, checkpoint_id=checkpoint, lag_records=checkpoint, events=(event,))
        await operator_fixture.look()
        assert operator_fixture.status["checkpoint"]["id"] == checkpoint
        assert operator_fixture.status["source"]["lagRecords"] == checkpoint
        assert operator_fixture.ready["status"] == "True"
    assert operator_fixture.kubernetes.events().count("PartitionAdded") == 3
    assert operator_fixture.kubernetes.events(warning=True) == ["SuccessorRefused"]
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_a_standby_is_tried_again_after_a_failure_of_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.run()
    Fault(operator_fixture, monkeypatch, "Secret").left = 1
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.look()
    assert "SuccessorStarted" not in operator_fixture.kubernetes.events()
    operator_fixture.wait(AWAIT_CLAIMANT + 1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"], "whether the Secret exists is unknown"
    assert operator_fixture.kubernetes.events(warning=True) == []
    assert operator_fixture.kubernetes.events().count("SuccessorStarted") == 1


async def test_a_standby_whose_pod_cannot_be_created_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try claims a number, and the claim is respected for some seconds."""
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.run()
    fault = Fault(operator_fixture, monkeypatch, "Pod")
    fault.left = 2
    pauses: list[float] = []
    monkeypatch.setattr(operator_fixture.queue, "add_after", lambda _, seconds: pauses.append(seconds))
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.look()
    assert min(pauses) <= AWAIT_CLAIMANT, "the next try does not wait for the time limit of a standby"
    assert not is_being_deleted(operator_fixture, 1)
    operator_fixture.wait(AWAIT_CLAIMANT + 1)
    await operator_fixture.settle()
    assert fault.left == 0
    assert is_being_deleted(operator_fixture, 1)
    assert operator_fixture.kubernetes.events(warning=True) == ["SuccessorRefused"]
    operator_fixture.driver_ends(1, DRAINED)
    await after_the_kubelet(operator_fixture)
    await after_the_kubelet(operator_fixture)
    assert operator_fixture.status["parallelism"] == 3
    assert len(operator_fixture.drivers) == 1


async def due(monkeypatch: pytest.MonkeyPatch, *, left: int = 0, lost: int = 0) -> tuple[OperatorFixture, Fault]:
    """A job whose standby is due now, and a fault of the next creations of pods."""
    operator_fixture = OperatorFixture(**STANDBY)
    await operator_fixture.run()
    fault = Fault(operator_fixture, monkeypatch, "Pod")
    fault.left, fault.lost = left, lost
    operator_fixture.wait(STANDBY_AFTER_SECONDS + 1)
    return operator_fixture, fault


async def fails_once(operator_fixture: OperatorFixture, fault: Fault) -> None:
    """The next creation fails; afterwards its claim is old enough for the next try."""
    fault.left = 1
    await operator_fixture.settle()
    assert fault.left == 0
    operator_fixture.wait(AWAIT_CLAIMANT + 1)
    await operator_fixture.settle()


async def test_failures_with_a_standby_in_between_are_not_consecutive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to its creation was lost, so only its pod says that it succeeded."""
    operator_fixture, fault = await due(monkeypatch, lost=1)
    await operator_fixture.settle()
    prepared(operator_fixture, 2)
    await operator_fixture.look(3)
    assert (fault.lost, operator_fixture.drivers) == (0, ["orders-1-driver", "orders-2-driver"])
    for name in [pod["metadata"]["name"] for pod in operator_fixture.kubernetes.pods(KEY, names.ROLE_EXECUTOR)]:
        operator_fixture.kubernetes.pod_ends(name)
    operator_fixture.kubernetes.remove(("Pod", KEY.namespace, "orders-2-driver"))
    await fails_once(operator_fixture, fault)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-4-driver"]
    assert "SuccessorRefused" not in operator_fixture.kubernetes.events()


async def test_the_lost_answer_to_an_attempts_start_does_not_count_against_its_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator_fixture = OperatorFixture(**STANDBY)
    fault = Fault(operator_fixture, monkeypatch, "Pod")
    fault.lost = 1
    await operator_fixture.run()
    operator_fixture.wait(STANDBY_AFTER_SECONDS + 1)
    await fails_once(operator_fixture, fault)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]
    assert "SuccessorRefused" not in operator_fixture.kubernetes.events()


async def test_a_standby_that_failed_twice_is_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture, fault = await due(monkeypatch, left=2)
    await operator_fixture.look()
    claim = operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, record_name(2)]
    claim["metadata"]["creationTimestamp"] = format_time(operator_fixture.now)
    await operator_fixture.look(3)
    assert fault.left == 1, "looks that only wait prove nothing"
    operator_fixture.wait(AWAIT_CLAIMANT + 1)
    await operator_fixture.settle()
    assert (fault.left, operator_fixture.drivers) == (0, ["orders-1-driver"])
    assert operator_fixture.kubernetes.events().count("SuccessorRefused") == 1
    operator_fixture.wait(STANDBY_AGAIN_SECONDS)
    operator_fixture.report(1, checkpoint_id=11)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-4-driver"]


async def test_a_refusal_lasts_as_long_as_the_driver() -> None:
    operator_fixture = OperatorFixture(**STANDBY)
    await operator_fixture.run()
    operator_fixture.kubernetes.refuse_pods = operator_fixture.kubernetes.refuse_annotations = "exceeded quota: pods"
    operator_fixture.wait(STANDBY_AFTER_SECONDS + 1)
    await operator_fixture.settle()
    operator_fixture.kubernetes.refuse_pods = ""
    operator_fixture.wait(2 * STANDBY_AGAIN_SECONDS)
    operator_fixture.report(1, checkpoint_id=11)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_a_standby_that_exists_after_two_failures_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture, fault = await due(monkeypatch, left=1, lost=1)
    await operator_fixture.settle()
    operator_fixture.wait(AWAIT_CLAIMANT + 1)
    await operator_fixture.settle()
    assert (fault.left, fault.lost) == (0, 0)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]
    assert not is_being_deleted(operator_fixture, 3)


async def test_a_config_map_under_a_standbys_name_is_passed_over() -> None:
    operator_fixture = OperatorFixture(**BEFORE_STOP)
    await operator_fixture.run()
    place = ("ConfigMap", KEY.namespace, record_name(2))
    operator_fixture.kubernetes.objects[place] = {
        "kind": "ConfigMap", "metadata": {"name": place[2], "namespace": KEY.namespace, "uid": "x"},
    }  # fmt: skip
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.look(2)
    assert operator_fixture.drivers == ["orders-1-driver", "orders-3-driver"]


@pytest.mark.parametrize("policy", [BEFORE_STOP, STANDBY])
async def test_a_webhook_that_is_down_for_pods_does_not_hold_up_a_running_job(policy: dict[str, Any]) -> None:
    """It refuses the standby driver, and the annotation that says so."""
    operator_fixture = OperatorFixture(**policy)
    await operator_fixture.run()
    operator_fixture.kubernetes.refuse_pods = operator_fixture.kubernetes.refuse_annotations = "failed calling webhook"
    operator_fixture.wait(STANDBY_AFTER_SECONDS + 1)
    operator_fixture.report(1, checkpoint_id=11)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["checkpoint"]["id"]) == ("Running", 11)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    assert set(operator_fixture.kubernetes.events(warning=True)) == {"SuccessorRefused"}
