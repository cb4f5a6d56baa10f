"""A standby driver begins by itself when the attempt before it has drained. The operator finds that out, or ends it."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kafkasparkjob_operator.kubernetes.port import ClusterError
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, OperatorFixture
from tests.support.kubernetes.revision_steps import CODE, put_code
from tests.unit.operator.decisions.revisions.test_blue_green import (
    CRASHED,
    NEW,
    OLD,
    ends,
    image_of,
    is_being_deleted,
    prepared,
    upgrading,
)


def turn_of(operator: OperatorFixture, attempt: int) -> str:
    pod = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return str((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_TURN, ""))


def variables_of(operator: OperatorFixture, attempt: int) -> set[str]:
    pod = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return {each["name"] for each in pod["spec"]["containers"][0]["env"]}


@pytest.fixture
async def draining() -> OperatorFixture:
    """The first attempt is asked to stop, and the second is next."""
    operator = await upgrading()
    assert {names.AWAITS_TURN_VARIABLE, names.TAKES_OVER_VARIABLE} <= variables_of(operator, 2)
    prepared(operator, 2)
    await operator.settle()
    assert is_being_deleted(operator, 1)
    assert turn_of(operator, 2) == "next"
    assert operator.status["attempt"]["id"] == 1
    return operator


def claims(operator: OperatorFixture) -> None:
    """The second driver has found the drained document, and has claimed it."""
    operator.checkpoint(1, 11, drained=True)
    operator.checkpoint(2, 11)


async def test_the_next_attempt_works_while_pods_of_the_drained_attempt_end(draining: OperatorFixture) -> None:
    operator = draining
    await operator.settle()
    assert operator.status["attempt"]["id"] == 1, "nothing says that it has begun"
    claims(operator)
    operator.report(2, checkpoint_id=12, checkpoint_time="2026-11-21T12:02:00Z")
    await operator.settle()
    attempt = operator.status["attempt"]
    assert (attempt["id"], attempt["startReason"], attempt["generation"]) == (2, "SpecChanged", 2)
    assert turn_of(operator, 2) == "given"
    assert "orders-1-driver" in operator.drivers, "it ends its JVM"
    assert (operator.status["state"], operator.ready["status"]) == ("Running", "True")
    assert operator.status["target"]["deadline"], "the revision has to become stable"
    ends(operator, 1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    assert operator.kubernetes.events(warning=True) == []
    assert "TurnGiven" in operator.kubernetes.events()


async def test_a_drain_that_fails_is_settled_by_the_next_attempt(draining: OperatorFixture) -> None:
    operator = draining
    operator.driver_ends(1, None, code=137)
    operator.kubernetes.kubelet()
    await operator.settle()
    assert turn_of(operator, 2) == "next", "an executor of the first attempt may write"
    for pod in operator.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == "1":
            operator.kubernetes.pod_ends(pod["metadata"]["name"])
    operator.kubernetes.kubelet()
    await operator.settle()
    assert (turn_of(operator, 2), operator.status["attempt"]["id"]) == ("given", 2)


@pytest.mark.parametrize("write", range(8))
async def test_an_operator_that_ends_at_any_write_finds_the_takeover(write: int) -> None:
    """Its answer is lost, or it ends before the next request."""
    operator = await upgrading()
    prepared(operator, 2)
    operator.kubernetes.fail_write = write
    for _ in range(3):
        with suppress(ClusterError):
            await operator.look()
    operator.kubernetes.fail_write = None
    operator.restart_operator()
    await operator.settle()
    assert is_being_deleted(operator, 1)
    assert turn_of(operator, 2) == "next"
    claims(operator)
    operator.kubernetes.fail_write = write % 4
    for _ in range(3):
        with suppress(ClusterError):
            await operator.look()
    operator.kubernetes.fail_write = None
    operator.restart_operator()
    ends(operator, 1, DRAINED)
    await operator.run(2)
    assert operator.drivers == ["orders-2-driver"]
    assert (operator.status["attempt"]["id"], operator.ready["status"]) == (2, "True")
    assert operator.kubernetes.driver_attempts == [1, 2]


async def test_a_takeover_that_fails_before_anybody_looks_goes_back(draining: OperatorFixture) -> None:
    operator = draining
    first = operator.status["stable"]["revision"]
    claims(operator)
    ends(operator, 1, DRAINED)
    ends(operator, 2, CRASHED)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert image_of(operator, 3) == OLD
    assert operator.refusal["backTo"] == first
    assert "division by zero" in operator.refusal["message"]


async def test_a_change_that_is_taken_back_during_the_drain_follows_the_takeover(draining: OperatorFixture) -> None:
    """The second attempt works until a driver of the first revision is prepared."""
    operator = draining
    operator.kubernetes.edit_job(KEY, image=OLD)
    await operator.look()
    claims(operator)
    operator.report(2, checkpoint_id=12, checkpoint_time="2026-11-21T12:02:00Z")
    ends(operator, 1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver", "orders-3-driver"]
    assert operator.status["attempt"]["id"] == 2
    assert not is_being_deleted(operator, 2)
    assert image_of(operator, 3) == OLD


async def test_nothing_starts_next_to_a_driver_that_may_have_begun(draining: OperatorFixture) -> None:
    """The first attempt has drained, the change is taken back, and nobody knows whether the second has begun."""
    operator = draining
    operator.kubernetes.edit_job(KEY, image=OLD)
    operator.checkpoint(1, 11, drained=True)
    ends(operator, 1, DRAINED)
    await operator.settle()
    assert is_being_deleted(operator, 2)
    assert operator.kubernetes.driver_attempts == [1, 2]
    ends(operator, 2, DRAINED)
    operator.wait(11)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert image_of(operator, 3) == OLD


@pytest.mark.parametrize("claimed", [True, False])
async def test_a_suspended_job_waits_for_both(draining: OperatorFixture, claimed: bool) -> None:
    operator = draining
    operator.kubernetes.edit_job(KEY, suspend=True)
    await operator.look()
    operator.checkpoint(1, 11, drained=True)
    if claimed:
        claims(operator)
    ends(operator, 1, DRAINED)
    await operator.settle()
    assert is_being_deleted(operator, 2)
    assert operator.status["state"] != "Suspended"
    if claimed:
        operator.checkpoint(2, 12, drained=True)
    ends(operator, 2, DRAINED)
    await operator.settle()
    assert (operator.drivers, operator.status["state"]) == ([], "Suspended")


async def test_a_deletion_waits_for_a_driver_that_is_next() -> None:
    operator = OperatorFixture(
        upgrade={"strategy": "BlueGreen"}, deletion={"deadlineSeconds": 300}, sink={"topic": "enriched"}
    )
    await operator.run()
    operator.kubernetes.edit_job(KEY, image=NEW)
    await operator.settle()
    prepared(operator, 2)
    await operator.settle()
    assert turn_of(operator, 2) == "next"
    operator.checkpoint(1, 11, drained=True)
    operator.driver_ends(1, DRAINED)
    operator.kubernetes.delete_job(KEY)
    await operator.settle()
    assert operator.kubernetes.has_job(KEY)
    assert is_being_deleted(operator, 2)
    assert operator.status["state"] == "Deleting"


async def test_changed_modules_take_over_as_a_changed_spec_does() -> None:
    operator = OperatorFixture(upgrade={"strategy": "BlueGreen"}, transform=CODE)
    put_code(operator, "first")
    await operator.run()
    operator.kubernetes.add_executor(KEY, 1)
    put_code(operator, "second")
    await operator.settle()
    assert operator.drivers == ["orders-1-driver", "orders-2-driver"]
    assert not is_being_deleted(operator, 1)
    put_code(operator, "third")
    await operator.settle()
    operator.wait(11)
    await operator.settle()
    assert operator.drivers == ["orders-1-driver", "orders-3-driver"], "the second has modules of yesterday"
    prepared(operator, 3)
    await operator.settle()
    assert is_being_deleted(operator, 1)
    assert turn_of(operator, 3) == "next"
    operator.checkpoint(1, 11, drained=True)
    operator.checkpoint(3, 11)
    await operator.settle()
    ends(operator, 1, DRAINED)
    operator.report(3, checkpoint_id=12, checkpoint_time="2026-11-21T12:02:00Z")
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert (operator.status["attempt"]["id"], operator.ready["status"]) == (3, "True")
    assert turn_of(operator, 3) == "given"


async def test_modules_that_do_not_import_replace_nothing() -> None:
    operator = OperatorFixture(upgrade={"strategy": "BlueGreen"}, transform=CODE)
    put_code(operator, "first")
    await operator.run()
    operator.kubernetes.add_executor(KEY, 1)
    put_code(operator, "import nowhere")
    await operator.settle()
    ends(operator, 2, FATAL)
    await operator.settle()
    assert not is_being_deleted(operator, 1)
    assert (operator.ready["status"], operator.status["reason"]) == ("True", "RevisionRefused")
    put_code(operator, "first")
    operator.wait(11)
    await operator.settle()
    assert operator.refusal == {}
    assert operator.ready["status"] == "True"


async def test_a_failure_of_kafka_after_the_takeover_takes_nothing_back(draining: OperatorFixture) -> None:
    operator = draining
    claims(operator)
    ends(operator, 1, DRAINED)
    ends(operator, 2, FAILED)
    for _ in range(3):
        await operator.settle()
        operator.wait(10)
    assert image_of(operator, 3) == NEW
    assert operator.refusal == {}
