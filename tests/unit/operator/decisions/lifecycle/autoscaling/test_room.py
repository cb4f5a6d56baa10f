"""The room that ResourceQuotas leave: asked before a growth, said in its explanation, and never outgrown."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from kafkasparkjob_operator.decisions.lifecycle.autoscaling.room import UNLIMITED, room_of
from kafkasparkjob_operator.kubernetes.port import ClusterError
from kafkasparkjob_operator.observation.quota_view import quota_rows
from kafkasparkjob_operator.workload import Workload, desired_from_resource
from sparkapp.model import names
from sparkapp.model.report import Load, PartitionLoad
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, job_body

AUTOSCALER = {"maxParallelism": 8, "stabilizationSeconds": 30, "scaleDownDelaySeconds": 600, "catchUpSeconds": 300}
MORE = Load(
    window_millis=3000, busy_percent=95, lag=0, arrived_per_second=4000, read_per_second=1900, partitions=8,
    heaviest=tuple(PartitionLoad("in", number, 0, 500, 237) for number in range(8)),
)  # fmt: skip
"""It needs eight subtasks."""


def quota(hard: dict[str, str], used: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta = {"name": "compute", "namespace": KEY.namespace}
    return {"kind": "ResourceQuota", "metadata": meta, "spec": spec, "status": {"hard": hard, "used": used or {}}}


def workload() -> Workload:
    """Executors with one core of CPU and one subtask each."""
    return desired_from_resource(job_body()["spec"], namespace="team", name="orders").workload


@pytest.mark.parametrize(
    ("hard", "used", "more"),
    [
        ({"pods": "10"}, {"pods": "7"}, 3),
        ({"requests.cpu": "4500m"}, {"requests.cpu": "2"}, 2),
        ({"cpu": "2", "pods": "100"}, {"cpu": "1500m"}, 0),
        ({"count/pods": "3"}, {"count/pods": "9"}, 0),
    ],
)
def test_the_scarcest_resource_limits(hard: dict[str, str], used: dict[str, str], more: int) -> None:
    room = room_of(quota_rows([quota(hard, used)]), workload(), running=2)
    assert room.parallelism == (2 + more) * workload().executor_cores
    assert f"room for {more} more executor(s)" in room.cause
    assert room.cause.startswith("; ResourceQuota compute has ")


def test_memory_is_said_in_mebibytes() -> None:
    memory = workload().executor.container_mebibytes
    rows = quota_rows([quota({"limits.memory": f"{4 * memory}Mi"}, {"limits.memory": f"{memory << 20}"})])
    assert f"has {3 * memory}Mi of {4 * memory}Mi limits.memory left" in room_of(rows, workload(), running=1).cause


@pytest.mark.parametrize(
    "body",
    [
        quota({"persistentvolumeclaims": "0"}),
        quota({"limits.cpu": "0"}),  # these executors have no limit of CPU
        quota({"pods": "0"}, scopes=["BestEffort"]),
        quota({"pods": "0"}, scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass"}]}),
        quota({"pods": "many"}),
        {"metadata": {"name": "new"}},
    ],
)
def test_what_does_not_limit_executors_is_left_out(body: dict[str, Any]) -> None:
    assert room_of(quota_rows([body]), workload(), running=2) == UNLIMITED


def test_quantities_of_every_form_are_read() -> None:
    texts = {"a": "5", "b": "500m", "c": "1.5", "d": "2k", "e": "1Gi", "f": "3n"}
    found = {row.resource: row.hard for row in quota_rows([quota(texts)])}
    assert found == {
        "a": 5, "b": Decimal("0.5"), "c": Decimal("1.5"), "d": 2000, "e": 1 << 30, "f": Decimal("3e-9"),
    }  # fmt: skip


class Growing:
    """A job with two subtasks, of which the load needs eight for as long as the autoscaler waits."""

    def __init__(self, **spec: Any) -> None:
        self.fixture = OperatorFixture(engine="Continuous", autoscaler=AUTOSCALER, **spec)

    async def grow(self) -> dict[str, Any]:
        """``status.autoscaler`` when the wait is over."""
        await self.fixture.run()
        for number in (1, 2):
            self.fixture.kubernetes.add_executor(KEY, 1, number)
        for seconds in (60, 60, 31):
            self.fixture.wait(seconds)
            self.fixture.report(1, load=MORE, engine="Continuous", parallelism=2, rescales=True)
            await self.fixture.settle()
        found: dict[str, Any] = self.fixture.status["autoscaler"]
        return found

    def limit(self, body: dict[str, Any]) -> None:
        self.fixture.kubernetes.objects["ResourceQuota", KEY.namespace, "compute"] = body

    @property
    def asked(self) -> str | None:
        pod = self.fixture.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, 1)]
        return (pod["metadata"].get("annotations") or {}).get(names.ANNOTATION_PARALLELISM)


async def test_metrics_have_target_load_and_decision() -> None:
    job = Growing()
    await job.grow()
    job.fixture.kubernetes.job(KEY)["spec"]["autoscaler"]["targetUtilization"] = 70  # the API server's default
    await job.fixture.settle()
    text = job.fixture.metrics.render().decode()
    labels = '{job="orders",namespace="team"}'
    assert f"kafkaspark_job_autoscaler_target_ratio{labels} 0.7" in text
    assert f"kafkaspark_job_busy_ratio{labels} 0.95" in text
    assert f"kafkaspark_job_autoscaler_parallelism{labels} 8.0" in text
    assert 'kafkaspark_operator_scaling_decisions_total{reason="ScalingUp"} 1.0' in text


async def test_without_a_quota_the_job_gets_what_it_needs() -> None:
    job = Growing()
    await job.grow()
    assert job.asked == "8"


async def test_a_growth_with_room_says_what_is_left() -> None:
    job = Growing()
    job.limit(quota({"pods": "100"}, {"pods": "3"}))
    await job.grow()
    assert job.asked == "8"
    (told,) = (each for each in job.fixture.kubernetes.objects.values() if each.get("reason") == "ScalingUp")
    assert "ResourceQuota compute has 97 of 100 pods left, room for 97 more executor(s)" in told["message"]


async def test_a_quota_that_is_nearly_full_gives_what_fits() -> None:
    job = Growing()
    job.limit(quota({"pods": "6"}, {"pods": "3"}))
    await job.grow()
    assert job.asked == "4", "five executors fit, and with five the busiest subtask has as much as with four"


async def test_a_full_quota_stops_a_growth_before_it_begins() -> None:
    job = Growing()
    job.limit(quota({"pods": "3"}, {"pods": "3"}))
    scaling = await job.grow()
    assert job.asked is None
    assert scaling["reason"] == "NoRoom"
    assert "ResourceQuota compute has 0 of 3 pods left, room for 0 more executor(s)" in scaling["message"]
    assert "ScalingBlocked" in job.fixture.kubernetes.events()


async def test_a_fixed_number_of_executors_asks_no_quota() -> None:
    job = Growing(executor={"instances": 8})
    job.limit(quota({"pods": "3"}, {"pods": "3"}))
    await job.grow()
    assert job.asked == "8"


async def test_a_quota_that_cannot_be_read_limits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Growing()

    async def refused(_: str) -> list[dict[str, Any]]:
        raise ClusterError("forbidden", status=403)

    monkeypatch.setattr(job.fixture.kubernetes, "list_quotas", refused)
    await job.grow()
    assert job.asked == "8"
