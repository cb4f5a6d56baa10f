"""What an event of a watch changes, and whether its job is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.handlers import Handlers
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.decisions.checks.heartbeat import STALE_SECONDS
from kafkasparkjob_operator.identity import JobKey
from sparkapp.model import names
from sparkapp.model.report import DriverState, Load, Report, ReportEvent, encode_report
from tests.support.kubernetes.operator_fixture import KEY, UID, OperatorFixture

BEAT = Report(
    job_uid=UID, attempt=1, state=DriverState.RUNNING, updated_at="2026-11-21T12:00:00Z", heartbeat_seconds=10, steps=4,
    checkpoint_id=7, lag_records=0,
)  # fmt: skip
LOAD = Load(window_millis=10_000, busy_percent=3, lag=0, arrived_per_second=0, read_per_second=0, partitions=2)


class Asked(WorkQueue):
    """Counts the looks that are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def add(self, key: JobKey) -> None:
        self.looks += 1

    def add_paced(self, key: JobKey, seconds: float) -> None:
        self.looks += 1


class Rig(OperatorFixture):
    """The handlers, and a job whose driver sends heartbeats."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(**spec)
        self.asked = Asked()
        self.handlers = Handlers(self.cache, self.asked, lambda _: True).by_plural
        self.cache.put_job(self.kubernetes.job(KEY))
        self.tell(BEAT)

    def handle(self, plural: str, body: Mapping[str, Any], kind: str = "MODIFIED") -> bool:
        """Whether a look is asked for."""
        before = self.asked.looks
        self.handlers[plural]({"type": kind, "object": body})
        return self.asked.looks > before

    def tell(self, report: Report, **data: str) -> bool:
        meta = {
            "namespace": KEY.namespace, "name": names.report_config_map(KEY.name),
            "labels": {names.LABEL_JOB: KEY.name}, "ownerReferences": [{"kind": names.KIND, "uid": UID}],
        }  # fmt: skip
        return self.handle("configmaps", {"metadata": meta, "data": {names.REPORT_KEY: encode_report(report), **data}})


def later(report: Report = BEAT, **changes: Any) -> Report:
    return replace(report, updated_at="2026-11-21T12:00:10Z", **changes)


async def test_a_heartbeat_asks_for_no_look() -> None:
    rig = Rig()
    rig.wait(10)
    assert not rig.tell(later(steps=9))
    assert rig.cache.ages(KEY).report == 0


@pytest.mark.parametrize(
    "news",
    [
        {"checkpoint_id": 8},
        {"lag_records": 5},
        {"lag_records": None},
        {"state": DriverState.DRAINING},
        {"attempt": 2},
        {"transactions_known": True},
        {"events": (ReportEvent(sequence=1, type="Normal", reason="X", message="m", time="t"),)},  # type: ignore[arg-type]
    ],
)
async def test_everything_else_asks_for_a_look(news: dict[str, Any]) -> None:
    rig = Rig()
    assert rig.tell(later(**news))


async def test_a_config_map_without_a_report_asks_for_no_look() -> None:
    rig = Rig()
    rig.cache.drop_report(KEY)
    meta = {
        "namespace": KEY.namespace,
        "name": names.report_config_map(KEY.name),
        "labels": {names.LABEL_JOB: KEY.name},
    }
    assert not rig.handle("configmaps", {"metadata": meta, "data": {}}, "ADDED")
    assert rig.tell(BEAT)


async def test_a_prepared_standby_asks_for_a_look() -> None:
    rig = Rig()
    assert rig.tell(later(), **{names.PREPARED_KEY: "2"})


@pytest.mark.parametrize("autoscales", [False, True])
async def test_the_load_is_news_for_an_autoscaler(autoscales: bool) -> None:
    spec = {"autoscaler": {"minParallelism": 1, "maxParallelism": 4}} if autoscales else {}
    rig = Rig(**spec)
    assert rig.tell(later(load=LOAD)) == autoscales


async def test_a_heartbeat_after_a_silence_asks_for_a_look() -> None:
    """A look may have called the driver silent."""
    rig = Rig()
    rig.wait(STALE_SECONDS)
    assert rig.tell(later())
    assert not rig.tell(BEAT)


async def test_a_progress_after_a_standstill_asks_for_a_look() -> None:
    rig = Rig()
    for count in range(4):
        rig.wait(STALE_SECONDS / 3)
        assert not rig.tell(BEAT if count % 2 else later())
    assert rig.tell(later(steps=5))


async def test_a_pod_as_it_is_known_asks_for_no_look() -> None:
    rig = Rig()
    await rig.settle()
    (pod,) = rig.kubernetes.pods(KEY)
    rig.cache.drop_pod(KEY, pod["metadata"]["uid"])
    assert rig.handle("pods", pod)
    assert not rig.handle("pods", {**pod, "metadata": {**pod["metadata"], "resourceVersion": "99"}})
    assert rig.handle("pods", {**pod, "status": {"phase": "Failed"}})
    assert rig.handle("pods", pod, "DELETED")
