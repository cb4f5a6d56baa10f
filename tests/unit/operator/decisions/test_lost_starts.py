"""The status write of a start is lost: the driver is adopted with everything that its start would have written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from kafkasparkjob_operator.identity import FINALIZER, JobKey
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectConflict
from sparkapp.model.report import DriverState
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.kubernetes.operator_fixture import DRAINED, FATAL, FINISHED, KEY, ROTATED, OperatorFixture

BOUNDED: dict[str, Any] = {"source": {"topics": ["orders"], "stopping": {"mode": "Latest"}}}
NEVER: dict[str, Any] = {"sink": {"topic": "enriched", "transactions": {"timeoutSeconds": 0}}}
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


async def loses_an_attempt(operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt has drained; the start of the second is not in the status, and its pod is lost."""
    await operator_fixture.run()
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.look()
    operator_fixture.wait(60)
    await loses_the_start(operator_fixture, monkeypatch, 2)
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-2-driver"))
    assert operator_fixture.status["attempt"]["outcome"] == "Drained"


def left_open(operator_fixture: OperatorFixture) -> bool:
    return "TransactionsLeftOpen" in operator_fixture.kubernetes.events(warning=True)


async def test_what_a_lost_attempt_has_left_open_is_settled_at_the_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(**NEVER)
    await loses_an_attempt(operator_fixture, monkeypatch)
    operator_fixture.checkpoint(2, 11)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-3-driver"]
    operator_fixture.checkpoint(3, 11, drained=True)
    operator_fixture.driver_ends(3, DRAINED)
    await operator_fixture.settle()
    assert not operator_fixture.kubernetes.has_job(KEY)
    assert not left_open(operator_fixture)


@pytest.mark.parametrize("claimed", [1, 2], ids=["never-began", "drained"])
async def test_a_lost_attempt_that_has_left_nothing_holds_no_deletion(
    monkeypatch: pytest.MonkeyPatch, claimed: int
) -> None:
    operator_fixture = OperatorFixture(**NEVER)
    await loses_an_attempt(operator_fixture, monkeypatch)
    operator_fixture.checkpoint(claimed, 12, drained=True)
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.look()
    assert not operator_fixture.kubernetes.has_job(KEY)
    assert not left_open(operator_fixture)


async def test_a_lost_attempt_whose_state_is_unreadable_may_have_left_transactions_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator_fixture = OperatorFixture(**NEVER)
    await loses_an_attempt(operator_fixture, monkeypatch)
    operator_fixture.checkpoint(2, 11, uid="another-job")
    operator_fixture.kubernetes.delete_job(KEY)
    await operator_fixture.settle()
    assert not operator_fixture.kubernetes.has_job(KEY)
    assert left_open(operator_fixture)


async def test_a_suspended_job_says_what_a_lost_attempt_may_have_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(**NEVER)
    await loses_an_attempt(operator_fixture, monkeypatch)
    operator_fixture.checkpoint(2, 11)
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Suspended"
    assert "attempt 2 did not drain in order (Missing)" in operator_fixture.status["message"]
    sink = {"topic": "enriched", "transactions": {"timeoutSeconds": 900}}
    operator_fixture.kubernetes.edit_job(KEY, sink=sink)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.job(KEY)["metadata"]["finalizers"] == [FINALIZER]


async def test_a_claim_without_a_driver_has_left_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(**NEVER)
    await loses_the_start(operator_fixture, monkeypatch, 1)
    operator_fixture.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.settle()
    assert operator_fixture.status["message"].startswith("nothing runs: spec.suspend is true; resume the job")


@pytest.mark.parametrize("write", range(7))
async def test_no_number_is_given_twice_whatever_answers_are_lost(write: int) -> None:
    """An attempt that no status has, and whose pod is gone unseen, is known by its claim: another replaces it first."""
    operator = OperatorFixture()
    await operator.settle()
    operator.kubernetes.remove(("Pod", "team", "orders-1-driver"))
    await operator.look()
    operator.wait(400)
    await lose_the_answer(operator, write)
    if "orders-2-driver" in operator.drivers:
        operator.kubernetes.remove(("Pod", "team", "orders-2-driver"))
        await lose_the_answer(operator, 0)
        await operator.settle()
    numbers = operator.kubernetes.driver_attempts
    assert numbers == sorted(set(numbers))


async def lose_the_answer(operator: OperatorFixture, write: int) -> None:
    operator.kubernetes.fail_write = write
    with suppress(ClusterError):
        await operator.look()
    operator.kubernetes.fail_write = None
    operator.restart_operator()
