"""A drain that does not end in time, with ``drainFallback: Abort``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.code_watch import CodeWatch
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, OperatorFixture
from tests.support.kubernetes.revision_steps import (
    ABORT,
    CODE,
    NEW,
    next_attempt,
    put_code,
    runs_old_image,
    stable,
    times_out,
)


@pytest.mark.parametrize("fallback", ["LastCheckpoint", "Abort"])
async def test_a_drain_that_does_not_end_in_time(fallback: str) -> None:
    operator = await stable(upgrade={"drainTimeoutSeconds": 30, "drainFallback": fallback})
    operator.kubernetes.edit_job(KEY, **NEW)
    await operator.settle()
    operator.driver_ends(1, code=137)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    assert runs_old_image(operator, 2) is (fallback == "Abort")
    if fallback == "Abort":
        assert operator.refusal["reason"] == "DrainTimedOut"
        await operator.run(2)
        assert operator.ready["reason"] == "RolledBack"
        operator.wait(600)
        await operator.settle()
        assert operator.drivers == ["orders-2-driver"]


def pasted(message: str) -> dict[str, Any]:
    """``spec.upgrade`` of the command at the end of a message."""
    command, found, text = message.rpartition("kubectl patch ksj orders -n team --type merge -p ")
    assert found, command
    return dict(json.loads(text.strip("'"))["spec"]["upgrade"])


@pytest.mark.parametrize("remedy", [{"drainTimeoutSeconds": 600}, {"mode": "LastCheckpoint"}, None])
async def test_what_the_refusal_of_a_timed_out_drain_asks_for_tries_the_change_again(
    remedy: dict[str, Any] | None,
) -> None:
    operator = await stable(upgrade=ABORT)
    await times_out(operator, **NEW)
    assert operator.refusal["reason"] == "DrainTimedOut"
    operator.kubernetes.edit_job(KEY, upgrade={**ABORT, **(remedy or pasted(operator.refusal["message"]))})
    await operator.settle()
    assert operator.refusal == {}
    assert operator.status["attempt"]["stopReason"] == "SpecChange"
    operator.driver_ends(2, DRAINED if remedy == {"drainTimeoutSeconds": 600} else None, code=137)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert not runs_old_image(operator, 3)


async def test_a_change_that_is_tried_again_may_be_refused_again() -> None:
    operator = await stable(upgrade=ABORT)
    await times_out(operator, **NEW)
    operator.kubernetes.edit_job(KEY, upgrade={**ABORT, "drainTimeoutSeconds": 60})
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "SpecChange"
    operator.driver_ends(2, code=137)
    await operator.run(3)
    assert (operator.refusal["reason"], operator.refusal["generation"]) == ("DrainTimedOut", 3)
    assert runs_old_image(operator, 3)


@pytest.mark.parametrize("edit", [{"upgrade": {**ABORT, "rollback": "Never"}}, {"deletion": {"policy": "Cancel"}}])
async def test_a_default_that_is_written_down_and_another_policy_try_nothing_again(edit: dict[str, Any]) -> None:
    operator = await stable(upgrade=ABORT)
    await times_out(operator, **NEW)
    operator.kubernetes.edit_job(KEY, **edit)
    await next_attempt(operator, 60)
    assert operator.refusal["reason"] == "DrainTimedOut"
    assert "stopReason" not in operator.status["attempt"]


@pytest.mark.parametrize("is_stable", [True, False])
@pytest.mark.parametrize("edit", [{"parallelism": 4}, {"restartNonce": 1}, {"restore": {"nonce": 1, "checkpoint": 10}}])
async def test_a_timed_out_drain_for_the_same_revision_refuses_nothing(edit: dict[str, Any], is_stable: bool) -> None:
    operator = OperatorFixture(upgrade=ABORT)
    await operator.run()
    if is_stable:
        await next_attempt(operator, 61)
    await times_out(operator, **edit)
    assert operator.refusal == {}
    assert (operator.ready["reason"], operator.kubernetes.condition(KEY, "Stalled")["status"]) == ("Running", "False")
    assert operator.status["parallelism"] == edit.get("parallelism", 2)
    assert "NotDrained" in operator.kubernetes.events(warning=True)
    await next_attempt(operator, 3600)
    assert "stopReason" not in operator.status["attempt"], "it is done"
    operator.kubernetes.edit_job(KEY, parallelism=3)
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "Rescale"


@pytest.mark.parametrize("is_stable", [True, False])
async def test_the_revision_of_before_has_the_requests_of_a_refused_change(is_stable: bool) -> None:
    operator = OperatorFixture(upgrade=ABORT)
    await operator.run()
    if is_stable:
        await next_attempt(operator, 61)
    await times_out(operator, **NEW, parallelism=4, restartNonce=1)
    assert operator.refusal["reason"] == "DrainTimedOut"
    assert runs_old_image(operator, 2)
    assert operator.status["parallelism"] == 4
    await next_attempt(operator, 61)
    await next_attempt(operator, 3600)
    assert "stopReason" not in operator.status["attempt"], "it has them already"
    operator.kubernetes.edit_job(KEY, parallelism=3)
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "Rescale"


@pytest.mark.parametrize("is_stable", [True, False])
async def test_modules_whose_drain_has_timed_out_do_not_start(is_stable: bool) -> None:
    operator = OperatorFixture(upgrade=ABORT, transform=CODE)
    put_code(operator, "old")
    await operator.run()
    if is_stable:
        await next_attempt(operator, 61)
    put_code(operator, "new")
    await CodeWatch(operator.kubernetes, operator.cache, operator.queue).look()
    await times_out(operator)
    assert operator.refusal["reason"] == "DrainTimedOut"
    assert operator.status["attempt"]["revision"] == operator.refusal["backTo"]


async def test_a_stable_revision_has_its_generation_and_not_that_of_a_refused_change() -> None:
    operator = OperatorFixture(upgrade=ABORT)
    await operator.run()
    await times_out(operator, **NEW)
    await next_attempt(operator, 61)
    assert operator.status["stable"]["revision"] == operator.refusal["backTo"]
    assert operator.status["stable"]["generation"] == 1
