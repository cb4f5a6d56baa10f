"""``upgrade.mode: Stateless``: which attempts are asked to begin without the checkpoint (ADR 97)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.code_watch import CodeWatch
from kafkasparkjob_operator.workload import desired_from_resource
from sparkapp.model import names
from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.checkpoint.document import StatelessStart
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.codec import decode_job
from tests.support.kubernetes.operator_fixture import (
    DRAINED,
    FAILED,
    FATAL,
    KEY,
    UID,
    OperatorFixture,
    job_body,
    record_name,
)

STATELESS = {"mode": "Stateless"}
NEW = {"image": "kafkaspark/sparkapp:2"}
CODE = {"python": {"function": "a:b", "configMapRef": {"name": "code"}}}


def put_code(operator: OperatorFixture, text: str) -> None:
    operator.kubernetes.objects["ConfigMap", KEY.namespace, "code"] = {
        "kind": "ConfigMap", "data": {"a.py": text},
        "metadata": {"name": "code", "namespace": KEY.namespace, "uid": "m", "resourceVersion": text},
    }  # fmt: skip


def asked(operator: OperatorFixture, attempt: int) -> int:
    """What the description of the attempt asks for."""
    data = operator.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]["data"]
    return decode_job(data[names.JOB_KEY]).stateless


async def running(**spec: Any) -> OperatorFixture:
    operator = OperatorFixture(**{"upgrade": STATELESS, **spec})
    await operator.run()
    operator.wait(61)
    await operator.settle()
    return operator


async def follows(operator: OperatorFixture, number: int, **edit: Any) -> None:
    """The resource changes, and the driver of the next attempt is created."""
    if edit:
        operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.checkpoint(number - 1, number * 10, drained=True)
    operator.driver_ends(number - 1, DRAINED)
    await operator.settle()
    assert operator.drivers == [names.driver_pod(KEY.name, number)]


async def test_the_first_attempt_of_a_revision_is_asked_and_later_attempts_repeat_it() -> None:
    operator = await running()
    assert asked(operator, 1) == 0, "a new job"
    await follows(operator, 2, **NEW)
    assert asked(operator, 2) == 2
    assert "without the checkpoint" in operator.kubernetes.messages("Submitted")[-1]
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FAILED)
    await operator.settle()
    operator.wait(60)
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert asked(operator, 3) == 2, "whether attempt 2 has begun so is known to the document alone"
    await operator.run(3)
    await follows(operator, 4, image="kafkaspark/sparkapp:3")
    assert asked(operator, 4) == 4


@pytest.mark.parametrize(
    "edit",
    [
        {"parallelism": 3}, {"restartNonce": 1}, {"restore": {"nonce": 1}}, {"suspend": False, "restartNonce": 2},
        {"restartPolicy": {"maxConsecutiveFailures": 3}, "restartNonce": 3},
    ],
)  # fmt: skip
async def test_requests_and_rescales_leave_no_checkpoint_behind(edit: dict[str, Any]) -> None:
    operator = await running()
    await follows(operator, 2, **edit)
    assert asked(operator, 2) == 0


async def test_a_suspended_job_begins_so_when_its_spec_has_changed_meanwhile() -> None:
    operator = await running()
    for number, edit in ((2, {}), (3, NEW)):
        operator.kubernetes.edit_job(KEY, suspend=True)
        await operator.settle()
        operator.checkpoint(number - 1, number * 10, drained=True)
        operator.driver_ends(number - 1, DRAINED)
        await operator.settle()
        operator.kubernetes.edit_job(KEY, suspend=False, **edit)
        await operator.run(number)
        assert asked(operator, number) == (3 if edit else 0)


async def test_the_mode_alone_changes_nothing_and_a_withdrawn_request_is_none() -> None:
    operator = await running(upgrade={"mode": "Drain"})
    operator.kubernetes.edit_job(KEY, upgrade=STATELESS)
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"]
    await follows(operator, 2, restartNonce=1)
    assert asked(operator, 2) == 0
    await operator.run(2)
    await follows(operator, 3, **NEW)
    assert asked(operator, 3) == 3
    operator.driver_ends(3, FAILED)
    operator.kubernetes.edit_job(KEY, upgrade={"mode": "Drain"})
    await operator.settle()
    operator.wait(60)
    await operator.settle()
    assert operator.drivers == ["orders-4-driver"]
    assert asked(operator, 4) == 0


async def test_each_change_there_and_back_is_a_revision() -> None:
    operator = await running()
    await follows(operator, 2, **NEW)
    await operator.run(2)
    await follows(operator, 3, image="kafkaspark/sparkapp:1")
    assert asked(operator, 3) == 3


async def test_changed_modules_are_a_revision() -> None:
    operator = OperatorFixture(upgrade=STATELESS, transform=CODE)
    put_code(operator, "old")
    await operator.run()
    put_code(operator, "new")
    await CodeWatch(operator.kubernetes, operator.cache, operator.queue).look()
    await follows(operator, 2)
    assert asked(operator, 2) == 2


async def test_an_operator_that_has_lost_the_status_asks_for_the_same() -> None:
    operator = await running()
    await follows(operator, 2, **NEW)
    operator.checkpoint(2, 30)
    operator.driver_ends(2, FAILED)
    operator.kubernetes.remove(("Pod", KEY.namespace, "orders-2-driver"))
    operator.kubernetes.job(KEY)["status"] = {}
    operator.restart_operator()
    await operator.settle()
    assert operator.drivers == ["orders-3-driver"]
    assert asked(operator, 3) == 2


async def test_a_standby_driver_of_a_new_revision_is_asked() -> None:
    operator = await running(restartPolicy={"successor": "BeforeStop"})
    operator.kubernetes.edit_job(KEY, **NEW)
    await operator.settle()
    assert operator.drivers == ["orders-1-driver", "orders-2-driver"]
    assert asked(operator, 2) == 2


async def test_a_rollback_resumes_and_the_next_change_is_stateless() -> None:
    operator = await running(upgrade={**STATELESS, "rollback": "Auto"})
    await follows(operator, 2, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert operator.status["attempt"]["startReason"] == "RolledBack"
    assert asked(operator, 3) == 0
    await operator.run(3)
    await follows(operator, 4, image="kafkaspark/sparkapp:3")
    assert asked(operator, 4) == 4


async def test_a_job_does_not_go_back_behind_a_stateless_start() -> None:
    operator = await running(upgrade={**STATELESS, "rollback": "Auto"})
    await follows(operator, 2, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.checkpoint(2, 21)
    body = operator.kubernetes.objects["ConfigMap", KEY.namespace, "orders-state"]["data"]
    begun = replace(
        decode(body[names.CHECKPOINT_KEY], job_uid=UID), stateless=StatelessStart(asked_by=2, checkpoint_id=21)
    )
    body[names.CHECKPOINT_KEY] = encode(begun)
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert operator.status["state"] == "Failed"
    (message,) = operator.kubernetes.messages("RollbackRefused")
    assert "the new revision has begun without its checkpoint; spec.restore goes back to checkpoint 20" in message


async def test_the_attempt_of_a_deleted_job_is_not_asked() -> None:
    operator = await running(deletion={"policy": "Cancel"})
    await follows(operator, 2, **NEW)
    operator.kubernetes.pod_runs("orders-2-driver")
    operator.checkpoint(2, 30)
    operator.kubernetes.delete_job(KEY)
    await operator.settle()
    operator.driver_ends(2, code=137)
    await operator.settle()
    assert asked(operator, 3) == 0


async def test_a_drain_that_does_not_end_in_time_may_refuse_the_change() -> None:
    operator = await running(upgrade={**STATELESS, "drainTimeoutSeconds": 30, "drainFallback": "Abort"})
    operator.kubernetes.edit_job(KEY, **NEW)
    await operator.settle()
    operator.driver_ends(1, code=137)
    await operator.settle()
    assert operator.refusal["reason"] == "DrainTimedOut"
    assert asked(operator, 2) == 0


def test_a_member_of_a_group_cannot_begin_so() -> None:
    spec = job_body(
        upgrade=STATELESS, source={"topics": ["orders"], "groupMembership": {"mode": "Subscribe"}},
        sink={"topic": "out", "deliveryGuarantee": "AtLeastOnce"},
    )["spec"]  # fmt: skip
    with pytest.raises(ConfigurationError, match="Stateless cannot work with") as caught:
        desired_from_resource(spec, namespace="n", name="j")
    assert "Drain" in caught.value.remedy
