"""A deleted job whose resource is refused: the attempts of its deletion run the revision that has worked."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.lifecycle.deletion import RETRY_SECONDS
from kafkasparkjob_operator.decisions.revisions.refusal import FAILURES
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, OperatorFixture, record_name
from tests.support.kubernetes.revision_steps import ABORT, NEW, gone_back, runs_old_image, stable, times_out, upgraded
from tests.unit.operator.decisions.lifecycle.test_deletion import NEVER, description, gone, left_open, settles

VOLUME = {"checkpoint": {"stateVolume": {"claimName": "orders-state"}}}
BLUE_GREEN = {"upgrade": {"strategy": "BlueGreen"}}
HOW = ["Auto", "Abort", "BeforeStop", "BlueGreen"]
"""Why the resource is refused: the first two have gone back, the others never left their revision."""


async def back(how: str, **spec: Any) -> tuple[OperatorFixture, int]:
    """A job that runs its first image again, although its resource has the second, and the number of its attempt."""
    if how == "Abort":
        operator, attempt = OperatorFixture(upgrade=ABORT, **spec), 2
        await operator.run()
        await times_out(operator, **NEW)
    else:
        operator, attempt = await stable(**spec), 3
        await upgraded(operator, **NEW)
        await gone_back(operator)
    assert "backTo" in operator.refusal
    return operator, attempt


async def refused(**spec: Any) -> tuple[OperatorFixture, int]:
    """A job whose first attempt runs on, because the image of its resource cannot be pulled."""
    operator = OperatorFixture(**NEVER, **spec)
    await operator.run()
    operator.kubernetes.edit_job(KEY, **NEW)
    await operator.settle()
    pod = operator.kubernetes.objects["Pod", KEY.namespace, "orders-2-driver"]
    pod["spec"]["nodeName"] = "node"
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    pod["status"] = {"phase": "Pending", "containerStatuses": [{"name": names.DRIVER_CONTAINER, "state": waiting}]}
    await operator.settle()
    assert operator.ready["reason"] == "RevisionRefused"
    return operator, 1


async def withheld(how: str) -> tuple[OperatorFixture, int]:
    """A job with transactions without a time-out, whose resource is refused."""
    if how in {"Auto", "Abort"}:
        return await back(how, **NEVER)
    return await refused(**({"restartPolicy": {"successor": how}} if how == "BeforeStop" else BLUE_GREEN))


async def deleted(operator: OperatorFixture, attempt: int) -> int:
    """The driver crashes, and somebody deletes the job; the number of the attempt that settles."""
    operator.driver_ends(attempt, code=137)
    await operator.settle()
    operator.kubernetes.delete_job(KEY)
    for _ in range(3):
        await operator.settle()
        operator.wait(RETRY_SECONDS + 1)
    last = operator.kubernetes.driver_attempts[-1]
    assert description(operator, last).settles_only
    return last


@pytest.mark.parametrize("how", HOW)
async def test_an_attempt_settles_with_the_revision_that_has_worked(how: str) -> None:
    operator, attempt = await withheld(how)
    last = await deleted(operator, attempt)
    assert runs_old_image(operator, last)
    settles(operator, last)
    await operator.settle()
    assert gone(operator)
    assert left_open(operator) == []


@pytest.mark.parametrize("how", ["Auto", "Abort"])
async def test_an_attempt_removes_the_state_with_the_revision_that_a_job_has_gone_back_to(how: str) -> None:
    operator, attempt = await back(how, deletion={"state": "Delete"}, **VOLUME)
    operator.kubernetes.delete_job(KEY)
    await operator.look(2)
    operator.checkpoint(attempt, 31, drained=True)
    operator.driver_ends(attempt, DRAINED)
    operator.kubernetes.kubelet()
    await operator.settle()
    assert description(operator, attempt + 1).removes_state
    assert runs_old_image(operator, attempt + 1)


async def test_a_deletion_is_made_as_the_resource_asks_where_the_job_has_gone_back() -> None:
    operator, attempt = await back("Auto", deletion={"policy": "Drain"}, **VOLUME)
    operator.kubernetes.edit_job(KEY, deletion={"policy": "Cancel", "state": "Delete"})
    await operator.settle()
    operator.kubernetes.delete_job(KEY)
    await operator.look(2)
    meta = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 5
    operator.checkpoint(attempt, 31, drained=True)
    operator.driver_ends(attempt, DRAINED)
    operator.kubernetes.kubelet()
    await operator.settle()
    assert description(operator, attempt + 1).removes_state
    assert runs_old_image(operator, attempt + 1)


@pytest.mark.parametrize("how", HOW)
async def test_failures_of_a_deletion_do_not_try_what_is_refused(how: str) -> None:
    """Kafka is away: a start would try the change after so many failures, and its image cannot be pulled."""
    operator, attempt = await withheld(how)
    last = await deleted(operator, attempt)
    for number in range(last, last + FAILURES + 1):
        assert runs_old_image(operator, number)
        operator.driver_ends(number, FAILED)
        await operator.settle()
        operator.wait(RETRY_SECONDS + 1)
        await operator.settle()
    assert operator.kubernetes.driver_attempts[-1] == last + FAILURES + 1


@pytest.mark.parametrize("how", ["Auto", "BeforeStop"])
async def test_a_resource_that_is_corrected_during_its_deletion_is_what_settles(how: str) -> None:
    operator, attempt = await withheld(how)
    last = await deleted(operator, attempt)
    operator.kubernetes.edit_job(KEY, image="kafkaspark/sparkapp:3")
    operator.driver_ends(last, FAILED)
    await operator.settle()
    operator.wait(RETRY_SECONDS + 1)
    await operator.settle()
    body = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, last + 1)]
    assert body["spec"]["containers"][0]["image"] == "kafkaspark/sparkapp:3"


async def test_a_refused_resource_settles_where_nothing_of_before_is_left() -> None:
    operator, attempt = await withheld("BeforeStop")
    operator.kubernetes.remove(("ConfigMap", KEY.namespace, record_name(attempt)))
    assert not runs_old_image(operator, await deleted(operator, attempt))


async def test_a_fatal_failure_of_a_revision_that_is_back_is_settled_with_it() -> None:
    operator, attempt = await back("Auto", **NEVER)
    operator.driver_ends(attempt, FATAL)
    await operator.settle()
    assert operator.status["state"] == "Failed"
    operator.kubernetes.delete_job(KEY)
    await operator.settle()
    assert description(operator, attempt + 1).settles_only
    assert runs_old_image(operator, attempt + 1)
