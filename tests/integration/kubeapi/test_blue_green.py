"""A new revision takes over at a checkpoint, on a real API server: the operator may die at any step of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkapp.model import names
from tests.integration.kubeapi.test_standby import turn_of
from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_fixture import DRAINED, FATAL
from tests.support.kubernetes.operator_process import OperatorProcess, Place

BLUE_GREEN = {"strategy": "BlueGreen", "stableAfterSeconds": 0}
NEW = "kafkaspark/sparkapp:2"
STEPS = ("before the turn", "after the turn", "after the claim")


@pytest.fixture
def job(api: ApiClient, place: Place) -> LiveJob:
    return LiveJob(api, place.namespace)


def annotation(job: LiveJob, attempt: int) -> str:
    pod = job.api.call("GET", f"{job.pods_path}/{names.driver_pod(job.name, attempt)}")
    return str((pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_TURN, ""))


@pytest.mark.parametrize("step", [None, *STEPS])
def test_a_revision_takes_over_before_the_old_pod_is_gone(
    job: LiveJob, kubeconfig: Path, start_operator: Callable[..., OperatorProcess], step: str | None
) -> None:
    operator = start_operator()

    def dies(at: str) -> None:
        nonlocal operator
        if step == at:
            operator.kill()
            operator = start_operator()

    job.create(upgrade=BLUE_GREEN)
    job.run(1)
    await_that("a stable revision", lambda: job.status.get("stable"))
    job.edit(image=NEW)
    job.await_driver(2)
    job.await_state("Restarting", reason="PreparingSuccessor")
    turn = turn_of(kubeconfig, job, 2)
    if step == STEPS[0]:
        operator.kill()
        turn.announce()
        operator = start_operator()
    else:
        turn.announce()
    job.await_deletion(1)
    assert annotation(job, 2) == "next"
    dies(STEPS[1])
    assert not turn.wait(0.5), "the first attempt still works"
    if step == STEPS[2]:
        operator.kill()
    job.checkpoint(1, 11, drained=True)
    assert turn.wait(10), "the document says that the first attempt has drained"
    job.checkpoint(2, 11)
    if step == STEPS[2]:
        operator = start_operator()
    job.run(2, checkpoint=12, hold=False)
    assert job.status["attempt"]["id"] == 2
    assert {pod["metadata"]["name"] for pod in job.pods} == {names.driver_pod(job.name, each) for each in (1, 2)}
    job.ends(1, DRAINED, code=0, reason="Completed")
    job.release(1)
    await_that("the old pod is gone", lambda: len(job.pods) == 1)
    assert job.condition("Ready")["status"] == "True"
    reasons = [reason for reason, _ in job.events]
    assert reasons == ["Submitted", "SuccessorStarted", "SpecChanged", "TurnGiven"]
    job.release(2)


def test_a_revision_that_fails_behind_its_takeover_goes_back(
    job: LiveJob, kubeconfig: Path, start_operator: Callable[..., OperatorProcess]
) -> None:
    start_operator()
    job.create(upgrade=BLUE_GREEN)
    job.run(1)
    await_that("a stable revision", lambda: job.status.get("stable"))
    stable = job.status["stable"]["revision"]
    job.edit(image=NEW)
    job.await_driver(2)
    turn = turn_of(kubeconfig, job, 2)
    turn.announce()
    job.await_deletion(1)
    job.checkpoint(1, 11, drained=True)
    assert turn.wait(10)
    job.checkpoint(2, 11)
    job.ends(1, DRAINED, code=0, reason="Completed")
    job.release(1)
    job.ends(2, FATAL)
    job.await_deletion(2)
    job.release(2)
    job.await_driver(3)
    job.run(3, checkpoint=12, hold=False)
    assert job.status["attempt"]["revision"] == stable
    assert job.condition("Stalled")["status"] == "True"
    job.release(3)
