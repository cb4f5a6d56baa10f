"""A tenant floods the operator; a job of another tenant starts meanwhile, and the operator stays within its limits."""

from __future__ import annotations

import itertools
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.clock import format_time, now
from sparkapp.model import names
from sparkapp.model.event_reason import DriverEvent
from sparkapp.model.report import DriverState, Report, ReportEvent, encode_report
from tests.support.kubernetes.api_client import REPOSITORY, ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place

RESOURCES = 60
BUCKET = 25
"""Events of a driver that are published at once (client-go's burst)."""


@pytest.fixture
def tenants(api: ApiClient) -> tuple[str, str]:
    """Two namespaces: of a noisy and of a quiet tenant."""
    found = (f"noisy-{uuid.uuid4().hex[:6]}", f"quiet-{uuid.uuid4().hex[:6]}")
    for name in found:
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return found


@pytest.fixture
def operator(kubeconfig: Path, tmp_path: Path, tenants: tuple[str, str]) -> Iterator[OperatorProcess]:
    settings = {"watch_namespaces": ",".join(tenants)}
    made = OperatorProcess(kubeconfig, tenants[1], tmp_path / "operator.log", settings)
    made.await_leading()
    yield made
    made.stop()
    assert "Traceback" not in made.log, made.log


@contextmanager
def repeated(act: Callable[[], Any], pool: ThreadPoolExecutor, *, pause: float = 0.0) -> Iterator[list[None]]:
    """Acts, with a pause in seconds, until the end of the block; yields a list that grows with each act."""
    acts, stop = list[None](), threading.Event()

    def run() -> None:
        while not stop.wait(pause):
            act()
            acts.append(None)

    running = pool.submit(run)
    try:
        yield acts
    finally:
        stop.set()
        running.result(60)


def hostile_report(job: LiveJob, uid: str, first: int) -> str:
    time = format_time(now())
    events = tuple(
        ReportEvent(sequence=number, type="Warning", reason=DriverEvent.PARTITION_ADDED, message="flood", time=time)
        for number in range(first, first + 20)
    )
    return encode_report(
        Report(job_uid=uid, attempt=1, state=DriverState.RUNNING, updated_at=time, checkpoint_id=first, events=events)
    )


def metric(operator: OperatorProcess, name: str) -> float:
    lines = operator.read("/metrics").splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), 0.0)


def test_a_flood_of_one_tenant_leaves_the_others_and_the_operator_alone(
    api: ApiClient, operator: OperatorProcess, tenants: tuple[str, str]
) -> None:
    noisy, quiet = tenants
    flooding = LiveJob(api, noisy, "flooding")
    flooding.create()
    flooding.run(1, hold=False)
    large = LiveJob(api, noisy, "large")
    large.create()
    large.run(1, hold=False)
    uid, sequence = flooding.uid(), itertools.count(1, 20)
    path = f"{flooding.config_maps_path}/{names.report_config_map('{}')}"

    def flood() -> None:
        text = hostile_report(flooding, uid, next(sequence))
        api.merge(path.format("flooding"), {"data": {names.REPORT_KEY: text}})

    def write_a_mebibyte() -> None:
        api.merge(path.format("large"), {"data": {names.REPORT_KEY: f"{next(sequence):07}" * 130_000}})

    def create_many() -> None:
        name = f"many-{len(created)}"
        if len(created) < RESOURCES:
            LiveJob(api, noisy, name).create()
            created.append(name)
        operator.read("/metrics")

    created: list[str] = []
    with ThreadPoolExecutor(3) as pool, ExitStack() as floods:
        # Kopf waits for the end of a series of changes that are less than 0.1 s apart.
        reports = floods.enter_context(repeated(flood, pool, pause=0.15))
        mebibytes = floods.enter_context(repeated(write_a_mebibyte, pool))
        floods.enter_context(repeated(create_many, pool))
        await_that("the flood is on", lambda: len(reports) > 50 and len(mebibytes) > 5)
        for number in range(3):
            job = LiveJob(api, quiet, f"orders-{number}")
            job.create()
            job.run(1, hold=False)
        before = len(reports)
        await_that("the flood has outlasted the starts", lambda: len(reports) > before + 50)
        await_that("all resources are there", lambda: len(created) == RESOURCES, seconds=120)
        throttled = "kafkaspark_operator_events_throttled_total"
        await_that("the dropped events are counted", lambda: metric(operator, throttled))
    events = flooding.events
    assert [reason for reason, _ in events].count("EventsThrottled") == 1
    assert [reason for reason, _ in events].count("PartitionAdded") <= BUCKET + 1
    lease = api.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{quiet}/leases/kafkaspark-operator")
    assert lease["spec"]["leaseTransitions"] == 0
    assert "lost the lease" not in operator.log
    values = yaml.safe_load((REPOSITORY / "charts/kafkaspark-operator/values.yaml").read_text(encoding="utf-8"))
    limit = values["resources"]["limits"]["memory"]
    assert limit.endswith("Mi")
    assert metric(operator, "process_resident_memory_bytes") < int(limit.removesuffix("Mi")) * 2**20


def test_a_resource_that_is_nested_as_deeply_as_can_be_holds_up_nobody(
    api: ApiClient, place: Place, start_operator: Callable[..., OperatorProcess]
) -> None:
    """Watches and lists have it among the resources of all tenants, also for an operator that starts."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)  # for this test's own client
    try:
        nested: dict[str, Any] = {}
        for _ in range(9_000):
            nested = {"a": nested}
        first = start_operator()
        first.await_leading()
        deep = LiveJob(api, place.namespace, "deep")
        deep.create(driver={"podTemplate": {"spec": {"affinity": nested}}})
        await_that("it is refused", lambda: deep.condition("ConfigValid").get("status") == "False")
        assert "nested deeper than 100 levels" in deep.condition("ConfigValid")["message"]
        first.stop()
        second = start_operator()
        second.await_leading()
        job = LiveJob(api, place.namespace)
        job.create()
        job.run(1)
        assert second.read("/healthz") == "ok"
    finally:
        sys.setrecursionlimit(before)
