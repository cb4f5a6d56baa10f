"""A bounded job that has read to its end: Finished, and left alone until the resource changes."""

from __future__ import annotations

import pytest

from tests.support.kubernetes.operator_fixture import FINISHED, KEY, OperatorFixture


@pytest.fixture
async def operator_fixture() -> OperatorFixture:
    """A job whose driver has just finished."""
    operator_fixture = OperatorFixture(source={"topics": ["orders"], "stopping": {"mode": "Latest"}})
    await operator_fixture.run()
    operator_fixture.checkpoint(1, 10, drained=True, finished=True)
    operator_fixture.driver_ends(1, FINISHED)
    await operator_fixture.settle()
    return operator_fixture


async def test_it_is_reported_by_state_and_condition_and_the_driver_stays_for_its_log(
    operator_fixture: OperatorFixture,
) -> None:
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Finished", "Finished")
    assert operator_fixture.status["attempt"]["outcome"] == "Finished"
    assert operator_fixture.kubernetes.condition(KEY, "Finished")["status"] == "True"
    assert operator_fixture.ready["status"] == "False"
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["restarts"].get("total", 0) == 0


async def test_it_is_finished_when_its_executors_are_gone_and_never_restarting() -> None:
    operator_fixture = OperatorFixture(source={"topics": ["orders"], "stopping": {"mode": "Latest"}})
    await operator_fixture.run()
    executor = operator_fixture.kubernetes.add_executor(KEY, 1)
    await operator_fixture.settle()
    operator_fixture.checkpoint(1, 10, drained=True, finished=True)
    operator_fixture.driver_ends(1, FINISHED)
    await operator_fixture.look(2)
    assert operator_fixture.status["attempt"]["outcome"] == "Finished"
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Running", "WaitingForPods")
    assert operator_fixture.ready["status"] == "False"
    types = {each["type"] for each in operator_fixture.status["conditions"]}
    assert "Finished" not in types, "a script that waits for it may rely on nothing being left"
    operator_fixture.kubernetes.remove(("Pod", "team", executor))
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Finished"
    assert operator_fixture.kubernetes.condition(KEY, "Finished")["status"] == "True"


async def test_nothing_starts_it_again_but_a_change(operator_fixture: OperatorFixture) -> None:
    operator_fixture.wait(3600)
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Finished"
    assert operator_fixture.drivers == ["orders-1-driver"]
    operator_fixture.kubernetes.edit_job(KEY, restartNonce=1)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["state"] == "Restarting"
    assert operator_fixture.kubernetes.condition(KEY, "Finished")["status"] == "False"


async def test_a_lost_status_does_not_start_it_again(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.job(KEY)["status"] = {}
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Finished"
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_a_deleted_pod_does_not_start_it_again(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    operator_fixture.restart_operator()
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Finished"
    assert operator_fixture.drivers == []


async def test_the_state_has_it_where_the_driver_left_no_termination_message() -> None:
    operator_fixture = OperatorFixture(source={"topics": ["orders"], "stopping": {"mode": "Latest"}})
    await operator_fixture.run()
    operator_fixture.checkpoint(1, 10, drained=True, finished=True)
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Finished"


async def test_suspended_and_resumed_it_runs_once_more(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    operator_fixture.kubernetes.edit_job(KEY, suspend=False)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
