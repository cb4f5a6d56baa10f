"""Labels and owners make no attempt: what anybody can create moves no driver, and is named."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.identity import ANNOTATION_CLAIM, ANNOTATION_GENERATION, ROLE_ATTEMPT
from kafkasparkjob_operator.observation.observation import NUMBERS_AHEAD
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import FAILED, KEY, OperatorFixture

OWNER = {"kind": names.KIND, "name": KEY.name, "uid": "job-uid", "controller": True}
NUMBERS = ["0", "-1", "2", "7", "999999999", "1000000000", "1" * 63, "one"]


def forge(operator_fixture: OperatorFixture, kind: str, name: str, role: str, attempt: str, **meta: Any) -> None:
    labels = {names.LABEL_JOB: KEY.name, names.LABEL_ROLE: role, names.LABEL_ATTEMPT: attempt}
    operator_fixture.kubernetes.objects[kind, KEY.namespace, name] = {
        "kind": kind,
        "metadata": {
            "name": name, "namespace": KEY.namespace, "uid": f"forged-{name}", "resourceVersion": "1",
            "labels": labels, "creationTimestamp": "2026-11-21T12:00:00Z", "ownerReferences": [OWNER], **meta,
        },
        "status": {"phase": "Running"},
    }  # fmt: skip


def messages(operator_fixture: OperatorFixture) -> list[str]:
    return operator_fixture.kubernetes.messages("ForeignObject")


async def attempt_1_fails(operator_fixture: OperatorFixture) -> None:
    operator_fixture.driver_ends(1, FAILED)
    operator_fixture.kubernetes.remove(("Pod", KEY.namespace, "orders-1-exec-1"))
    await operator_fixture.settle()


def unmoved(operator_fixture: OperatorFixture) -> bool:
    driver = operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-1-driver"]
    return "deletionTimestamp" not in driver["metadata"] and operator_fixture.status["attempt"]["id"] == 1


@pytest.fixture
async def operator_fixture() -> OperatorFixture:
    each = OperatorFixture(restartPolicy={"backoff": {"initialSeconds": 0}, "successor": "BeforeStop"})
    await each.run(1)
    each.kubernetes.add_executor(KEY, 1)
    await each.settle()
    return each


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("turn", [None, names.TURN_AWAITED, names.TURN_GIVEN])
async def test_a_forged_driver_moves_nobody(operator_fixture: OperatorFixture, number: str, turn: str | None) -> None:
    annotations = {ANNOTATION_CLAIM: "a guess", ANNOTATION_GENERATION: "1"}
    if turn is not None:
        annotations[names.ANNOTATION_TURN] = turn
    name = "orders-2-driver" if number == "2" else "forged"
    forge(operator_fixture, "Pod", name, "driver", number, annotations=annotations)
    await operator_fixture.settle()
    assert unmoved(operator_fixture)
    assert operator_fixture.status["state"] == "Running"
    assert ("Pod", KEY.namespace, "orders-1-exec-1") in operator_fixture.kubernetes.objects
    assert [text.startswith(f"pod {name} (driver, attempt ") for text in messages(operator_fixture)] == [True]
    await attempt_1_fails(operator_fixture)
    operator_fixture.wait(20)
    await operator_fixture.settle()
    number_of_next = operator_fixture.status["attempt"]["id"]
    assert number_of_next in {2, 3}, "numbers of foreign pods are not counted"
    assert f"orders-{number_of_next}-driver" in operator_fixture.drivers


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", ["forged", "orders-{}-job"])
async def test_a_forged_config_map_moves_nobody(operator_fixture: OperatorFixture, number: str, name: str) -> None:
    forge(operator_fixture, "ConfigMap", name.format(number), ROLE_ATTEMPT, number)
    await operator_fixture.settle()
    assert unmoved(operator_fixture)
    await attempt_1_fails(operator_fixture)
    operator_fixture.wait(20)
    await operator_fixture.settle()
    attempt = operator_fixture.status["attempt"]["id"]
    assert 2 <= attempt <= 8
    assert operator_fixture.drivers == [f"orders-{attempt}-driver"]


async def test_a_config_map_and_its_driver_do_not_replace_one_that_is_there(operator_fixture: OperatorFixture) -> None:
    """Job code may create no ConfigMap; somebody who may is no better off while the recorded driver is there."""
    forge(operator_fixture, "ConfigMap", "orders-2-job", ROLE_ATTEMPT, "2")
    annotations = {ANNOTATION_CLAIM: "forged-orders-2-job"}
    forge(operator_fixture, "Pod", "orders-2-driver", "driver", "2", annotations=annotations)
    await operator_fixture.settle()
    assert unmoved(operator_fixture)
    assert [
        text
        for text in messages(operator_fixture)
        if text.startswith("pod orders-2-driver (driver, attempt 2) has this job's")
    ]


async def test_the_drivers_own_labels_do_not_matter_once_it_is_recorded(operator_fixture: OperatorFixture) -> None:
    driver = operator_fixture.kubernetes.objects["Pod", KEY.namespace, "orders-1-driver"]
    driver["metadata"]["labels"][names.LABEL_ATTEMPT] = "999999999"
    driver["metadata"]["annotations"][names.ANNOTATION_TURN] = names.TURN_AWAITED
    await operator_fixture.settle()
    assert unmoved(operator_fixture)
    assert operator_fixture.status["executors"]["running"] == 1


@pytest.mark.parametrize("owner", [None, {"kind": "Pod", "name": "orders-1-driver", "uid": "another"}])
async def test_an_executor_that_no_driver_owns_is_not_counted(
    operator_fixture: OperatorFixture, owner: dict[str, str] | None
) -> None:
    forge(operator_fixture, "Pod", "forged", "executor", "1", ownerReferences=[owner] if owner else [])
    await operator_fixture.settle()
    assert operator_fixture.status["executors"]["running"] == 1
    assert any(text.startswith("pod forged (executor, attempt 1)") for text in messages(operator_fixture))
    assert ("Pod", KEY.namespace, "forged") in operator_fixture.kubernetes.objects


async def test_a_pod_without_labels_under_the_next_drivers_name_is_passed_over(
    operator_fixture: OperatorFixture,
) -> None:
    forge(operator_fixture, "Pod", "orders-2-driver", "driver", "2", labels={}, ownerReferences=[])
    await attempt_1_fails(operator_fixture)
    assert operator_fixture.status["reason"] == "PodNameTaken"
    assert "kubectl delete pod orders-2-driver -n team" in operator_fixture.status["message"]
    operator_fixture.wait(20)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 3


async def test_a_forged_last_word_is_not_the_drivers(operator_fixture: OperatorFixture) -> None:
    """A finished pod under the attempt's number, and the real one is gone before anybody looked."""
    from kafkasparkjob_operator.observation.pod_view import pod_view
    from sparkapp.model.report import encode_termination
    from tests.support.kubernetes.operator_fixture import FATAL

    forge(operator_fixture, "Pod", "forged", "driver", "1")
    operator_fixture.kubernetes.pod_ends("forged", message=encode_termination(FATAL), code=1)
    forged = pod_view(operator_fixture.kubernetes.objects["Pod", KEY.namespace, "forged"])
    assert forged is not None
    operator_fixture.cache.put_pod(KEY, forged)
    operator_fixture.kubernetes.remove(("Pod", KEY.namespace, "orders-1-driver"))
    operator_fixture.kubernetes.remove(("Pod", KEY.namespace, "orders-1-exec-1"))
    await operator_fixture.look(2)
    assert operator_fixture.status["state"] != "Failed"


async def test_a_number_far_ahead_is_nobodys(operator_fixture: OperatorFixture) -> None:
    number = NUMBERS_AHEAD + 2
    forge(operator_fixture, "ConfigMap", f"orders-{number}-job", ROLE_ATTEMPT, str(number))
    await operator_fixture.look()
    assert any(
        text.startswith(f"ConfigMap orders-{number}-job has this job's labels") for text in messages(operator_fixture)
    )
