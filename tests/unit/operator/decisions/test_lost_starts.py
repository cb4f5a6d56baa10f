"""The status write of a start is lost: the driver is adopted with everything that its start would have written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import ObjectConflict
from sparkapp.model.report import DriverState
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.kubernetes.operator_fixture import DRAINED, FATAL, FINISHED, KEY, ROTATED, OperatorFixture

BOUNDED: dict[str, Any] = {"source": {"topics": ["orders"], "stopping": {"mode": "Latest"}}}
CODE = {"python": {"function": "enrich:transform", "configMapRef": {"name": "modules"}}}


async def loses_the_start(operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch, attempt: int) -> None:
    """Looks until the attempt is started; somebody else writes the resource before its status is written."""
    write, driver = FakeKubernetes.patch_status, f"orders-{attempt}-driver"

    async def conflicts(
        self: FakeKubernetes, key: JobKey, patch: Mapping[str, Any], *, resource_version: str
    ) -> dict[str, Any] | None:
        if driver in operator_fixture.drivers:
            raise ObjectConflict("changed", status=409)
        return await write(self, key, patch, resource_version=resource_version)

    with monkeypatch.context() as patched:
        patched.setattr(FakeKubernetes, "patch_status", conflicts)
        with pytest.raises(ObjectConflict):
            await operator_fixture.look(5)
    assert operator_fixture.drivers == [driver]
    assert operator_fixture.status.get("attempt", {}).get("id", 0) != attempt


async def test_a_first_start_has_its_spec_in_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = {"topic": "enriched", "transactions": {"idPrefix": "team.mine"}}
    operator_fixture = OperatorFixture(sink=sink)
    await loses_the_start(operator_fixture, monkeypatch, 1)
    await operator_fixture.settle()
    status = operator_fixture.status
    assert status["parallelism"] == 2
    assert status["executors"]["desired"] == 2
    assert status["transactions"]["prefix"] == "team.mine"
    assert status["attempt"]["startReason"] == "Created"


async def test_a_rescale_has_the_parallelism_of_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(engine="MicroBatch")
    await operator_fixture.run()
    operator_fixture.kubernetes.edit_job(KEY, parallelism=4)
    await operator_fixture.look(2)
    operator_fixture.driver_ends(1, DRAINED)
    await loses_the_start(operator_fixture, monkeypatch, 2)
    await operator_fixture.run(2)
    status = operator_fixture.status
    assert (status["parallelism"], status["executors"]["desired"]) == (4, 4)
    assert (status["attempt"]["startReason"], status["attempt"]["generation"]) == ("Rescaled", 2)
    messages = [
        body["message"] for (kind, _, _), body in operator_fixture.kubernetes.objects.items() if kind == "Event"
    ]
    assert "the job runs with parallelism 4" in messages
    assert "the job runs with parallelism 2" not in messages


async def test_a_bounded_job_that_runs_again_is_not_called_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(**BOUNDED)
    await operator_fixture.run()
    operator_fixture.checkpoint(1, 10, drained=True, finished=True)
    operator_fixture.driver_ends(1, FINISHED)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "Finished")["status"] == "True"
    operator_fixture.kubernetes.edit_job(KEY, restartNonce=1)
    await loses_the_start(operator_fixture, monkeypatch, 2)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "Finished")["status"] == "False"


async def test_the_failure_of_an_attempt_that_ended_before_its_adoption_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.look()
    operator_fixture.wait(60)
    await loses_the_start(operator_fixture, monkeypatch, 2)
    operator_fixture.driver_ends(2, FATAL)
    await operator_fixture.settle()
    assert operator_fixture.status["lastFailure"]["attempt"] == 2
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["state"] == "Failed"


async def test_the_modules_are_those_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have changed since, so that the attempt is stopped for them."""
    operator_fixture = OperatorFixture(transform=CODE)
    place = ("ConfigMap", "team", "modules")
    operator_fixture.kubernetes.objects[place] = {
        "kind": "ConfigMap", "metadata": {"namespace": "team", "name": "modules", "uid": "m"}, "data": {"a.py": "one"},
    }  # fmt: skip
    await loses_the_start(operator_fixture, monkeypatch, 1)
    operator_fixture.kubernetes.objects[place]["data"] = {"a.py": "two"}
    await operator_fixture.look()
    assert operator_fixture.status["reason"] == "CodeChanged"


async def test_a_failure_whose_cause_was_corrected_holds_no_later_attempt_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator_fixture = OperatorFixture(transform=CODE)
    place = ("ConfigMap", "team", "modules")
    operator_fixture.kubernetes.objects[place] = {
        "kind": "ConfigMap", "metadata": {"namespace": "team", "name": "modules", "uid": "m"}, "data": {"a.py": "one"},
    }  # fmt: skip
    await operator_fixture.run()
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    operator_fixture.kubernetes.objects[place]["data"] = {"a.py": "two"}
    await loses_the_start(operator_fixture, monkeypatch, 2)
    await operator_fixture.run(2)
    operator_fixture.wait(3600)
    operator_fixture.driver_ends(2, ROTATED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-3-driver"]


async def test_what_the_driver_reports_is_newer_than_its_start() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    operator_fixture.report(1, DriverState.RUNNING, checkpoint_id=10, engine="Continuous", rescales=True, parallelism=3)
    operator_fixture.kubernetes.job(KEY)["status"] = {}
    await operator_fixture.look()
    assert operator_fixture.status["parallelism"] == 3
    assert operator_fixture.status["engine"]["name"] == "Continuous"
