"""``upgrade.strategy: BlueGreen``: the new revision prepares next to the old, and is taken back where it fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkapp.model import names
from sparkapp.model.report import Termination
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, OperatorFixture
from tests.support.kubernetes.revision_steps import CODE, put_code

OLD, NEW = "kafkaspark/sparkapp:1", "kafkaspark/sparkapp:2"
CRASHED = replace(FAILED, reason="TransformFailed", message="division by zero")
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}


def pod_of(operator: OperatorFixture, attempt: int) -> dict[str, object]:
    found: dict[str, object] = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return found


def is_being_deleted(operator: OperatorFixture, attempt: int) -> bool:
    return "deletionTimestamp" in pod_of(operator, attempt)["metadata"]  # type: ignore[operator]


def image_of(operator: OperatorFixture, attempt: int) -> str:
    return str(pod_of(operator, attempt)["spec"]["containers"][0]["image"])  # type: ignore[index]


def prepared(operator: OperatorFixture, attempt: int) -> None:
    operator.kubernetes.pod_runs(names.driver_pod(KEY.name, attempt))
    operator.kubernetes.add_executor(KEY, attempt)
    operator.kubernetes.set_data(KEY, names.report_config_map(KEY.name), names.PREPARED_KEY, str(attempt))


def ends(operator: OperatorFixture, attempt: int, how: Termination | None) -> None:
    """The driver ends, and its executors with it."""
    operator.driver_ends(attempt, how, code=137)
    for pod in operator.kubernetes.pods(KEY, names.ROLE_EXECUTOR):
        if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == str(attempt):
            operator.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))
    operator.kubernetes.kubelet()


async def upgrading(**upgrade: object) -> OperatorFixture:
    """The first revision is stable and runs. The driver of the second was created next to it."""
    operator = OperatorFixture(upgrade={"strategy": "BlueGreen", **upgrade})
    await operator.run()
    operator.kubernetes.add_executor(KEY, 1)
    operator.wait(61)
    operator.report(1, checkpoint_id=10, updated_at="a minute later")
    await operator.settle()
    assert operator.status["stable"]["revision"] == operator.status["attempt"]["revision"]
    operator.kubernetes.edit_job(KEY, image=NEW)
    await operator.settle()
    assert operator.drivers == ["orders-1-driver", "orders-2-driver"]
    assert (image_of(operator, 1), image_of(operator, 2)) == (OLD, NEW)
    return operator


async def switched(operator: OperatorFixture) -> None:
    """The first attempt has drained, and the second runs."""
    prepared(operator, 2)
    await operator.settle()
    assert is_being_deleted(operator, 1)
    operator.checkpoint(1, 11, drained=True)
    ends(operator, 1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    assert operator.status["attempt"]["id"] == 2


def refused(operator: OperatorFixture, *causes: str) -> None:
    """The change is refused, and the first attempt is ready and not asked to stop."""
    assert not is_being_deleted(operator, 1)
    assert (operator.ready["status"], operator.status["reason"]) == ("True", "RevisionRefused")
    stalled = operator.kubernetes.condition(KEY, "Stalled")
    assert stalled["status"] == "True"
    for cause in ("generation 2", "attempt 1 continues", *causes):
        assert cause in stalled["message"]


async def test_the_attempt_works_until_the_new_revision_is_prepared() -> None:
    operator = await upgrading()
    assert operator.status["phase"]["name"] == "Preparing"
    assert not is_being_deleted(operator, 1)
    await switched(operator)
    await operator.run(2)
    assert operator.ready["status"] == "True"


@pytest.mark.parametrize("seconds", [11, 200])
async def test_a_node_for_the_new_revision_is_waited_for(seconds: int) -> None:
    operator = await upgrading()
    pod_of(operator, 2)["status"] = {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    operator.wait(seconds)
    operator.report(1, checkpoint_id=11, updated_at="later")
    await operator.settle()
    assert not is_being_deleted(operator, 1)
    assert operator.refusal == {}


async def test_a_revision_without_room_is_refused_until_it_has_room() -> None:
    operator = await upgrading(prepareTimeoutSeconds=90)
    pod_of(operator, 2)["status"] = {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    operator.wait(31)
    operator.report(1, checkpoint_id=11, updated_at="later")
    await operator.settle()
    refused(operator, "not prepared after 90 s", "0/1 nodes")
    assert operator.refusal["reason"] == "NotPrepared"
    operator.wait(3600)
    operator.report(1, checkpoint_id=12, updated_at="much later")
    await operator.settle()
    refused(operator)
    assert operator.kubernetes.driver_attempts == [1, 2]
    prepared(operator, 2)
    await operator.settle()
    assert is_being_deleted(operator, 1), "a node has come"
    assert operator.refusal == {}


async def test_a_revision_without_room_replaces_the_attempt_by_choice() -> None:
    operator = await upgrading(prepareTimeoutSeconds=90, prepareFallback="Recreate")
    pod_of(operator, 2)["status"] = {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    operator.wait(31)
    operator.report(1, checkpoint_id=11, updated_at="later")
    await operator.settle()
    assert is_being_deleted(operator, 1)


@pytest.mark.parametrize("fallback", ["Abort", "Recreate"])
async def test_a_quota_for_one_driver(fallback: str) -> None:
    operator = OperatorFixture(upgrade={"strategy": "BlueGreen", "prepareFallback": fallback})
    await operator.run()
    operator.kubernetes.refuse_pods = "exceeded quota: pods"
    operator.kubernetes.edit_job(KEY, image=NEW)
    await operator.settle()
    await operator.settle()
    if fallback == "Recreate":
        assert is_being_deleted(operator, 1)
    else:
        refused(operator, "no standby driver could be created", "restartNonce")
        assert "SuccessorRefused" in operator.kubernetes.events(warning=True)


async def test_a_revision_that_fails_while_it_prepares_is_refused() -> None:
    operator = await upgrading(prepareFallback="Recreate")
    operator.driver_ends(2, FATAL)
    await operator.settle()
    refused(operator, "no module enrich")


async def test_a_failure_after_the_takeover_goes_back_at_once() -> None:
    operator = await upgrading()
    first = operator.status["stable"]["revision"]
    await switched(operator)
    ends(operator, 2, CRASHED)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert image_of(operator, 3) == OLD
    assert (operator.status["attempt"]["revision"], operator.refusal["backTo"]) == (first, first)
    await operator.run(3)
    assert (operator.ready["status"], operator.ready["reason"]) == ("True", "RolledBack")
    assert "division by zero" in operator.kubernetes.condition(KEY, "Stalled")["message"]


async def test_an_edit_back_while_it_prepares_keeps_the_attempt() -> None:
    operator = await upgrading()
    operator.kubernetes.edit_job(KEY, image=OLD)
    await operator.settle()
    operator.kubernetes.kubelet()
    operator.wait(11)
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"]
    assert not is_being_deleted(operator, 1)
    assert operator.ready["status"] == "True"


async def test_a_suspended_job_keeps_neither() -> None:
    operator = await upgrading()
    operator.kubernetes.edit_job(KEY, suspend=True)
    await operator.settle()
    assert is_being_deleted(operator, 1)
    operator.checkpoint(1, 11, drained=True)
    ends(operator, 1, DRAINED)
    await operator.settle()
    assert (operator.drivers, operator.status["state"]) == ([], "Suspended")


async def test_an_attempt_that_dies_while_modules_are_refused_keeps_its_own() -> None:
    operator = OperatorFixture(upgrade={"strategy": "BlueGreen"}, transform=CODE)
    put_code(operator, "good")
    await operator.run()
    operator.kubernetes.add_executor(KEY, 1)
    put_code(operator, "bad")
    await operator.settle()
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert operator.ready["reason"] == "RevisionRefused"
    ends(operator, 1, FAILED)
    for _ in range(3):
        await operator.settle()
        operator.wait(11)
        operator.kubernetes.kubelet()
    number = operator.status["attempt"]["id"]
    assert (number, operator.drivers) == (3, ["orders-3-driver"])
    volumes = pod_of(operator, number)["spec"]["volumes"]  # type: ignore[index]
    name = next(each["configMap"]["name"] for each in volumes if each["name"] == "code")
    assert operator.kubernetes.objects["ConfigMap", KEY.namespace, name]["data"]["a.py"] == "good"
