"""Kubernetes does not do what a start needs: the job's resource says so, and no number is used up for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.answers import error_of
from kafkasparkjob_operator.kubernetes.client import POD_SECONDS, WRITE_SECONDS
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectRefused
from sparkapp.model import names
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, record_name

SLOW = "POST /api/v1/namespaces/team/pods: no answer: read timed out"
WEBHOOK = 'Internal error occurred: failed calling webhook "policy.example.com": connection refused'


@pytest.fixture
def operator_fixture(monkeypatch: pytest.MonkeyPatch) -> OperatorFixture:
    made = OperatorFixture()
    create = FakeKubernetes.create
    made.kubernetes.fault = None  # type: ignore[attr-defined]

    async def faulty(self: FakeKubernetes, manifest: Mapping[str, Any]) -> dict[str, Any]:
        fault = self.fault  # type: ignore[attr-defined]
        if manifest["kind"] == "Pod" and fault is not None:
            raise fault
        return await create(self, manifest)

    monkeypatch.setattr(FakeKubernetes, "create", faulty)
    return made


async def fails(operator_fixture: OperatorFixture, fault: ClusterError) -> None:
    """One start that fails; what is left of it is as old afterwards as the next one needs."""
    operator_fixture.kubernetes.fault = fault  # type: ignore[attr-defined]
    with pytest.raises(ClusterError):
        await operator_fixture.look()
    operator_fixture.wait(11)


async def test_the_second_failure_in_a_row_is_reported_with_the_servers_message(
    operator_fixture: OperatorFixture,
) -> None:
    await fails(operator_fixture, ClusterError(SLOW))
    assert operator_fixture.kubernetes.events(warning=True) == []
    for _ in range(4):
        await fails(operator_fixture, ClusterError(SLOW))
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Pending", "StartFailed")
    assert (operator_fixture.ready["status"], operator_fixture.ready["reason"]) == ("False", "StartFailed")
    assert "read timed out" in operator_fixture.ready["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["StartFailed"]
    operator_fixture.kubernetes.fault = None  # type: ignore[attr-defined]
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "DriverPending"


async def test_a_start_that_worked_ends_the_row(operator_fixture: OperatorFixture) -> None:
    await fails(operator_fixture, ClusterError(SLOW))
    operator_fixture.kubernetes.fault = None  # type: ignore[attr-defined]
    await operator_fixture.settle()
    operator_fixture.driver_ends(2, None, code=1)  # whether the first pod was created is unknown
    await operator_fixture.settle()
    operator_fixture.wait(60)
    operator_fixture.kubernetes.fault = ClusterError(SLOW)  # type: ignore[attr-defined]
    with pytest.raises(ClusterError):
        await operator_fixture.look(2)
    assert "StartFailed" not in operator_fixture.kubernetes.events(warning=True)


async def test_a_binding_waits_for_its_role(operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the API server does, for who may not bind whatever he likes: one that comes first is answered with 404."""
    create = operator_fixture.kubernetes.create

    async def strict(manifest: Mapping[str, Any]) -> dict[str, Any]:
        if (
            manifest["kind"] == "RoleBinding"
            and ("Role", KEY.namespace, "orders-driver") not in operator_fixture.kubernetes.objects
        ):
            raise ClusterError('roles "orders-driver" not found', status=404)
        return await create(manifest)

    monkeypatch.setattr(operator_fixture.kubernetes, "create", strict)
    await operator_fixture.look()
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_a_job_that_runs_is_not_called_down_for_its_successor(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.edit_job(KEY, restartPolicy={"successor": "Standby"})
    await operator_fixture.run(1)
    operator_fixture.kubernetes.fault = ClusterError(SLOW)  # type: ignore[attr-defined]
    for _ in range(4):
        operator_fixture.wait(21)
        await operator_fixture.look()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["state"] == "Running"
    assert operator_fixture.kubernetes.events(warning=True).count("SuccessorRefused") == 1


async def test_a_webhook_that_is_down_is_a_refusal_that_uses_no_number(operator_fixture: OperatorFixture) -> None:
    fault = error_of("POST", "/api/v1/namespaces/team/pods", 500, {"message": WEBHOOK})
    assert isinstance(fault, ObjectRefused)
    for _ in range(5):
        await fails(operator_fixture, fault)
    assert operator_fixture.status["reason"] == "StartRefused"
    assert WEBHOOK in operator_fixture.ready["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["StartRefused"]
    operator_fixture.kubernetes.fault = None  # type: ignore[attr-defined]
    await operator_fixture.settle()
    assert operator_fixture.drivers == [f"{KEY.name}-1-driver"]


@pytest.mark.parametrize("fault", [ClusterError(SLOW), ObjectRefused(WEBHOOK)], ids=["StartFailed", "StartRefused"])
async def test_who_reads_the_status_finds_the_event_there(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch, fault: ClusterError
) -> None:
    """As with every other state; and where the operator dies in between, the event is not lost."""
    patch_status = operator_fixture.kubernetes.patch_status
    seen: list[tuple[str, list[str]]] = []

    async def watched(key: JobKey, patch: Mapping[str, Any], *, resource_version: str) -> dict[str, Any] | None:
        seen.append((patch.get("reason", ""), operator_fixture.kubernetes.events(warning=True)))
        return await patch_status(key, patch, resource_version=resource_version)

    monkeypatch.setattr(operator_fixture.kubernetes, "patch_status", watched)
    for _ in range(2):
        await fails(operator_fixture, fault)
    reason = operator_fixture.status["reason"]
    assert reason.startswith("Start")
    assert (reason, [reason]) in seen
    assert (reason, []) not in seen


def stray(kind: str, name: str, *, owner: str = "") -> tuple[tuple[str, str, str], dict[str, Any]]:
    """An object that the operator did not create for this job: of a deleted job of its name, or of somebody."""
    owners = [{"kind": names.KIND, "name": KEY.name, "uid": owner}] if owner else []
    meta = {
        "name": name, "namespace": KEY.namespace, "uid": f"uid-of-{name}", "resourceVersion": "1",
        "ownerReferences": owners, "labels": names.labels(KEY.name) if owner else {},
    }  # fmt: skip
    return (kind, KEY.namespace, name), {"kind": kind, "metadata": meta}


async def test_a_config_map_under_an_attempts_name_is_named_and_its_number_passed_over(
    operator_fixture: OperatorFixture,
) -> None:
    kubernetes = operator_fixture.kubernetes
    place, body = stray("ConfigMap", record_name(1))
    kubernetes.objects[place] = body
    with pytest.raises(ClusterError):
        await operator_fixture.look()
    assert operator_fixture.status["state"] == "Pending"
    assert operator_fixture.status["reason"] == operator_fixture.ready["reason"] == "ConfigMapNameTaken"
    assert f"kubectl delete configmap {record_name(1)} -n team" in operator_fixture.status["message"]
    assert kubernetes.events(warning=True) == ["ConfigMapNameTaken"]
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert kubernetes.objects[place] is body
    assert kubernetes.events(warning=True) == ["ConfigMapNameTaken"]


OF_A_DELETED_JOB = [("ConfigMap", "orders-report"), ("Role", "orders-driver"), ("ServiceAccount", "orders-driver")]


@pytest.mark.parametrize(("kind", "name"), OF_A_DELETED_JOB)
async def test_an_object_of_a_deleted_job_is_named_with_the_command_that_deletes_it(
    operator_fixture: OperatorFixture, kind: str, name: str
) -> None:
    place, body = stray(kind, name, owner="deleted-job")
    operator_fixture.kubernetes.objects[place] = body
    with pytest.raises(ClusterError):
        await operator_fixture.look()
    assert operator_fixture.kubernetes.events() == [], "Kubernetes needs a moment"
    with pytest.raises(ClusterError):
        await operator_fixture.look()
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Pending", "AwaitingCollection")
    command = f"kubectl delete {kind.lower()} {name} -n team"
    assert command in operator_fixture.status["message"]
    assert command in operator_fixture.ready["message"]
    assert operator_fixture.kubernetes.events(warning=True) == ["AwaitingCollection"]
    operator_fixture.kubernetes.remove(place)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]


async def test_the_state_of_a_deleted_job_is_waited_for_and_named_with_the_command(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(operator_fixture.queue, "add_after", lambda _, seconds: pauses.append(seconds))
    place, body = stray("ConfigMap", "orders-state", owner="deleted-job")
    operator_fixture.kubernetes.objects[place] = body
    for _ in range(6):
        await operator_fixture.look()
        operator_fixture.wait(pauses[-1])
    assert pauses == sorted(pauses)
    assert pauses[0] < 3
    assert 29 < pauses[-1] < 31
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Pending", "AwaitingCollection")
    assert "kubectl delete configmap orders-state -n team" in operator_fixture.status["message"]


def test_another_fault_of_the_server_is_none() -> None:
    fault = error_of("POST", "/api", 500, {"message": "etcdserver: request timed out"})
    assert not isinstance(fault, ObjectRefused)


def test_a_pods_creation_may_take_as_long_as_the_server_lets_its_webhooks() -> None:
    assert WRITE_SECONDS < 5
    assert POD_SECONDS > 34
