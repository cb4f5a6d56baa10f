"""Kubernetes does not do what a start needs: the job's resource says so, and no number is used up for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kafkasparkjob_operator.cluster import ClusterError, ObjectRefused
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kube import POD_SECONDS, WRITE_SECONDS, _error
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.operator_bench import KEY, OperatorBench

SLOW = "POST /api/v1/namespaces/team/pods: no answer: read timed out"
WEBHOOK = 'Internal error occurred: failed calling webhook "policy.example.com": connection refused'


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> OperatorBench:
    made = OperatorBench()
    create = FakeKubernetes.create
    made.kubernetes.fault = None  # type: ignore[attr-defined]

    async def faulty(self: FakeKubernetes, manifest: Mapping[str, Any]) -> dict[str, Any]:
        fault = self.fault  # type: ignore[attr-defined]
        if manifest["kind"] == "Pod" and fault is not None:
            raise fault
        return await create(self, manifest)

    monkeypatch.setattr(FakeKubernetes, "create", faulty)
    return made


async def fails(bench: OperatorBench, fault: ClusterError) -> None:
    """One start that fails; what is left of it is as old afterwards as the next one needs."""
    bench.kubernetes.fault = fault  # type: ignore[attr-defined]
    with pytest.raises(ClusterError):
        await bench.look()
    bench.wait(11)


async def test_the_second_failure_in_a_row_is_told_with_the_servers_words(bench: OperatorBench) -> None:
    await fails(bench, ClusterError(SLOW))
    assert bench.kubernetes.events(warning=True) == []
    for _ in range(4):
        await fails(bench, ClusterError(SLOW))
    assert (bench.status["state"], bench.status["reason"]) == ("Pending", "StartFailed")
    assert (bench.ready["status"], bench.ready["reason"]) == ("False", "StartFailed")
    assert "read timed out" in bench.ready["message"]
    assert bench.kubernetes.events(warning=True) == ["StartFailed"]
    bench.kubernetes.fault = None  # type: ignore[attr-defined]
    await bench.settle()
    assert bench.status["reason"] == "DriverPending"


async def test_a_start_that_worked_ends_the_row(bench: OperatorBench) -> None:
    await fails(bench, ClusterError(SLOW))
    bench.kubernetes.fault = None  # type: ignore[attr-defined]
    await bench.settle()
    bench.driver_ends(2, None, code=1)  # whether the first one was created nobody can tell
    await bench.settle()
    bench.wait(60)
    bench.kubernetes.fault = ClusterError(SLOW)  # type: ignore[attr-defined]
    with pytest.raises(ClusterError):
        await bench.look(2)
    assert "StartFailed" not in bench.kubernetes.events(warning=True)


async def test_a_binding_waits_for_its_role(bench: OperatorBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the API server does, for who may not bind whatever he likes: one that comes first is answered with 404."""
    create = bench.kubernetes.create

    async def strict(manifest: Mapping[str, Any]) -> dict[str, Any]:
        if (
            manifest["kind"] == "RoleBinding"
            and ("Role", KEY.namespace, "orders-driver") not in bench.kubernetes.objects
        ):
            raise ClusterError('roles "orders-driver" not found', status=404)
        return await create(manifest)

    monkeypatch.setattr(bench.kubernetes, "create", strict)
    await bench.look()
    assert bench.drivers == ["orders-1-driver"]


async def test_a_job_that_runs_is_not_called_down_for_its_successor(bench: OperatorBench) -> None:
    bench.kubernetes.edit_job(KEY, restartPolicy={"successor": "BeforeStop"})
    await bench.run(1)
    bench.kubernetes.edit_job(KEY, parallelism=3)
    for _ in range(4):
        await fails(bench, ClusterError(SLOW))
    assert bench.drivers == ["orders-1-driver"]
    assert bench.status["state"] == "Running"
    assert bench.ready["status"] == "True"


async def test_a_webhook_that_is_down_is_a_refusal_that_uses_no_number(bench: OperatorBench) -> None:
    fault = _error("POST", "/api/v1/namespaces/team/pods", 500, {"message": WEBHOOK})
    assert isinstance(fault, ObjectRefused)
    for _ in range(5):
        await fails(bench, fault)
    assert bench.status["reason"] == "StartRefused"
    assert WEBHOOK in bench.ready["message"]
    assert bench.kubernetes.events(warning=True) == ["StartRefused"]
    bench.kubernetes.fault = None  # type: ignore[attr-defined]
    await bench.settle()
    assert bench.drivers == [f"{KEY.name}-1-driver"]


@pytest.mark.parametrize("fault", [ClusterError(SLOW), ObjectRefused(WEBHOOK)], ids=["StartFailed", "StartRefused"])
async def test_who_reads_the_status_finds_the_event_there(
    bench: OperatorBench, monkeypatch: pytest.MonkeyPatch, fault: ClusterError
) -> None:
    """As with every other state; and where the operator dies in between, the event is not lost."""
    patch_status = bench.kubernetes.patch_status
    told: list[tuple[str, list[str]]] = []

    async def watched(key: JobKey, patch: Mapping[str, Any], *, resource_version: str) -> dict[str, Any] | None:
        told.append((patch.get("reason", ""), bench.kubernetes.events(warning=True)))
        return await patch_status(key, patch, resource_version=resource_version)

    monkeypatch.setattr(bench.kubernetes, "patch_status", watched)
    for _ in range(2):
        await fails(bench, fault)
    reason = bench.status["reason"]
    assert reason.startswith("Start")
    assert (reason, [reason]) in told
    assert (reason, []) not in told


def test_another_fault_of_the_server_is_none() -> None:
    fault = _error("POST", "/api", 500, {"message": "etcdserver: request timed out"})
    assert not isinstance(fault, ObjectRefused)


def test_a_pods_creation_may_take_as_long_as_the_server_lets_its_webhooks() -> None:
    assert WRITE_SECONDS < 5
    assert POD_SECONDS > 34
