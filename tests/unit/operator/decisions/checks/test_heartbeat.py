"""A driver whose reports stop: what the status says by the operator's own clock, and what follows."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.checks.heartbeat import WITH_DEADLINE
from kafkasparkjob_operator.kubernetes.port import ClusterError
from kafkasparkjob_operator.runtime import _Operator
from kafkasparkjob_operator.status.phases import FIRST_REPORT_SECONDS, NO_PROGRESS_SECONDS
from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, OperatorFixture

BEAT = {"heartbeat_seconds": 10, "checkpoint_id": 10, "lag_records": 7}
STANDBY = {"restartPolicy": {"successor": "Standby"}}


async def running(**spec: Any) -> OperatorFixture:
    operator_fixture = OperatorFixture(**spec)
    await operator_fixture.run()
    operator_fixture.kubernetes.add_executor(KEY, 1)
    beat(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"
    return operator_fixture


def beat(operator_fixture: OperatorFixture, **fields: Any) -> None:
    """A driver's clock is its own: what it writes as the time is a text to the operator."""
    operator_fixture.report(1, updated_at=f"2020-01-01T00:00:00.{operator_fixture.now.timestamp()}", **(BEAT | fields))


async def seen_from_the_cache(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.reconciler.reconcile(KEY)


def lose_node(operator_fixture: OperatorFixture, pod: str) -> None:
    status = operator_fixture.kubernetes.objects["Pod", "team", pod]["status"]
    status["conditions"] = [{"type": "Ready", "status": "False"}]


def prepared(operator_fixture: OperatorFixture) -> None:
    """Attempt 2 stands by and says so."""
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.kubernetes.set_data(KEY, names.report_config_map(KEY.name), names.PREPARED_KEY, "2")


def is_being_deleted(operator_fixture: OperatorFixture, attempt: int) -> bool:
    pod = operator_fixture.kubernetes.objects["Pod", "team", names.driver_pod(KEY.name, attempt)]
    return "deletionTimestamp" in pod["metadata"]


def gain_leadership(operator_fixture: OperatorFixture) -> None:
    """As the runtime does it, without its connections."""
    runtime: Any = SimpleNamespace(
        metrics=operator_fixture.metrics, reconciler=operator_fixture.reconciler, cache=operator_fixture.cache,
        queue=operator_fixture.queue, sweep=SimpleNamespace(begin=lambda: None),
    )  # fmt: skip
    _Operator._leadership_changed(runtime, True)


async def test_a_first_report_has_a_deadline_from_the_start_of_the_container() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.settle()
    operator_fixture.wait(3600)  # for the image
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    operator_fixture.kubernetes.pod_runs("orders-1-driver", since=format_time(operator_fixture.now))
    await operator_fixture.settle()
    operator_fixture.wait(FIRST_REPORT_SECONDS - 1)
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "DriverStarting"
    assert not is_being_deleted(operator_fixture, 1)
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    assert "HeartbeatTimeout" in operator_fixture.kubernetes.events(warning=True)
    operator_fixture.driver_ends(1, code=137)
    await operator_fixture.settle()
    assert operator_fixture.status["restarts"]["lastReason"] == "HeartbeatTimeout"


async def test_a_kubelet_whose_clock_is_behind_ends_no_start() -> None:
    """Nor does the activation of a standby, whose container has run for long."""
    operator_fixture = OperatorFixture()
    await operator_fixture.settle()
    long_ago = operator_fixture.now - timedelta(seconds=2 * FIRST_REPORT_SECONDS)
    operator_fixture.kubernetes.pod_runs("orders-1-driver", since=format_time(long_ago))
    await operator_fixture.settle()
    operator_fixture.wait(FIRST_REPORT_SECONDS - 1)
    await operator_fixture.settle()
    assert not is_being_deleted(operator_fixture, 1)
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)


async def test_a_silent_driver_is_neither_ready_nor_healthy_and_its_lag_is_unknown() -> None:
    operator_fixture = await running()
    assert operator_fixture.status["source"]["lagRecords"] == 7
    operator_fixture.wait(29)
    await seen_from_the_cache(operator_fixture)
    assert operator_fixture.ready["status"] == "True"
    operator_fixture.wait(2)
    await seen_from_the_cache(operator_fixture)
    assert (operator_fixture.ready["status"], operator_fixture.ready["reason"]) == ("False", "HeartbeatTimeout")
    condition = operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")
    assert (condition["status"], condition["reason"]) == ("False", "HeartbeatTimeout")
    assert operator_fixture.kubernetes.condition(KEY, "TransactionsHealthy")["status"] == "Unknown"
    assert "lagRecords" not in operator_fixture.status["source"]
    assert operator_fixture.kubernetes.events(warning=True) == ["HeartbeatTimeout"]
    assert operator_fixture.drivers == ["orders-1-driver"]

    beat(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"
    assert operator_fixture.status["source"]["lagRecords"] == 7


async def test_transactions_that_run_out_of_time_are_reported_by_the_condition() -> None:
    operator_fixture = await running()
    beat(operator_fixture, transaction_time_used=80, transactions_known=True)
    await operator_fixture.settle()
    condition = operator_fixture.kubernetes.condition(KEY, "TransactionsHealthy")
    assert (condition["status"], condition["reason"]) == ("True", "TransactionTimeRunsOut")
    assert "80 %" in condition["message"]


async def test_the_operator_looks_again_by_its_own_clock() -> None:
    operator_fixture = await running()
    operator_fixture.wait(12)
    await seen_from_the_cache(operator_fixture)
    timer = operator_fixture.queue._puts_off[KEY]
    assert 17 < timer.when() - asyncio.get_running_loop().time() <= 18.1


async def test_an_idle_driver_that_sends_heartbeats_stays_ready() -> None:
    operator_fixture = await running()
    for _ in range(20):
        operator_fixture.wait(10)
        beat(operator_fixture, lag_records=0)
        await operator_fixture.settle()
        assert operator_fixture.ready["status"] == "True"


async def test_a_driver_of_a_previous_release_is_not_judged_by_heartbeats() -> None:
    operator_fixture = await running()
    beat(operator_fixture, heartbeat_seconds=0, lag_records=0)
    await operator_fixture.settle()
    operator_fixture.wait(3600)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"


async def test_a_report_that_only_the_watch_has_missed_is_no_silence() -> None:
    operator_fixture = await running()
    operator_fixture.wait(40)
    beat(operator_fixture)
    await seen_from_the_cache(operator_fixture)
    assert operator_fixture.ready["status"] == "True"


async def test_a_silent_driver_is_ended_and_the_next_attempt_starts_when_it_is_gone() -> None:
    operator_fixture = await running()
    operator_fixture.wait(80)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert "deletionTimestamp" not in operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    operator_fixture.wait(11)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["stopReason"] == "HeartbeatTimeout"
    assert "deletionTimestamp" in operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    assert operator_fixture.drivers == ["orders-1-driver"], "its pod may still write"
    operator_fixture.kubernetes.pod_ends("orders-1-exec-1")
    operator_fixture.driver_ends(1, code=137, reason="Error")
    await operator_fixture.settle()
    assert operator_fixture.status["lastFailure"]["reason"] == "HeartbeatTimeout"
    assert operator_fixture.status["restarts"]["total"] == 1
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_a_driver_that_wakes_up_and_drains_is_no_failure() -> None:
    operator_fixture = await running()
    operator_fixture.wait(100)
    await operator_fixture.settle()
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.kubernetes.pod_ends("orders-1-exec-1")
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert "lastFailure" not in operator_fixture.status
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_a_silent_driver_next_to_a_standby_is_replaced_at_once() -> None:
    operator_fixture = await running(**STANDBY)
    operator_fixture.wait(31)
    beat(operator_fixture)
    await operator_fixture.settle()
    prepared(operator_fixture)
    operator_fixture.wait(31)
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 2


@pytest.mark.parametrize("silent", [True, False])
async def test_a_pod_that_is_not_ready_ends_the_attempt_only_where_its_driver_is_silent(silent: bool) -> None:
    operator_fixture = await running()
    lose_node(operator_fixture, "orders-1-driver")
    operator_fixture.wait(31)
    if not silent:
        beat(operator_fixture)
    await operator_fixture.settle()
    deleted = "deletionTimestamp" in operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    assert deleted is silent
    assert (operator_fixture.ready["status"] == "True") is not silent


async def test_with_standby_a_lost_node_is_not_waited_for() -> None:
    operator_fixture = await running(**STANDBY)
    operator_fixture.wait(31)
    beat(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    lose_node(operator_fixture, "orders-1-driver")
    operator_fixture.wait(31)
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert "orders-1-driver" in operator_fixture.drivers, "nobody can delete a pod of a node that is gone"
    assert operator_fixture.status["attempt"]["id"] == 2
    annotations = operator_fixture.kubernetes.objects["Pod", "team", "orders-2-driver"]["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_TURN] == names.TURN_GIVEN
    assert operator_fixture.status["lastFailure"]["reason"] == "HeartbeatTimeout"

    operator_fixture.kubernetes.add_executor(KEY, 2)
    operator_fixture.report(2, checkpoint_id=11, heartbeat_seconds=10, lag_records=0)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"


async def test_a_standby_on_a_lost_node_is_no_successor() -> None:
    operator_fixture = await running(**STANDBY)
    operator_fixture.wait(31)
    beat(operator_fixture)
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    lose_node(operator_fixture, "orders-1-driver")
    lose_node(operator_fixture, "orders-2-driver")
    operator_fixture.wait(31)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 1
    assert operator_fixture.status["state"] == "Restarting"


@pytest.mark.parametrize("standby", [False, True])
async def test_time_without_leadership_is_no_silence(standby: bool) -> None:
    """After an outage of the API server a driver's next report may come later than the operator's next look."""
    operator_fixture = await running(**STANDBY)
    operator_fixture.wait(31)
    beat(operator_fixture)
    await operator_fixture.settle()
    if standby:
        prepared(operator_fixture)
        await operator_fixture.settle()
    operator_fixture.wait(100)
    gain_leadership(operator_fixture)
    await operator_fixture.settle()
    limit = 30 if standby else 90
    operator_fixture.wait(limit - 1)
    await operator_fixture.settle()
    assert not is_being_deleted(operator_fixture, 1)
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)


async def test_time_in_which_looks_failed_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is without a Lease, which a single operator does not need."""
    operator_fixture = await running()

    async def unreachable(_: object) -> None:
        raise ClusterError("GET: no answer")

    with monkeypatch.context() as outage:
        outage.setattr(operator_fixture.kubernetes, "list_pods", unreachable)
        for _ in range(10):
            operator_fixture.wait(10)
            operator_fixture.reconciler.forget_looks()
            with pytest.raises(ClusterError):
                await seen_from_the_cache(operator_fixture)
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.ready["status"] == "True"
    operator_fixture.wait(84)
    await operator_fixture.settle()
    assert not is_being_deleted(operator_fixture, 1)
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)


@pytest.mark.parametrize("started", [False, True])
async def test_a_standby_that_is_not_prepared_shortens_no_limit(started: bool) -> None:
    operator_fixture = await running(**STANDBY)
    operator_fixture.wait(31)
    beat(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    if started:
        operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.wait(40)
    await operator_fixture.settle()
    assert not is_being_deleted(operator_fixture, 1)
    assert operator_fixture.ready["reason"] == "HeartbeatTimeout"
    operator_fixture.wait(51)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    assert ("lastFailure" in operator_fixture.status) is started, "a pod that waits for a node replaces nobody"
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 2


@pytest.mark.parametrize("policy", ["BeforeStop", "Standby"])
async def test_a_driver_that_falls_silent_while_its_successor_comes_up_is_ended(policy: str) -> None:
    """Only Standby asks for a second driver next to a silent driver's pods."""
    operator_fixture = await running(restartPolicy={"successor": policy})
    operator_fixture.wait(10)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=3)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "PreparingSuccessor"
    operator_fixture.wait(25)
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "HeartbeatTimeout"
    assert operator_fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "HeartbeatTimeout"
    assert not is_being_deleted(operator_fixture, 1)
    prepared(operator_fixture)
    await operator_fixture.settle()
    assert is_being_deleted(operator_fixture, 1)
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == (2 if policy == "Standby" else 1)
    if policy == "Standby":
        return
    assert operator_fixture.status["attempt"]["stopReason"] == "HeartbeatTimeout"
    operator_fixture.kubernetes.pod_ends("orders-1-exec-1")
    operator_fixture.driver_ends(1, code=137, reason="Error")
    await operator_fixture.settle()
    operator_fixture.wait(2)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 2


@pytest.mark.parametrize("state", [DriverState.STARTING, DriverState.RECOVERING, DriverState.DRAINING])
async def test_heartbeats_are_no_progress(state: DriverState) -> None:
    """The JVM is frozen, and Python sends heartbeats for ever."""
    operator_fixture = await running()
    beat(operator_fixture, state=state, steps=3)
    await operator_fixture.settle()
    for _ in range(int(NO_PROGRESS_SECONDS / 60)):
        assert not is_being_deleted(operator_fixture, 1)
        operator_fixture.wait(60)
        beat(operator_fixture, state=state, steps=3)
        await seen_from_the_cache(operator_fixture)
    assert operator_fixture.kubernetes.events(warning=True) == ["NoProgress"]
    assert (operator_fixture.ready["status"], operator_fixture.ready["reason"]) == ("False", "NoProgress")
    assert is_being_deleted(operator_fixture, 1)
    assert operator_fixture.status["attempt"]["stopReason"] == "NoProgress"
    operator_fixture.driver_ends(1)
    await operator_fixture.settle()
    assert operator_fixture.status["lastFailure"]["reason"] == "NoProgress"
    assert operator_fixture.status["restarts"]["consecutiveFailures"] == 1


async def test_a_recovery_may_last_as_long_as_it_progresses() -> None:
    operator_fixture = await running()
    for step in range(60):
        beat(operator_fixture, state=DriverState.RECOVERING, steps=step)
        operator_fixture.wait(60)
        await operator_fixture.settle()
    assert not is_being_deleted(operator_fixture, 1)
    assert operator_fixture.status["reason"] == "Recovering"


def test_every_state_but_running_has_a_deadline() -> None:
    assert set(DriverState) - WITH_DEADLINE == {DriverState.RUNNING}
