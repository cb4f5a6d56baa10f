"""A job with an autoscaler on a Kubernetes in memory, for tests of the operator."""

from __future__ import annotations

from typing import Any

from sparkapp.model import names
from sparkapp.model.report import Load, PartitionLoad
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture

POLICY: dict[str, Any] = {
    "maxParallelism": 8, "stabilizationSeconds": 30, "scaleDownDelaySeconds": 600, "catchUpSeconds": 300,
}  # fmt: skip


def load(arrived: int, *, read: int = 1000, busy: int = 50, lag: int = 0, partitions: int = 8) -> Load:
    """Evenly spread over the partitions. With the defaults a subtask of two could read 1000 records/s."""
    shares = max(1, partitions)
    each = (lag // shares, arrived // shares, read // shares)
    return Load(
        window_millis=3000, busy_percent=busy, lag=lag, arrived_per_second=arrived, read_per_second=read,
        partitions=partitions, heaviest=tuple(PartitionLoad("in", number, *each) for number in range(partitions)),
    )  # fmt: skip


CALM, MORE, LITTLE = load(1000), load(4000, read=1900, busy=95), load(100, read=100, busy=5)


class Job:
    """A job with two subtasks, whose driver reports a load."""

    def __init__(self, *, in_place: bool = True, **spec: Any) -> None:
        self.fixture = OperatorFixture(engine="Continuous", **{"autoscaler": POLICY, **spec})
        self.in_place, self.attempt, self.runs = in_place, 1, 2

    async def start(self) -> Job:
        await self.fixture.run()
        self.fixture.wait(60)
        return self

    async def sees(self, found: Load | None, seconds: float = 0, **fields: Any) -> None:
        self.fixture.wait(seconds)
        place = {"engine": "Continuous", "parallelism": self.runs, "rescales": True} if self.in_place else {}
        self.fixture.report(self.attempt, load=found, **{**place, **fields})
        await self.fixture.settle()

    @property
    def asked(self) -> str | None:
        name = names.driver_pod(KEY.name, self.attempt)
        annotations = self.fixture.kubernetes.objects["Pod", KEY.namespace, name]["metadata"].get("annotations") or {}
        return annotations.get(names.ANNOTATION_PARALLELISM)

    @property
    def scaling(self) -> dict[str, Any]:
        found: dict[str, Any] = self.fixture.status.get("autoscaler", {})
        return found

    @property
    def events(self) -> list[str]:
        return [each for each in self.fixture.kubernetes.events() if each.startswith("Scaling")]

    async def follows(self, parallelism: int) -> None:
        """The driver runs what it was asked for."""
        self.runs = parallelism
        await self.sees(MORE, 5, rescaling=parallelism)
