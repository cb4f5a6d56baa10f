"""A Failed or Finished job and changes of its resource: parallelism alone starts nothing, everything else does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kubernetes.operator_fixture import FAILED, FATAL, FINISHED, KEY, OperatorFixture
from tests.support.kubernetes.revision_steps import AUTO, NEW, gone_back, runs_old_image, stable, upgraded


@pytest.fixture(params=["Failed", "Finished", "RestartLimitReached"])
async def operator_fixture(request: pytest.FixtureRequest) -> OperatorFixture:
    """A job at rest."""
    operator_fixture = OperatorFixture(
        source={"topics": ["orders"], "stopping": {"mode": "Latest"}}, restartPolicy={"maxConsecutiveFailures": 1}
    )
    await operator_fixture.run()
    await end(operator_fixture, request.param)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == ("Finished" if request.param == "Finished" else "Failed")
    return operator_fixture


async def end(operator_fixture: OperatorFixture, how: str) -> None:
    if how == "Finished":
        operator_fixture.checkpoint(1, 10, drained=True, finished=True)
        operator_fixture.driver_ends(1, FINISHED)
    else:
        operator_fixture.driver_ends(1, FATAL if how == "Failed" else None, code=137)


async def test_a_scale_starts_nothing_and_the_status_says_so(operator_fixture: OperatorFixture) -> None:
    before = operator_fixture.status
    for parallelism in (5, 3):
        operator_fixture.kubernetes.edit_job(KEY, parallelism=parallelism)
        await operator_fixture.settle()
        operator_fixture.wait(3600)
        operator_fixture.restart_operator()
        await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == (before["state"], before["reason"])
    warning = "a change of spec.parallelism alone does not start it"
    assert operator_fixture.status["message"].count(warning) == 1
    assert operator_fixture.status["observedGeneration"] == 3
    assert "ScaleIgnored" in operator_fixture.kubernetes.events()


@pytest.mark.parametrize(
    "change", [{"restartNonce": 1}, {"sink": {"topic": "other"}}, {"restore": {"nonce": 1}}, {"image": "x:2"}]
)
async def test_any_other_change_starts_it_with_that_parallelism(
    operator_fixture: OperatorFixture, change: dict[str, Any]
) -> None:
    operator_fixture.kubernetes.edit_job(KEY, parallelism=5)
    await operator_fixture.settle()
    operator_fixture.kubernetes.edit_job(KEY, **change)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]
    assert operator_fixture.status["parallelism"] == 5


async def test_it_starts_after_a_suspension_too(operator_fixture: OperatorFixture) -> None:
    for change in ({"suspend": True}, {"suspend": False}):
        operator_fixture.kubernetes.edit_job(KEY, **change)
        await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]


@pytest.mark.parametrize(("how", "seen"), [("Failed", False), ("Finished", False), ("Finished", True)])
async def test_a_scale_just_before_the_end_changes_nothing_of_it(how: str, seen: bool) -> None:
    operator_fixture = OperatorFixture(source={"topics": ["orders"], "stopping": {"mode": "Latest"}})
    await operator_fixture.run()
    operator_fixture.kubernetes.edit_job(KEY, parallelism=5)
    if seen:
        await operator_fixture.look()
    await end(operator_fixture, how)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == how
    assert operator_fixture.kubernetes.driver_attempts == [1]


async def test_a_scale_that_makes_a_new_job_valid_starts_it_and_no_event_denies_it() -> None:
    operator_fixture = OperatorFixture(engine="Continuous", executor={"instances": 2}, parallelism=8)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Failed", "InvalidSpec")
    operator_fixture.kubernetes.edit_job(KEY, parallelism=2)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]
    assert "ScaleIgnored" not in operator_fixture.kubernetes.events()
    assert "parallelism alone" not in operator_fixture.status["message"]


async def test_a_scale_while_the_state_is_missing_is_not_said_to_be_ignored() -> None:
    """The job waits for its state, and starts with the new parallelism when somebody has restored it."""
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    state = operator_fixture.kubernetes.objects["ConfigMap", "team", "orders-state"]
    operator_fixture.kubernetes.remove(("ConfigMap", "team", "orders-state"))
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Failed"
    operator_fixture.kubernetes.edit_job(KEY, parallelism=5)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Failed"
    assert "ScaleIgnored" not in operator_fixture.kubernetes.events()
    operator_fixture.kubernetes.objects["ConfigMap", "team", "orders-state"] = state
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1, 2]
    assert operator_fixture.status["parallelism"] == 5


@pytest.fixture(params=["Failed", "Finished"])
async def at_rest_and_back(request: pytest.FixtureRequest) -> OperatorFixture:
    """A job at rest that had gone back before it ended."""
    operator = await stable(source={"topics": ["orders"], "stopping": {"mode": "Latest"}})
    await upgraded(operator, **NEW)
    await gone_back(operator)
    if request.param == "Finished":
        operator.checkpoint(3, 40, drained=True, finished=True)
    operator.driver_ends(3, FINISHED if request.param == "Finished" else FATAL)
    await operator.settle()
    assert operator.status["state"] == request.param
    return operator


async def test_another_upgrade_tries_the_refused_revision_of_a_job_at_rest(at_rest_and_back: OperatorFixture) -> None:
    operator = at_rest_and_back
    operator.kubernetes.edit_job(KEY, upgrade={**AUTO, "progressDeadlineSeconds": 1000})
    await operator.settle()
    assert operator.kubernetes.driver_attempts[-1] == 4
    assert not runs_old_image(operator, 4)
    assert operator.refusal == {}
    assert operator.status["attempt"]["startReason"] == "SpecChanged"


@pytest.mark.parametrize(
    "change", [{"parallelism": 3}, {"snapshots": {"intervalSeconds": 3600}}, {"upgrade": {**AUTO, "mode": "Drain"}}],
    ids=["scale", "policy", "default"],
)  # fmt: skip
async def test_what_asks_for_nothing_leaves_the_refusal_of_a_job_at_rest(
    at_rest_and_back: OperatorFixture, change: dict[str, Any]
) -> None:
    operator, state = at_rest_and_back, at_rest_and_back.status["state"]
    operator.kubernetes.edit_job(KEY, **change)
    await operator.settle()
    assert operator.kubernetes.driver_attempts[-1] == 3
    assert operator.status["state"] == state
    assert "backTo" in operator.refusal


async def test_another_upgrade_starts_no_job_at_rest_that_has_not_gone_back(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.edit_job(KEY, upgrade=AUTO)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts == [1]


@pytest.fixture
async def scaled_twice() -> OperatorFixture:
    """Attempt 1 runs generation 2 after a rescale in place, and has not confirmed the rescale of generation 3."""
    fixture = OperatorFixture(engine="Continuous", source={"topics": ["orders"], "stopping": {"mode": "Latest"}})
    await fixture.run()
    for parallelism, confirmed in ((4, True), (5, False)):
        fixture.report(1, engine="Continuous", rescales=True, parallelism=2)
        await fixture.settle()
        fixture.kubernetes.edit_job(KEY, parallelism=parallelism)
        await fixture.settle()
        if confirmed:
            fixture.report(1, engine="Continuous", rescales=True, rescaling=parallelism, parallelism=parallelism)
            await fixture.settle()
    assert (fixture.status["attempt"]["id"], fixture.status["attempt"]["generation"]) == (1, 2)
    assert fixture.status["reason"] == "RescalingInPlace"
    return fixture


@pytest.mark.parametrize("how", ["Failed", "Finished"])
async def test_an_end_between_two_rescales_in_place_is_the_end(scaled_twice: OperatorFixture, how: str) -> None:
    await end(scaled_twice, how)
    await scaled_twice.settle()
    scaled_twice.wait(3600)
    await scaled_twice.settle()
    assert scaled_twice.kubernetes.driver_attempts == [1]
    assert scaled_twice.status["state"] == how
    scaled_twice.kubernetes.edit_job(KEY, restartNonce=1)
    await scaled_twice.settle()
    assert scaled_twice.kubernetes.driver_attempts == [1, 2]
