"""A sweep reaches every namespace that lets it in, and asks for a live look where something has changed."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.sweep import Sweep
from kafkasparkjob_operator.controller.work_queue import WorkQueue
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import ObjectRefused
from sparkapp.model import names
from tests.support.fakes.kubernetes import FakeKubernetes
from tests.support.kubernetes.operator_fixture import job_body


class PartlyClosed(FakeKubernetes):
    """Refuses the lists of one namespace, as when its RoleBinding is gone."""

    closed = "team-a"
    closed_kind = ""

    async def list_jobs(self, namespace: str | None) -> AsyncIterator[Sequence[dict[str, Any]]]:
        if namespace == self.closed:
            raise ObjectRefused(f"cannot list in {namespace}", status=403)
        async for page in super().list_jobs(namespace):
            yield page

    async def list_objects(self, kind: str, namespace: str | None) -> AsyncIterator[Sequence[dict[str, Any]]]:
        if kind == self.closed_kind:
            raise ObjectRefused(f"cannot list {kind}", status=403)
        async for page in super().list_objects(kind, namespace):
            yield page


def job(namespace: str, name: str) -> dict[str, Any]:
    body = job_body()
    body["metadata"] = {"namespace": namespace, "name": name}
    return body


async def test_a_refused_namespace_is_left_out_and_the_next_one_is_swept(caplog: pytest.LogCaptureFixture) -> None:
    kubernetes, cache, queue = PartlyClosed(), Cache(), WorkQueue()
    kubernetes.add_job(job("team-b", "found"))
    for namespace in ("team-a", "team-b"):
        cache.put_job({**job(namespace, "cached"), "metadata": {"namespace": namespace, "name": "cached"}})
    sweep = Sweep(kubernetes, cache, queue, ("team-a", "team-b", "team-c"), looked_at=lambda _: -math.inf)
    await sweep.sweep(0)
    assert cache.version(JobKey("team-b", "found"))
    queued = {await queue.take() for _ in range(len(queue))}
    # The one of team-a is not known to be gone; nothing could be done for it either.
    assert queued == {JobKey("team-b", "cached"), JobKey("team-b", "found")}
    assert "team-a" in caplog.text


async def test_a_sweep_of_the_whole_cluster_finds_what_is_gone_and_what_is_new() -> None:
    kubernetes, cache, queue = PartlyClosed(), Cache(), WorkQueue()
    kubernetes.add_job(job("team-b", "found"))
    cache.put_job(job("team-z", "gone"))
    await Sweep(kubernetes, cache, queue, (), looked_at=lambda _: -math.inf).sweep(0)
    assert {await queue.take() for _ in range(len(queue))} == {JobKey("team-b", "found"), JobKey("team-z", "gone")}


class Fleet:
    """A job on a Kubernetes in memory, that was looked at, and its sweep."""

    def __init__(self, **body: Any) -> None:
        self.kubernetes, self.cache, self.queue = PartlyClosed(), Cache(), WorkQueue()
        self.kubernetes.add_job({**job("team-b", "orders"), **body})
        self.key = JobKey("team-b", "orders")
        self.cache.put_job(self.kubernetes.job(self.key))
        for kind, name in (("Role", "orders-driver"), ("Pod", "orders-1-driver"), ("ConfigMap", "orders-state")):
            self.put(kind, name)
        self.looked_at = -math.inf
        self.sweeper = Sweep(self.kubernetes, self.cache, self.queue, (), looked_at=lambda _: self.looked_at)

    def put(self, kind: str, name: str, *, version: str = "1", uid: str = "a", role: str = "state") -> None:
        labels = {names.LABEL_JOB: "orders", names.LABEL_ROLE: role}
        meta = {"namespace": "team-b", "name": name, "uid": uid, "resourceVersion": version, "labels": labels}
        self.kubernetes.objects[kind, "team-b", name] = {"kind": kind, "metadata": meta}

    def look(self) -> None:
        self.looked_at = time.monotonic()

    async def is_doubted(self) -> bool:
        """Whether a sweep asks for a live look."""
        await self.sweeper.sweep(0)
        return self.cache.take_access_change(self.key)


@pytest.fixture
async def fleet() -> Fleet:
    """A job whose look lies behind a list."""
    made = Fleet()
    await made.sweeper.note_versions()
    made.look()
    return made


async def test_a_job_whose_objects_have_not_changed_gets_no_live_look(fleet: Fleet) -> None:
    for _ in range(3):
        assert not await fleet.is_doubted()
        assert await fleet.queue.take() == fleet.key
        fleet.queue.done(fleet.key)


@pytest.mark.parametrize("kind", ["Role", "Pod"])
async def test_an_object_with_another_version_asks_for_one_live_look(fleet: Fleet, kind: str) -> None:
    name = {"Role": "orders-driver", "Pod": "orders-1-driver"}[kind]
    fleet.put(kind, name, version="2")
    assert await fleet.is_doubted()
    fleet.look()
    assert not await fleet.is_doubted()


@pytest.mark.parametrize("kind", ["Role", "Pod", "ConfigMap"])
async def test_an_object_that_is_gone_asks_for_a_live_look(fleet: Fleet, kind: str) -> None:
    gone = next(place for place in fleet.kubernetes.objects if place[0] == kind)
    del fleet.kubernetes.objects[gone]
    assert await fleet.is_doubted()


async def test_an_object_that_was_created_again_asks_for_a_live_look(fleet: Fleet) -> None:
    fleet.put("ConfigMap", "orders-state", uid="b")
    assert await fleet.is_doubted()


async def test_a_new_attempt_asks_for_a_live_look(fleet: Fleet) -> None:
    fleet.put("ConfigMap", "orders-attempt", role="attempt")
    assert await fleet.is_doubted()


async def test_checkpoints_ask_for_no_live_look(fleet: Fleet) -> None:
    fleet.put("ConfigMap", "orders-state", version="2")
    assert not await fleet.is_doubted()


async def test_a_look_before_the_list_is_repeated_once() -> None:
    fleet = Fleet()
    fleet.look()
    await fleet.sweeper.note_versions()
    assert await fleet.is_doubted()
    fleet.look()
    assert not await fleet.is_doubted()


async def test_a_job_that_a_list_has_brought_before_its_watch_is_looked_at() -> None:
    kubernetes, queue = FakeKubernetes(), WorkQueue()
    kubernetes.add_job(job("team", "orders"))
    sweep = Sweep(kubernetes, Cache(), queue, (), looked_at=lambda _: -math.inf)
    await sweep.note_versions()
    assert len(queue) == 1
    assert await queue.take() == JobKey("team", "orders")


async def test_a_job_without_a_list_of_its_own_gets_a_live_look() -> None:
    fleet = Fleet()
    fleet.look()
    assert await fleet.is_doubted()


async def test_a_lost_event_of_the_resource_asks_for_a_live_look(fleet: Fleet) -> None:
    fleet.kubernetes.edit_job(fleet.key, suspend=True)
    assert await fleet.is_doubted()


async def test_a_refused_list_asks_for_live_looks(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet.kubernetes.closed_kind = "Role"
    for _ in range(2):
        assert await fleet.is_doubted()
        fleet.look()
    assert "cannot list Role" in caplog.text


async def test_a_job_at_rest_is_queued_only_when_something_has_changed() -> None:
    fleet = Fleet(status={"state": "Suspended"})
    await fleet.sweeper.note_versions()
    fleet.queue.done(await fleet.queue.take())
    fleet.look()
    await fleet.sweeper.sweep(0)
    assert len(fleet.queue) == 0
    fleet.put("Pod", "orders-2-driver")
    await fleet.sweeper.sweep(0)
    assert len(fleet.queue) == 1


async def test_a_standby_operator_lists_no_versions(fleet: Fleet) -> None:
    fleet.kubernetes.closed_kind = "Role"
    standby = Sweep(
        fleet.kubernetes, fleet.cache, fleet.queue, (), looked_at=lambda _: -math.inf, may_act=lambda: False
    )  # fmt: skip
    await standby.sweep(0)
    assert not fleet.cache.take_access_change(fleet.key)
