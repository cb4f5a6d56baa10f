"""Jobs that fail together, or share code, do not restart all at once."""

from __future__ import annotations

import pytest

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.observation.restarting import LONGEST_SECONDS, RestartingJobs
from sparkapp.model import names
from sparkapp.model.report import DriverState, Report, encode_report
from tests.support.kubernetes.operator_fixture import FAILED, KEY, OperatorFixture, job_body

JOBS = [JobKey(KEY.namespace, name) for name in ("a", "b", "c")]
CODE = {"transform": {"python": {"function": "enrich:run", "configMapRef": {"name": "code"}}}}


class Fleet(OperatorFixture):
    """Three jobs that run, and an operator that lets a single job restart at a time."""

    @classmethod
    async def runs(cls) -> Fleet:
        fleet = cls()
        fleet.kubernetes.delete_job(KEY)
        fleet.restart_operator(concurrent_restarts=1)
        code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": KEY.namespace, "name": "code"}}
        await fleet.kubernetes.create({**code, "data": {"enrich.py": "1"}})
        for key in JOBS:
            body = job_body(**CODE, restartPolicy={"backoff": {"initialSeconds": 0}})
            body["metadata"] |= {"name": key.name, "uid": f"{key.name}-uid"}
            fleet.kubernetes.add_job(body)
            await fleet.look_at(key)
            await fleet.comes_up(key, 1)
        return fleet

    async def look_at(self, *keys: JobKey) -> None:
        for key in keys:
            for _ in range(4):
                self.reconciler.forget_looks()
                await self.reconciler.reconcile(key)
                self.kubernetes.kubelet()

    async def comes_up(self, key: JobKey, attempt: int) -> None:
        self.kubernetes.pod_runs(names.driver_pod(key.name, attempt))
        report = Report(
            job_uid=f"{key.name}-uid", attempt=attempt, state=DriverState.RUNNING, updated_at="", lag_records=0
        )
        self.kubernetes.set_data(key, names.report_config_map(key.name), names.REPORT_KEY, encode_report(report))
        await self.look_at(key)

    async def ends(self, key: JobKey, attempt: int) -> None:
        self.kubernetes.pod_ends(names.driver_pod(key.name, attempt), message="", code=1)
        await self.look_at(key)

    def change_code(self, text: str) -> None:
        self.kubernetes.objects["ConfigMap", KEY.namespace, "code"]["data"] = {"enrich.py": text}

    @property
    def attempts(self) -> list[int]:
        return [self.kubernetes.status(key)["attempt"]["id"] for key in JOBS]

    @property
    def reasons(self) -> list[str]:
        return [self.kubernetes.status(key)["reason"] for key in JOBS]


async def test_an_outage_restarts_one_job_after_another() -> None:
    fleet = await Fleet.runs()
    for key in JOBS:
        fleet.kubernetes.pod_ends(names.driver_pod(key.name, 1), message="", code=1)
    await fleet.look_at(*JOBS)
    assert fleet.attempts == [2, 1, 1]
    assert [fleet.kubernetes.status(key)["state"] for key in JOBS] == ["Restarting"] * 3
    assert "some of the other jobs" in fleet.kubernetes.status(JOBS[1])["message"]
    await fleet.comes_up(JOBS[0], 2)
    assert await fleet.queue.take() == JOBS[1], "it is woken"
    await fleet.look_at(*JOBS)
    assert fleet.attempts == [2, 2, 1]
    await fleet.comes_up(JOBS[1], 2)
    await fleet.look_at(*JOBS)
    assert fleet.attempts == [2, 2, 2]


async def test_new_code_restarts_one_job_after_another_and_the_others_run_meanwhile() -> None:
    fleet = await Fleet.runs()
    fleet.change_code("2")
    await fleet.look_at(*JOBS)
    assert fleet.reasons[1:] == ["Running", "Running"]
    assert [fleet.kubernetes.condition(key, "Ready")["status"] for key in JOBS] == ["False", "True", "True"]
    await fleet.ends(JOBS[0], 1)
    assert fleet.attempts == [2, 1, 1]
    await fleet.comes_up(JOBS[0], 2)
    await fleet.look_at(*JOBS)
    await fleet.ends(JOBS[1], 1)
    assert fleet.attempts == [2, 2, 1]
    assert fleet.kubernetes.condition(JOBS[2], "Ready")["status"] == "True"


async def test_what_a_person_asks_for_is_not_held_back() -> None:
    fleet = await Fleet.runs()
    await fleet.ends(JOBS[0], 1)
    fleet.kubernetes.edit_job(JOBS[1], restartNonce=1)
    await fleet.look_at(JOBS[1])
    await fleet.ends(JOBS[1], 1)
    assert fleet.attempts == [2, 2, 1]


async def test_a_single_job_is_never_held_back() -> None:
    operator_fixture = OperatorFixture(restartPolicy={"backoff": {"initialSeconds": 0}})
    operator_fixture.restart_operator(concurrent_restarts=1)
    for attempt in (1, 2, 3):
        await operator_fixture.run(attempt)
        operator_fixture.driver_ends(attempt, FAILED)
        await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts[:4] == [1, 2, 3, 4]


class Restarts:
    def __init__(self, limit: int) -> None:
        self.now = 0.0
        self.woken: list[JobKey] = []
        self.jobs = RestartingJobs(limit, clock=lambda: self.now, wake=self.woken.append)


@pytest.mark.parametrize("limit", [0, 3])
def test_jobs_within_the_limit_have_room(limit: int) -> None:
    restarts = Restarts(limit)
    for key in JOBS:
        assert restarts.jobs.has_room(key)
        restarts.jobs.began(key)
    assert restarts.jobs.has_room(KEY) is (limit == 0)


def test_a_restart_that_never_ends_makes_room() -> None:
    restarts = Restarts(1)
    restarts.jobs.began(JOBS[0])
    restarts.now = LONGEST_SECONDS
    assert not restarts.jobs.has_room(JOBS[1])
    restarts.now += 1
    assert restarts.jobs.has_room(JOBS[1])


def test_the_job_that_waits_longest_is_woken_once() -> None:
    restarts = Restarts(1)
    restarts.jobs.began(JOBS[0])
    for key in (JOBS[2], JOBS[1], JOBS[2]):
        restarts.jobs.waits(key)
    restarts.jobs.ended(KEY)
    assert restarts.woken == []
    restarts.jobs.ended(JOBS[0])
    restarts.jobs.ended(JOBS[0])
    assert restarts.woken == [JOBS[2]]
