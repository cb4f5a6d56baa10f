"""A change of the parallelism alone: the running attempt makes it, or another attempt does."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.checks.in_place import ROOM_SECONDS
from kafkasparkjob_operator.status.phases import CONFIRM_SECONDS, WITHDRAW_SECONDS
from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, OperatorFixture

RUNS: dict[str, Any] = {"engine": "Continuous", "parallelism": 2, "rescales": True}


def driver_of(fixture: OperatorFixture, attempt: int = 1) -> dict[str, Any]:
    found: dict[str, Any] = fixture.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return found["metadata"]


def asked(fixture: OperatorFixture) -> tuple[str | None, str | None]:
    """What the driver was last asked for: subtasks and executors."""
    annotations = driver_of(fixture).get("annotations") or {}
    return annotations.get(names.ANNOTATION_PARALLELISM), annotations.get(names.ANNOTATION_EXECUTORS)


def is_stopped(fixture: OperatorFixture) -> bool:
    return "deletionTimestamp" in driver_of(fixture)


def state(fixture: OperatorFixture) -> tuple[str, str]:
    return fixture.status["state"], fixture.status["reason"]


async def reported(fixture: OperatorFixture, **fields: Any) -> None:
    fixture.report(1, **{**RUNS, **fields})
    await fixture.settle()


async def scaled(fixture: OperatorFixture, parallelism: int, **fields: Any) -> None:
    fixture.kubernetes.edit_job(KEY, parallelism=parallelism, **fields)
    await fixture.settle()


@pytest.fixture
async def running() -> OperatorFixture:
    """Attempt 1 runs with two subtasks and can be rescaled in place."""
    fixture = OperatorFixture(engine="Continuous")
    await fixture.run()
    await reported(fixture)
    return fixture


@pytest.fixture
async def rescaling(running: OperatorFixture) -> OperatorFixture:
    await scaled(running, 4)
    return running


async def test_the_driver_is_asked_and_the_attempt_stays(rescaling: OperatorFixture) -> None:
    assert asked(rescaling) == ("4", "4")
    assert not is_stopped(rescaling)
    assert rescaling.drivers == ["orders-1-driver"]
    assert state(rescaling) == ("Rescaling", "RescalingInPlace")
    assert rescaling.status["parallelism"] == 2, "what runs"
    assert rescaling.status["executors"]["desired"] == 4
    assert rescaling.ready["status"] == "False"
    assert rescaling.kubernetes.condition(KEY, "Reconciling")["status"] == "True"
    assert rescaling.status["observedGeneration"] == 2
    assert "Rescaled" not in rescaling.kubernetes.events()


async def test_the_attempt_is_that_of_the_new_spec_when_it_runs_the_new_parallelism(rescaling: OperatorFixture) -> None:
    await reported(rescaling, rescaling=4)
    rescaling.kubernetes.pod_runs(rescaling.kubernetes.add_executor(KEY, 1))
    rescaling.wait(4 * CONFIRM_SECONDS)
    await reported(rescaling, rescaling=4)
    assert state(rescaling) == ("Rescaling", "RescalingInPlace"), "it waits for executors and was heard"
    await reported(rescaling, rescaling=4, parallelism=4)
    assert state(rescaling) == ("Running", "Running")
    assert rescaling.ready["status"] == "True"
    status = rescaling.status
    assert (status["parallelism"], status["attempt"]["id"], status["attempt"]["generation"]) == (4, 1, 2)
    assert {"RescaleStarted", "Rescaled"} <= set(rescaling.kubernetes.events())
    assert status["selector"].endswith("kafkaspark.io/attempt=1")


async def test_a_job_without_room_for_more_executors_is_ready_with_those_that_it_has(
    rescaling: OperatorFixture,
) -> None:
    rescaling.kubernetes.add_executor(KEY, 1)
    await reported(rescaling, rescaling=4, executors_refused="exceeded quota: small")
    assert state(rescaling) == ("Running", "ExecutorsPending")
    assert rescaling.ready["status"] == "True"
    assert "changes to 4 in place; Kubernetes refuses executors: exceeded quota: small" in rescaling.status["message"]
    assert rescaling.status["parallelism"] == 2
    assert asked(rescaling) == ("4", "4"), "it grows as soon as there is room"
    assert not is_stopped(rescaling)
    await reported(rescaling, rescaling=4, parallelism=4)
    assert state(rescaling) == ("Running", "Running")
    assert "Rescaled" in rescaling.kubernetes.events()


async def test_a_rescale_that_names_no_cause_has_a_deadline(rescaling: OperatorFixture) -> None:
    rescaling.kubernetes.add_executor(KEY, 1)
    await reported(rescaling, rescaling=4)
    rescaling.wait(ROOM_SECONDS - 1)
    await reported(rescaling, rescaling=4)
    assert state(rescaling) == ("Rescaling", "RescalingInPlace")
    rescaling.wait(2)
    await reported(rescaling, rescaling=4)
    assert state(rescaling) == ("Running", "ExecutorsPending")
    assert rescaling.ready["status"] == "True"
    assert not is_stopped(rescaling)


async def test_a_request_without_room_is_taken_back(rescaling: OperatorFixture) -> None:
    rescaling.kubernetes.add_executor(KEY, 1)
    await reported(rescaling, rescaling=4, executors_refused="exceeded quota: small")
    for _ in range(5):
        rescaling.wait(WITHDRAW_SECONDS / 5)
        assert asked(rescaling) == ("4", "4")
        await reported(rescaling, rescaling=4, executors_refused="exceeded quota: small")
    assert asked(rescaling) == ("2", "2")
    await reported(rescaling, rescaling=2)
    for _ in range(3):
        rescaling.restart_operator()
        await reported(rescaling, rescaling=2)
        assert state(rescaling) == ("Running", "RevisionRefused")
        assert rescaling.ready["status"] == "True"
        rescaling.wait(WITHDRAW_SECONDS)
    stalled = rescaling.kubernetes.condition(KEY, "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "RevisionRefused")
    assert "no room for parallelism 4" in stalled["message"]
    assert "exceeded quota: small" in stalled["message"]
    assert "RevisionRefused" in rescaling.kubernetes.events(warning=True)
    assert asked(rescaling) == ("2", "2")
    assert (rescaling.status["parallelism"], rescaling.status["executors"]["desired"]) == (2, 2)
    assert rescaling.refusal["reason"] == "RescaleWithdrawn"
    await scaled(rescaling, 3)
    assert asked(rescaling) == ("3", "3"), "another change is another request"
    await reported(rescaling, rescaling=3, parallelism=3)
    assert state(rescaling) == ("Running", "Running")
    assert rescaling.refusal == {}


async def test_a_job_whose_request_was_taken_back_restarts_as_it_ran(rescaling: OperatorFixture) -> None:
    await reported(rescaling, rescaling=4)
    rescaling.wait(WITHDRAW_SECONDS)
    await reported(rescaling, rescaling=4)
    rescaling.driver_ends(1, FAILED)
    await rescaling.settle()
    rescaling.wait(2)
    await rescaling.settle()
    assert (rescaling.status["attempt"]["id"], rescaling.status["parallelism"]) == (2, 2)


async def test_up_and_down_and_back_to_the_first_parallelism(running: OperatorFixture) -> None:
    for parallelism in (4, 1, 2):
        await scaled(running, parallelism)
        assert asked(running) == (str(parallelism),) * 2
        await reported(running, rescaling=parallelism, parallelism=parallelism)
        assert (state(running), running.status["parallelism"]) == (("Running", "Running"), parallelism)
    assert running.drivers == ["orders-1-driver"]
    assert running.kubernetes.events().count("Rescaled") == 3


async def test_a_report_of_before_the_question_confirms_nothing(rescaling: OperatorFixture) -> None:
    await scaled(rescaling, 2)
    assert asked(rescaling) == ("2", "2")
    assert state(rescaling) == ("Rescaling", "RescalingInPlace"), "the driver may have changed to 4 meanwhile"
    await reported(rescaling, rescaling=4, parallelism=4)
    assert (state(rescaling), rescaling.status["parallelism"]) == (("Rescaling", "RescalingInPlace"), 4)
    await reported(rescaling, rescaling=2, parallelism=2)
    assert (state(rescaling), rescaling.status["parallelism"]) == (("Running", "Running"), 2)


async def test_a_driver_that_does_not_confirm_is_stopped(rescaling: OperatorFixture) -> None:
    rescaling.wait(CONFIRM_SECONDS - 1)
    await reported(rescaling)
    assert not is_stopped(rescaling)
    rescaling.wait(1)
    await reported(rescaling)
    assert is_stopped(rescaling)
    assert state(rescaling) == ("Rescaling", "RescaleStarted")
    rescaling.driver_ends(1, DRAINED)
    await rescaling.settle()
    assert rescaling.status["attempt"]["startReason"] == "Rescaled"
    assert rescaling.status["parallelism"] == 4


NOT_IN_PLACE: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"rescales": False}, {}),
    ({"state": DriverState.DRAINING}, {}),
    ({}, {"image": "kafkaspark/sparkapp:2"}),
    ({}, {"executor": {"memory": "2Gi"}}),
    ({}, {"restartNonce": 1}),
]


@pytest.mark.parametrize(("report", "edit"), NOT_IN_PLACE)
async def test_what_needs_another_attempt(
    running: OperatorFixture, report: dict[str, Any], edit: dict[str, Any]
) -> None:
    await reported(running, **report)
    await scaled(running, 4, **edit)
    assert asked(running) == (None, None)
    assert is_stopped(running)


async def test_executors_that_are_set_stay() -> None:
    fixture = OperatorFixture(engine="Continuous", executor={"instances": 3, "cores": 2})
    await fixture.run()
    await reported(fixture)
    await scaled(fixture, 5)
    assert asked(fixture) == ("5", "3")


async def test_an_operator_that_restarts_asks_once(rescaling: OperatorFixture) -> None:
    at = driver_of(rescaling)["annotations"]["kafkaspark.io/parallelism-asked-at"]
    rescaling.wait(5)
    rescaling.restart_operator()
    await rescaling.settle()
    assert driver_of(rescaling)["annotations"]["kafkaspark.io/parallelism-asked-at"] == at
    await reported(rescaling, rescaling=4, parallelism=4)
    assert state(rescaling) == ("Running", "Running")


async def test_a_driver_that_dies_meanwhile_is_followed_by_an_attempt_of_the_new_spec(
    rescaling: OperatorFixture,
) -> None:
    rescaling.driver_ends(1, FAILED)
    await rescaling.settle()
    rescaling.wait(2)
    await rescaling.settle()
    assert rescaling.status["attempt"]["id"] == 2
    assert (rescaling.status["parallelism"], rescaling.status["attempt"]["generation"]) == (4, 2)


async def test_an_edit_of_something_else_after_it_keeps_the_attempt(rescaling: OperatorFixture) -> None:
    await reported(rescaling, rescaling=4, parallelism=4)
    rescaling.kubernetes.edit_job(KEY, restartPolicy={"maxConsecutiveFailures": 3})
    await rescaling.settle()
    assert state(rescaling) == ("Running", "Running")
    assert rescaling.status["attempt"]["generation"] == 3
    await scaled(rescaling, 4, image="kafkaspark/sparkapp:2")
    assert is_stopped(rescaling)


async def test_the_last_valid_spec_is_that_of_the_parallelism_that_ran(rescaling: OperatorFixture) -> None:
    await reported(rescaling, rescaling=4, parallelism=4)
    rescaling.kubernetes.edit_job(KEY, sink={})
    await rescaling.settle()
    rescaling.driver_ends(1, FAILED)
    await rescaling.settle()
    rescaling.wait(2)
    await rescaling.settle()
    assert (rescaling.status["attempt"]["id"], rescaling.status["parallelism"]) == (2, 4)


WEBHOOK = 'Internal error occurred: failed calling webhook "policy.example.com": connection refused'


async def test_a_refused_request_leaves_the_job_running_and_another_attempt_follows(running: OperatorFixture) -> None:
    """A webhook that must be asked about changes of pods, and is down."""
    running.kubernetes.refuse_annotations = WEBHOOK
    await scaled(running, 4)
    running.report(1, **RUNS, checkpoint_id=11)
    for seconds in (10, CONFIRM_SECONDS - 11):
        running.wait(seconds)
        await running.settle()
        assert state(running) == ("Running", "RescaleRequested")
        assert not is_stopped(running)
    assert running.status["checkpoint"]["id"] == 11
    assert (running.status["parallelism"], running.status["executors"]["desired"]) == (2, 2)
    assert running.kubernetes.condition(KEY, "Reconciling")["status"] == "True"
    assert running.kubernetes.events(warning=True) == ["RescaleRefused"]
    assert "RescaleStarted" not in running.kubernetes.events()
    running.wait(1)
    await running.settle()
    assert is_stopped(running)
    assert state(running) == ("Rescaling", "RescaleStarted")


async def test_time_without_readiness_before_it_does_not_count(running: OperatorFixture) -> None:
    """The first request waits for executors without a place, and the second is refused for a moment."""
    await scaled(running, 4)
    await reported(running, rescaling=4)
    running.wait(9 * CONFIRM_SECONDS)
    await running.settle()
    since = running.ready["lastTransitionTime"]
    running.kubernetes.refuse_annotations = WEBHOOK
    await scaled(running, 2)
    for _ in range(3):
        assert state(running) == ("Running", "RescaleRequested")
        assert running.ready["lastTransitionTime"] == since
        assert not is_stopped(running)
        running.wait(CONFIRM_SECONDS / 3)
        await running.settle()
    assert is_stopped(running)


async def test_a_request_that_is_refused_for_a_moment_is_repeated(running: OperatorFixture) -> None:
    running.kubernetes.add_executor(KEY, 1)
    running.kubernetes.refuse_annotations = WEBHOOK
    await scaled(running, 4)
    running.kubernetes.refuse_annotations = ""
    running.wait(CONFIRM_SECONDS / 2)
    await running.settle()
    assert asked(running) == ("4", "4")
    running.wait(CONFIRM_SECONDS / 2)
    await running.settle()
    assert not is_stopped(running), "the driver has its own time to confirm"
    assert state(running) == ("Rescaling", "RescalingInPlace")
    await reported(running, rescaling=4, parallelism=4)
    assert state(running) == ("Running", "Running")
    assert {"RescaleStarted", "Rescaled"} <= set(running.kubernetes.events())


@pytest.mark.parametrize("seconds", [CONFIRM_SECONDS, -3600])
async def test_a_standby_is_prepared_where_the_driver_cannot_be_asked(seconds: float) -> None:
    """Also where the clock is set back meanwhile."""
    fixture = OperatorFixture(engine="Continuous", restartPolicy={"successor": "BeforeStop"})
    await fixture.run()
    await reported(fixture)
    fixture.kubernetes.refuse_annotations = WEBHOOK
    await scaled(fixture, 4)
    assert state(fixture) == ("Running", "RescaleRequested")
    fixture.wait(seconds)
    for _ in range(3):
        await reported(fixture)
        assert state(fixture) == ("Rescaling", "PreparingSuccessor"), "the driver is not asked again"
    assert fixture.drivers == ["orders-1-driver", "orders-2-driver"]


async def test_a_suspension_needs_no_request(running: OperatorFixture) -> None:
    running.kubernetes.refuse_annotations = WEBHOOK
    await scaled(running, 4)
    running.kubernetes.edit_job(KEY, suspend=True)
    await running.settle()
    assert is_stopped(running)
    assert state(running) == ("Suspending", "Suspending")
