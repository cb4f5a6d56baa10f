"""A job whose snapshots the operator makes, and the controller that fills them."""

from __future__ import annotations

from typing import Any

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.controller.watches.snapshots import Snapshots
from sparkapp.model import names
from tests.support.fakes.kubernetes import TIME, Body
from tests.support.kubernetes.operator_fixture import OperatorFixture

HOUR = 3600


class SnapshotFixture(OperatorFixture):
    """As its base; the snapshots of a fake get the time of the test's clock."""

    def __init__(self, **spec: Any) -> None:
        self._seen: set[str] = set()
        super().__init__(**spec)
        self.last = 10

    def restart_operator(self, **keywords: Any) -> None:
        super().restart_operator(**keywords)
        self.controller = Snapshots(
            self.kubernetes, may_act=lambda: self.leading, monotonic=self.monotonic, now=lambda: self.now
        )

    @property
    def snapshots(self) -> dict[str, Body]:
        return {place[2]: body for place, body in self.kubernetes.objects.items() if place[0] == names.SNAPSHOT_KIND}

    @property
    def made(self) -> list[str]:
        return [name for verb, kind, name in self.kubernetes.writes if (verb, kind) == ("create", names.SNAPSHOT_KIND)]

    @property
    def states(self) -> dict[str, str]:
        return {name: (body.get("status") or {}).get("state", "") for name, body in self.snapshots.items()}

    async def fill(self) -> None:
        """The other controller looks at what the watch has brought it."""
        for name, body in self.snapshots.items():
            body["metadata"].setdefault("generation", 1)
            if name not in self._seen and body["metadata"]["creationTimestamp"] == TIME:
                body["metadata"]["creationTimestamp"] = format_time(self.now)
            self._seen.add(name)
            self.controller.put(body)
        await self.controller.round()

    async def hour(self, *, checkpoint: bool = True) -> None:
        """An hour passes, in which the job completes a checkpoint."""
        self.wait(HOUR)
        if checkpoint:
            self.last += 1
            self.checkpoint(1, self.last)
            self.report(1, checkpoint_id=self.last, checkpoint_time=format_time(self.now))
        await self.settle()
        await self.fill()
        await self.settle()
