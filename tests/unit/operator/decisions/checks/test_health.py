"""Conditions say what is known now: nothing of a driver that no longer reports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkasparkjob_operator.status.phases import PREPARE_SECONDS
from sparkapp.model import names
from sparkapp.model.event_reason import Durability
from sparkapp.model.report import DriverState, Report, encode_report
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, OperatorFixture

BY_A_REPORT = ("KafkaReachable", "CheckpointHealthy", "TransactionsHealthy", "ExecutorsAvailable")
OPEN: dict[str, Any] = {
    "checkpoint_id": 10,
    "checkpoint_time": "2026-11-21T12:00:00Z",
    "transactions_known": True,
    "transactions_open": 2,
    "oldest_transaction_time": "2026-11-21T12:00:00Z",
}


def conditions(fixture: OperatorFixture) -> set[str]:
    return {fixture.kubernetes.condition(KEY, kind)["status"] for kind in BY_A_REPORT}


async def running(**spec: Any) -> OperatorFixture:
    """Attempt 1 runs with an executor and two open transactions."""
    fixture = OperatorFixture(**spec)
    await fixture.run()
    fixture.kubernetes.add_executor(KEY, 1)
    fixture.report(1, **OPEN)
    await fixture.settle()
    assert conditions(fixture) == {"True"}
    return fixture


async def test_after_the_grace_of_a_stop_nothing_is_known_of_a_driver_whose_node_is_lost() -> None:
    fixture = await running()
    fixture.kubernetes.edit_job(KEY, suspend=True)
    await fixture.settle()
    fixture.wait(119)
    await fixture.settle()
    assert conditions(fixture) == {"True"}, "it drains in its grace period"
    assert fixture.status["transactions"]["open"] == 2
    fixture.wait(2)
    await fixture.settle()
    assert fixture.status["state"] == "Suspending"
    assert conditions(fixture) == {"Unknown"}
    assert fixture.status["executors"]["running"] == 0
    assert "open" not in fixture.status["transactions"]
    since = fixture.status["conditions"]
    fixture.wait(5)
    await fixture.settle()
    assert fixture.status["conditions"] == since


async def test_a_suspended_job_says_nothing_about_kafka() -> None:
    fixture = await running()
    fixture.kubernetes.edit_job(KEY, suspend=True)
    await fixture.settle()
    fixture.checkpoint(1, 11, drained=True)
    fixture.driver_ends(1, DRAINED)
    for pod in fixture.kubernetes.pods(KEY):
        fixture.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))
    await fixture.settle()
    assert fixture.status["state"] == "Suspended"
    assert conditions(fixture) == {"Unknown"}


async def test_what_kept_an_attempt_from_kafka_stays_until_an_attempt_reaches_it() -> None:
    fixture = await running(restartPolicy={"maxConsecutiveFailures": 1})
    fixture.driver_ends(1, FAILED)
    await fixture.settle()
    fixture.wait(3600)
    await fixture.settle()
    found = fixture.kubernetes.condition(KEY, "KafkaReachable")
    assert (found["status"], found["reason"]) == ("False", "KafkaUnreachable")


@pytest.mark.parametrize(("state", "status"), [(DriverState.STARTING, "Unknown"), (DriverState.RECOVERING, "True")])
async def test_kafka_is_reachable_when_a_driver_has_reached_it(state: DriverState, status: str) -> None:
    fixture = await running()
    fixture.driver_ends(1)
    for pod in fixture.kubernetes.pods(KEY):
        fixture.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))
    await fixture.settle()
    fixture.wait(5)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "KafkaReachable")["status"] == "Unknown"
    fixture.kubernetes.pod_runs("orders-2-driver")
    fixture.report(2, state)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "KafkaReachable")["status"] == status


async def test_a_job_that_prepares_a_standby_is_judged_meanwhile() -> None:
    fixture = await running(restartPolicy={"successor": "BeforeStop"})
    fixture.kubernetes.edit_job(KEY, parallelism=3)
    fixture.report(1, **OPEN, lag_records=7)
    await fixture.settle()
    fixture.wait(PREPARE_SECONDS - 20)
    fixture.report(1, **OPEN, lag_records=8)
    await fixture.settle()
    assert fixture.status["reason"] == "PreparingSuccessor"
    assert fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "CheckpointStalled"
    assert fixture.kubernetes.condition(KEY, "TransactionsHealthy")["reason"] == "TransactionOverdue"


@pytest.mark.parametrize("clock", ["2026-11-21T11:58:50Z", "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"])
async def test_a_stall_is_measured_by_no_clock_of_another_machine(clock: str) -> None:
    """The clocks of driver and brokers are 70 s behind, right, or an hour ahead."""
    fixture = await running()
    said = {**OPEN, "checkpoint_id": 11, "checkpoint_time": clock, "oldest_transaction_time": clock}
    fixture.report(1, **said, lag_records=7)
    await fixture.settle()
    assert conditions(fixture) == {"True"}
    fixture.wait(61)
    fixture.report(1, **said, lag_records=8)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "CheckpointStalled"
    assert fixture.kubernetes.condition(KEY, "TransactionsHealthy")["reason"] == "TransactionOverdue"
    fixture.report(1, **{**said, "checkpoint_id": 12, "oldest_transaction_time": "2026-11-21T12:01:00Z"}, lag_records=7)
    await fixture.settle()
    assert conditions(fixture) == {"True"}


async def test_a_stall_outlives_the_operator_that_saw_it_begin() -> None:
    fixture = await running()
    fixture.report(1, **OPEN, lag_records=7)
    await fixture.settle()
    fixture.wait(61)
    await fixture.settle()
    fixture.restart_operator()
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "CheckpointStalled"
    assert fixture.kubernetes.condition(KEY, "TransactionsHealthy")["reason"] == "TransactionOverdue"
    fixture.report(1, **{**OPEN, "checkpoint_id": 11, "transactions_open": 0, "oldest_transaction_time": ""})
    await fixture.settle()
    assert conditions(fixture) == {"True"}


async def test_an_unknown_lag_outlives_the_operator_that_saw_it_begin() -> None:
    """Otherwise an adoption writes the status of each such job, and calls its checkpoints healthy for a minute."""
    fixture = await running()
    fixture.report(1, **OPEN, lag_records=None)
    await fixture.settle()
    fixture.wait(61)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "LagUnknown"
    before = fixture.status
    fixture.restart_operator()
    await fixture.settle()
    assert fixture.status == before
    fixture.report(1, **{**OPEN, "checkpoint_id": 11}, lag_records=None)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "CheckpointsComplete"


async def test_records_after_an_hour_without_any_are_no_stall() -> None:
    fixture = await running()
    fixture.wait(3600)
    fixture.report(1, **OPEN, lag_records=1)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "CheckpointHealthy")["status"] == "True"
    fixture.wait(61)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "CheckpointHealthy")["reason"] == "CheckpointStalled"


@pytest.mark.parametrize("lag", [0, None, 7])
async def test_ready_follows_progress_where_there_is_something_to_read(lag: int | None) -> None:
    """A function of the user hangs. Heartbeats go on."""
    fixture = await running()
    fixture.report(1, **OPEN, lag_records=lag)
    await fixture.settle()
    assert fixture.ready["status"] == "True"
    for _ in range(12):
        fixture.wait(10)
        fixture.report(1, **OPEN, lag_records=lag, updated_at=str(fixture.now))
        await fixture.settle()
    assert fixture.ready["status"] == ("False" if lag else "True")
    assert fixture.status["state"] == "Running"
    if lag:
        assert fixture.ready["reason"] == "CheckpointStalled"
        assert "records wait" in fixture.ready["message"]
        fixture.report(1, **{**OPEN, "checkpoint_id": 11}, lag_records=lag)
        await fixture.settle()
        assert (fixture.ready["status"], fixture.ready["reason"]) == ("True", "Running")


async def test_a_transaction_without_its_marker_is_named_until_it_has_it() -> None:
    fixture = await running()
    fixture.report(1, transactions_known=True, transactions_hanging=2)
    await fixture.settle()
    condition = fixture.kubernetes.condition(KEY, "TransactionsHealthy")
    assert (condition["status"], condition["reason"]) == ("False", "TransactionHanging")
    assert condition["message"].startswith("2 transaction(s) have ended, and partitions lack their markers")
    assert f"sparkapp txn hanging --namespace {KEY.namespace} --job {KEY.name}" in condition["message"]
    assert fixture.kubernetes.events(warning=True) == ["TransactionHanging"]
    fixture.report(1, transactions_known=True)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "TransactionsHealthy")["status"] == "True"


@pytest.mark.parametrize("name", ["checkpoint_time", "oldest_transaction_time"])
@pytest.mark.parametrize("time", ["9999-12-31T23:59:59Z", "2026-04-01\ud80000:00:00+00:00"])
@pytest.mark.parametrize("lag", [7, None])
async def test_no_time_of_a_report_keeps_a_job_from_being_suspended(name: str, time: str, lag: int | None) -> None:
    fixture = await running()
    text = encode_report(
        Report(job_uid="job-uid", attempt=1, state=DriverState.RUNNING, updated_at="", **{**OPEN, "lag_records": lag})
    )
    fixture.kubernetes.set_data(
        KEY, names.report_config_map(KEY.name), names.REPORT_KEY, json.dumps({**json.loads(text), name: time})
    )
    fixture.kubernetes.edit_job(KEY, suspend=True)
    await fixture.settle()
    assert fixture.status["state"] == "Suspending"


def durable(fixture: OperatorFixture) -> tuple[str, str, str]:
    condition = fixture.kubernetes.condition(KEY, "TransactionsDurable")
    return condition["status"], condition["reason"], condition["message"]


async def test_copies_that_one_outage_can_stop_are_a_condition_and_nothing_else() -> None:
    fixture = await running()
    assert durable(fixture)[:2] == ("Unknown", "NotObserved")
    said: dict[str, Any] = {
        "durability": Durability.NOT_REPLICATED,
        "durability_message": "topic out has one copy",
    }
    fixture.report(1, **OPEN, **said)
    await fixture.settle()
    assert durable(fixture) == ("False", "NotReplicated", "topic out has one copy")
    assert fixture.ready["status"] == "True"
    assert fixture.status["state"] == "Running"
    assert {fixture.kubernetes.condition(KEY, kind)["status"] for kind in ("Reconciling", "Stalled")} == {"False"}
    assert fixture.kubernetes.events(warning=True) == []


@pytest.mark.parametrize(
    ("found", "status", "afterwards"),
    [
        (Durability.NOT_REPLICATED, "False", ("False", "NotReplicated")),
        (Durability.ENDS_NOT_PROVEN, "False", ("False", "EndsNotProven")),
        (Durability.REPLICATED, "True", ("Unknown", "NotObserved")),
        (Durability.SETTINGS_UNKNOWN, "Unknown", ("Unknown", "NotObserved")),
    ],
)
async def test_what_is_wrong_stays_until_another_attempt_has_looked(
    found: Durability, status: str, afterwards: tuple[str, str]
) -> None:
    fixture = await running()
    fixture.report(1, **OPEN, durability=found)
    await fixture.settle()
    assert durable(fixture)[:2] == (status, str(found))
    fixture.driver_ends(1, FAILED)
    for pod in fixture.kubernetes.pods(KEY):
        fixture.kubernetes.remove(("Pod", KEY.namespace, pod["metadata"]["name"]))
    await fixture.settle()
    assert durable(fixture)[:2] == afterwards
    fixture.wait(5)
    await fixture.settle()
    fixture.kubernetes.pod_runs("orders-2-driver")
    fixture.report(2, DriverState.STARTING)
    await fixture.settle()
    assert durable(fixture)[:2] == afterwards
    fixture.report(2, durability=Durability.REPLICATED)
    await fixture.settle()
    assert durable(fixture) == ("True", "Replicated", "")


async def test_a_job_that_writes_no_transactions_any_more_loses_the_condition() -> None:
    fixture = await running()
    fixture.report(1, **OPEN, durability=Durability.NOT_REPLICATED)
    await fixture.settle()
    fixture.kubernetes.edit_job(KEY, sink={"topic": "enriched", "deliveryGuarantee": "AtLeastOnce"})
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "TransactionsDurable") == {}


async def test_records_are_healthy_while_some_parse_and_a_finding_is_shown() -> None:
    fixture = await running(onRecordError="Skip")
    assert all(found["type"] != "RecordsHealthy" for found in fixture.status["conditions"])
    fixture.report(1, **OPEN, records_judged=True)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "RecordsHealthy")["status"] == "True"
    fixture.report(1, **OPEN, records_judged=True, records_dropped="all of the last 12 records were skipped")
    await fixture.settle()
    found = fixture.kubernetes.condition(KEY, "RecordsHealthy")
    assert (found["status"], found["reason"]) == ("False", "RecordsSkipped")
    assert found["message"].startswith("all of the last 12 records were skipped; correct spec.source.format")
    fixture.report(1, **OPEN, records_judged=True)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "RecordsHealthy")["status"] == "True"
    fixture.report(1, **OPEN)
    await fixture.settle()
    assert fixture.kubernetes.condition(KEY, "RecordsHealthy")["status"] == "Unknown"
