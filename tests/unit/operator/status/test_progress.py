"""Reconciling and Stalled, by the rules of kstatus: in every state at most one is True, and both are always there."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.observation.observation import job_resource
from kafkasparkjob_operator.status.phases import Phase
from kafkasparkjob_operator.status.status import INVALID_SPEC, JobState, StatusDraft
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FATAL, KEY, OperatorFixture, job_body

NOW = parse_time("2026-11-21T12:00:00Z")
ON_ITS_WAY, STUCK, REACHED = ("True", "False"), ("False", "True"), ("False", "False")
TABLE = [
    (JobState.PENDING, "AwaitingCollection", False, ON_ITS_WAY),
    (JobState.PENDING, "QuotaExceeded", False, ON_ITS_WAY),
    (JobState.STARTING, "Submitted", False, ON_ITS_WAY),
    (JobState.RUNNING, "Running", True, REACHED),
    (JobState.RUNNING, "ExecutorsPending", False, ON_ITS_WAY),
    (JobState.RUNNING, "Draining", False, ON_ITS_WAY),
    (JobState.RUNNING, INVALID_SPEC, False, STUCK),
    (JobState.RESTARTING, "KafkaUnreachable", False, ON_ITS_WAY),
    (JobState.RESCALING, "RescaleStarted", False, ON_ITS_WAY),
    (JobState.SUSPENDING, "Suspending", False, ON_ITS_WAY),
    (JobState.SUSPENDED, "Suspended", False, REACHED),
    (JobState.FAILED, "AuthenticationFailed", False, STUCK),
    (JobState.FAILED, INVALID_SPEC, False, STUCK),
    (JobState.FINISHED, "Finished", False, REACHED),
    (JobState.DELETING, "Settling", False, ON_ITS_WAY),
]


@pytest.fixture
def operator_fixture() -> OperatorFixture:
    return OperatorFixture()


def progress(status: dict[str, Any]) -> tuple[str, str]:
    found = {each["type"]: each for each in status["conditions"]}
    for kind in ("Reconciling", "Stalled"):
        assert found[kind]["observedGeneration"] == status["observedGeneration"]
        assert found[kind]["reason"]
        assert bool(found[kind]["message"]) is (found[kind]["status"] == "True")
    return found["Reconciling"]["status"], found["Stalled"]["status"]


def test_the_table_has_every_state() -> None:
    assert {state for state, *_ in TABLE} == set(JobState)


@pytest.mark.parametrize(("state", "reason", "ready", "expected"), TABLE)
def test_each_state_has_its_conditions(state: JobState, reason: str, ready: bool, expected: tuple[str, str]) -> None:
    assert NOW is not None
    body = job_body()
    body["metadata"]["generation"] = 4
    draft = StatusDraft(job_resource(body), NOW)
    draft.set_state(state, reason=reason, message="why", ready=ready, phase=Phase.PENDING)
    assert progress(draft.finish()) == expected


async def test_a_change_moves_the_conditions_with_the_generation(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], progress(operator_fixture.status)) == ("Starting", ON_ITS_WAY)
    await operator_fixture.run(1)
    assert progress(operator_fixture.status) == REACHED
    operator_fixture.kubernetes.edit_job(KEY, parallelism=0)
    await operator_fixture.settle()
    assert (operator_fixture.status["observedGeneration"], progress(operator_fixture.status)) == (2, STUCK)
    operator_fixture.kubernetes.edit_job(KEY, parallelism=2, suspend=True)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], progress(operator_fixture.status)) == ("Suspending", ON_ITS_WAY)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], progress(operator_fixture.status)) == ("Suspended", REACHED)


async def test_a_failure_that_no_retry_solves_is_stalled(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.run(1)
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], progress(operator_fixture.status)) == ("Failed", STUCK)


async def test_a_driver_that_recovers_is_on_its_way(operator_fixture: OperatorFixture) -> None:
    await operator_fixture.settle()
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.report(1, DriverState.RECOVERING)
    await operator_fixture.settle()
    assert progress(operator_fixture.status) == ON_ITS_WAY
