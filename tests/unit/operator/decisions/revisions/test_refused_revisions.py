"""A job that has gone back: what tries the refused revision again, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.code_watch import CodeWatch
from kafkasparkjob_operator.workload import JobSettings
from sparkapp.model import commands, names
from sparkapp.model.report import Termination
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, OperatorFixture, record_name
from tests.support.kubernetes.revision_steps import (
    AUTO,
    CODE,
    NEW,
    gone_back,
    next_attempt,
    put_code,
    runs_old_image,
    stable,
    upgraded,
)


@pytest.mark.parametrize(("edit", "tried"), [({"parallelism": 3}, False), ({"restartNonce": 1}, True)])
async def test_a_rescale_does_not_try_the_refused_revision_again_and_a_restart_does(
    edit: dict[str, Any], tried: bool
) -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.checkpoint(3, 12, drained=True)
    operator.driver_ends(3, DRAINED)
    await operator.settle()
    assert operator.status["parallelism"] == edit.get("parallelism", 2)
    assert runs_old_image(operator, 4) is not tried
    assert (operator.refusal == {}) is tried
    assert len(operator.status["refused"]) == 1, "it stays as history"


@pytest.mark.parametrize("nonce", [0, 1])
async def test_a_refusal_without_a_digest_ends_with_another_restart_nonce(nonce: int) -> None:
    """An operator of before has written it, or the CustomResourceDefinition is of before and drops the digest."""
    operator = await stable(restartNonce=nonce)
    await upgraded(operator, **NEW)
    await gone_back(operator)
    del operator.refusal["request"]
    await next_attempt(operator, 60)
    assert "backTo" in operator.refusal
    assert operator.refusal.get("restartNonce", 0) == nonce, "what an operator of before has written, too"
    operator.kubernetes.edit_job(KEY, restartNonce=nonce + 1)
    await operator.settle()
    operator.driver_ends(3, DRAINED)
    await operator.settle()
    assert operator.refusal == {}
    assert not runs_old_image(operator, 4)


async def test_an_attempt_that_went_back_has_its_generation_when_a_change_is_refused() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    await gone_back(operator)
    operator.kubernetes.edit_job(KEY, transform=CODE)
    await operator.settle()
    assert operator.refusal["reason"] == "CodeMissing"
    assert "attempt 3 continues with generation 1:" in operator.refusal["message"]
    for attempt in (3, 4):
        await operator.run(attempt)
        assert operator.status["attempt"]["generation"] == 1
        operator.driver_ends(attempt, FAILED)
        await next_attempt(operator, 1)
        assert operator.drivers == [names.driver_pod(KEY.name, attempt)], "the next attempt waits"
        assert operator.status["restarts"]["consecutiveFailures"] == attempt - 2
        await next_attempt(operator, 300)


async def gone_back_from_default_image() -> OperatorFixture:
    """A job without an image, whose new default image has failed."""
    operator = OperatorFixture(upgrade=AUTO)
    del operator.kubernetes.job(KEY)["spec"]["image"]
    operator.restart_operator(settings=JobSettings(default_image="kafkaspark/sparkapp:1"))
    await operator.run()
    await next_attempt(operator, 61)
    operator.restart_operator(settings=JobSettings(default_image="kafkaspark/sparkapp:2"))
    await upgraded(operator, restartNonce=1)
    await gone_back(operator)
    return operator


@pytest.mark.parametrize("edit", [{"upgrade": {**AUTO, "drainTimeoutSeconds": 77}}, {"restartNonce": 2}])
async def test_a_default_image_that_is_refused_is_tried_again_when_it_is_asked_for(edit: dict[str, Any]) -> None:
    operator = await gone_back_from_default_image()
    operator.kubernetes.edit_job(KEY, parallelism=3)
    await operator.settle()
    operator.driver_ends(3, DRAINED)
    await operator.run(4)
    assert runs_old_image(operator, 4), "a rescale asks for nothing"
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    assert operator.refusal == {}
    assert operator.status["attempt"]["stopReason"] == "SpecChange"
    operator.driver_ends(4, DRAINED)
    await operator.run(5)
    assert not runs_old_image(operator, 5)


async def test_a_default_image_is_tried_again_where_the_attempt_fails_meanwhile() -> None:
    operator = await gone_back_from_default_image()
    operator.kubernetes.edit_job(KEY, upgrade={**AUTO, "drainTimeoutSeconds": 77})
    operator.driver_ends(3, FATAL)
    await operator.settle()
    assert operator.kubernetes.driver_attempts[-1] == 4
    assert not runs_old_image(operator, 4)


async def test_a_default_image_that_fails_while_it_is_prepared_again_is_refused_again() -> None:
    operator = await gone_back_from_default_image()
    second = operator.refusal["revision"]
    operator.kubernetes.edit_job(KEY, upgrade={"strategy": "BlueGreen"})
    await operator.settle()
    assert operator.refusal == {}
    assert operator.drivers == ["orders-3-driver", "orders-4-driver"]
    assert operator.status["target"]["revision"] == second
    operator.kubernetes.pod_runs("orders-4-driver")
    operator.driver_ends(4, FATAL)
    await operator.settle()
    await next_attempt(operator, 60)
    assert operator.refusal["revision"] == second
    assert "attempt 3 continues with generation 1:" in operator.refusal["message"]
    assert "stopReason" not in operator.status["attempt"]


async def test_code_that_fails_goes_back_to_its_copy_and_corrected_code_is_tried() -> None:
    operator = OperatorFixture(upgrade=AUTO, transform=CODE)
    put_code(operator, "good")
    await operator.run()
    operator.wait(61)
    await operator.settle()
    put_code(operator, "bad")
    await operator.settle()
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)

    def code_of(attempt: int) -> str:
        pod = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
        name = next(each["configMap"]["name"] for each in pod["spec"]["volumes"] if each["name"] == "code")
        return str(operator.kubernetes.objects["ConfigMap", KEY.namespace, name]["data"]["a.py"])

    assert code_of(3) == "good"
    operator.wait(20)
    await operator.settle()
    assert operator.ready["reason"] == "RolledBack"
    put_code(operator, "better")
    await operator.settle()
    operator.driver_ends(3, DRAINED)
    await operator.settle()
    assert code_of(4) == "better"
    assert operator.refusal == {}


async def test_corrected_code_under_another_name_than_the_stable_revisions_is_tried() -> None:
    operator = OperatorFixture(upgrade=AUTO, transform=CODE)
    put_code(operator, "good")
    put_code(operator, "bad", name="next")
    await operator.run()
    await next_attempt(operator, 61)
    await upgraded(operator, transform={"python": {"function": "a:b", "configMapRef": {"name": "next"}}})
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    await next_attempt(operator, 20)
    assert operator.ready["reason"] == "RolledBack"
    put_code(operator, "better", name="next")
    await CodeWatch(operator.kubernetes, operator.cache, operator.queue).look()
    await operator.settle()
    assert operator.refusal == {}
    assert operator.status["attempt"]["stopReason"] == "SpecChange"


async def test_a_refused_revision_is_tried_again_where_nothing_of_before_is_left() -> None:
    """Its spec is valid, and the status says of no other revision that it runs."""
    operator = await stable()
    first = operator.status["stable"]["revision"]
    await upgraded(operator, **NEW)
    await gone_back(operator)
    for name in (first, record_name(3)):
        operator.kubernetes.remove(("ConfigMap", KEY.namespace, name))
    operator.driver_ends(3, FAILED)
    await operator.settle()
    assert "backTo" in operator.refusal
    await next_attempt(operator, 60)
    assert not runs_old_image(operator, 4)
    assert operator.refusal == {}


@pytest.mark.parametrize(
    "how",
    [FATAL, replace(FATAL, remedy="put it back, then change spec.restartNonce"), FAILED],
    ids=["fatal", "with-a-nonce", "limit"],
)
async def test_a_failed_job_that_has_gone_back_says_which_revision_each_remedy_runs(how: Termination) -> None:
    operator = await stable(restartPolicy={"maxConsecutiveFailures": 1})
    first = operator.status["stable"]["revision"]
    await upgraded(operator, **NEW)
    second = operator.status["attempt"]["revision"]
    await gone_back(operator)
    operator.driver_ends(3, how)
    await operator.settle()
    assert operator.status["state"] == "Failed"
    command = commands.restart(KEY.namespace, KEY.name)
    shown = f"kubectl get configmap {first} -n team -o jsonpath='{{.data.revision\\.json}}'"
    for text in (operator.status["message"], operator.status["lastFailure"]["remedy"]):
        assert f"to try the refused revision {second} again: {command}" in text
        assert f"to keep revision {first}, put its content into the resource: {shown}" in text
        assert "without another change" not in text
    operator.kubernetes.edit_job(KEY, parallelism=3)
    await operator.settle()
    assert operator.status["state"] == "Failed"
    [ignored] = operator.kubernetes.messages("ScaleIgnored")
    assert f"to try the refused revision {second} again: {command}" in ignored
    assert shown in ignored


@pytest.mark.parametrize(("edit", "is_old"), [({"image": "kafkaspark/sparkapp:1"}, True), ({"restartNonce": 1}, False)])
async def test_each_remedy_of_a_job_that_has_gone_back_runs_the_revision_that_it_names(
    edit: dict[str, Any], is_old: bool
) -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    await gone_back(operator)
    operator.driver_ends(3, FATAL)
    await operator.settle()
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    assert runs_old_image(operator, 4) is is_old
    assert operator.refusal == {}


async def test_five_refusals_are_kept() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    attempt = 2
    for number in range(3, 9):
        operator.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
        operator.driver_ends(attempt, FATAL)
        await operator.run(attempt + 1)
        operator.kubernetes.edit_job(KEY, image=f"kafkaspark/sparkapp:{number}")
        await operator.settle()
        operator.driver_ends(attempt + 1, DRAINED)
        await operator.settle()
        attempt += 2
    assert len(operator.status["refused"]) == 5
    assert len({each["revision"] for each in operator.status["refused"]}) == 5


async def test_a_job_that_has_gone_back_tries_the_change_where_its_status_is_lost() -> None:
    operator = await stable()
    await upgraded(operator, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.run(3)
    operator.driver_ends(3, FAILED)
    await next_attempt(operator, 1)
    await next_attempt(operator, 60)
    await operator.run(4)
    operator.kubernetes.job(KEY)["status"] = {}
    operator.restart_operator()
    await operator.settle()
    assert operator.status["attempt"]["stopReason"] == "SpecChange", "nothing says that the change was refused"
