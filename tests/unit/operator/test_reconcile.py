"""The reconciler's manners: few requests, no write storms, no act without leadership, no guess after a conflict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkasparkjob_operator.cluster import NotLeading, ObjectConflict, ObjectRefused
from kafkasparkjob_operator.execute import FormerObjectInTheWay
from kafkasparkjob_operator.observation import job_key
from kafkasparkjob_operator.pod_view import pod_view
from sparkapp.model import names
from tests.support.operator_bench import KEY, OperatorBench, job_body


@pytest.fixture
async def bench() -> OperatorBench:
    """A running job that the cache knows."""
    made = OperatorBench()
    await made.run(1)
    return made


def watch(bench: OperatorBench) -> None:
    """The watches tell everything that there is."""
    bench.cache.put_job(bench.kubernetes.job(KEY))
    for pod in bench.kubernetes.pods(KEY):
        view, key = pod_view(pod), job_key(pod)
        assert view is not None
        assert key is not None
        bench.cache.put_pod(key, view)
    bench.cache.put_report(KEY, bench.kubernetes.objects["ConfigMap", KEY.namespace, names.report_config_map(KEY.name)])


class Reads:
    """Counts the reads of a cluster."""

    def __init__(self, bench: OperatorBench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("get_job", "list_pods", "list_config_maps", "get"):
            monkeypatch.setattr(bench.kubernetes, name, self._counted(getattr(bench.kubernetes, name)))

    def _counted(self, call: Any) -> Any:
        async def counted(*arguments: Any) -> Any:
            self.count += 1
            return await call(*arguments)

        return counted


async def test_a_running_job_costs_no_read_and_a_report_one_write(
    bench: OperatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(bench)
    reads = Reads(bench, monkeypatch)
    writes = len(bench.kubernetes.writes)
    for checkpoint in range(11, 14):
        bench.report(1, checkpoint_id=checkpoint, checkpoint_time="2026-11-21T12:00:00Z")
        watch(bench)
        await bench.reconciler.reconcile(KEY)
    assert reads.count == 0
    assert len(bench.kubernetes.writes) == writes + 3
    assert bench.status["checkpoint"]["id"] == 13


async def test_numbers_alone_are_written_with_a_pause_and_everything_else_at_once() -> None:
    bench = OperatorBench()
    bench.reconciler._numbers_seconds = 3600
    await bench.run(1)
    writes = len(bench.kubernetes.writes)
    for checkpoint in range(20, 30):
        bench.report(1, checkpoint_id=checkpoint, checkpoint_time="2026-11-21T12:00:00Z")
        await bench.look()
    assert len(bench.kubernetes.writes) == writes
    bench.kubernetes.edit_job(KEY, restartPolicy={"resetAfterSeconds": 7})
    await bench.look()
    assert bench.status["checkpoint"]["id"] == 29


async def test_nothing_is_written_without_leadership() -> None:
    bench = OperatorBench()
    bench.leading = False
    with pytest.raises(NotLeading):
        await bench.look()
    assert bench.kubernetes.writes == []


async def test_leadership_lost_in_the_middle_stops_before_the_next_write(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = OperatorBench()
    create = bench.kubernetes.create

    async def create_and_lose(manifest: Any) -> Any:
        made = await create(manifest)
        bench.leading = bench.leading and manifest["kind"] != "RoleBinding"
        return made

    monkeypatch.setattr(bench.kubernetes, "create", create_and_lose)
    with pytest.raises(NotLeading):
        await bench.look()
    assert ("create", "ConfigMap", "orders-1-job") not in bench.kubernetes.writes
    assert bench.kubernetes.driver_attempts == []


async def test_a_status_that_somebody_else_wrote_is_not_overwritten(bench: OperatorBench) -> None:
    watch(bench)
    bench.report(1, checkpoint_id=99, checkpoint_time="2026-11-21T12:00:00Z")
    bench.cache.put_report(KEY, bench.kubernetes.objects["ConfigMap", "team", "orders-report"])
    bench.kubernetes.edit_job(KEY, suspend=True)  # the watch has not told yet
    with pytest.raises(ObjectConflict):
        await bench.reconciler.reconcile(KEY)


async def test_a_pod_is_deleted_by_uid_so_that_its_successor_is_safe(bench: OperatorBench) -> None:
    pod = bench.kubernetes.objects["Pod", "team", "orders-1-driver"]
    await bench.kubernetes.delete("Pod", "team", "orders-1-driver", uid="another")
    assert "deletionTimestamp" not in pod["metadata"]


async def test_a_foreign_object_of_our_name_is_left_alone_and_named() -> None:
    bench = OperatorBench()
    bench.kubernetes.objects["ServiceAccount", "team", "orders-driver"] = {
        "kind": "ServiceAccount",
        "metadata": {"name": "orders-driver", "namespace": "team", "uid": "x", "resourceVersion": "1"},
    }
    with pytest.raises(ObjectRefused):
        await bench.look()
    assert bench.status["reason"] == "StartRefused"
    assert "is not the operator's" in bench.status["message"]


async def test_an_object_of_a_deleted_namesake_is_waited_for() -> None:
    bench = OperatorBench()
    former = job_body()["metadata"] | {"uid": "former"}
    owner = {"kind": names.KIND, "uid": former["uid"]}
    bench.kubernetes.objects["Role", "team", "orders-driver"] = {
        "kind": "Role",
        "metadata": {"name": "orders-driver", "namespace": "team", "uid": "x", "ownerReferences": [owner]},
    }
    with pytest.raises(FormerObjectInTheWay):
        await bench.look()
    assert bench.kubernetes.driver_attempts == []


async def test_a_role_that_was_changed_is_put_right_at_the_next_start(bench: OperatorBench) -> None:
    bench.kubernetes.objects["Role", "team", "orders-driver"]["rules"] = []
    bench.driver_ends(1, None, code=1)
    await bench.settle()
    bench.wait(5)
    await bench.settle()
    assert bench.kubernetes.objects["Role", "team", "orders-driver"]["rules"]


async def test_a_worker_outlives_what_one_job_does_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = OperatorBench()
    looked = asyncio.Event()

    async def explode(_: Any) -> None:
        looked.set()
        msg = "bad"
        raise ValueError(msg)

    monkeypatch.setattr(bench.kubernetes, "get_job", explode)
    worker = asyncio.create_task(bench.reconciler.work())
    bench.queue.add(KEY)
    await asyncio.wait_for(looked.wait(), 1)
    looked.clear()
    bench.queue.add(KEY)
    await asyncio.wait_for(looked.wait(), 1)
    worker.cancel()


@pytest.mark.parametrize("call", ["list_pods", "patch_status"])
async def test_an_edit_that_the_watch_tells_before_an_older_answer_arrives_is_not_forgotten(
    bench: OperatorBench, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The watch tells it once: what was under way then must not put the former resource in its place."""
    watch(bench)
    answer = getattr(bench.kubernetes, call)

    async def edit_meanwhile(*arguments: Any, **named: Any) -> Any:
        answered = await answer(*arguments, **named)
        monkeypatch.setattr(bench.kubernetes, call, answer)
        bench.kubernetes.edit_job(KEY, suspend=True)
        watch(bench)
        return answered

    monkeypatch.setattr(bench.kubernetes, call, edit_meanwhile)
    if call == "list_pods":
        bench.reconciler.forget_looks()
    else:
        bench.report(1, checkpoint_id=11, checkpoint_time="2026-11-21T12:00:00Z")
        watch(bench)
    await bench.reconciler.reconcile(KEY)  # what looks or writes, and is overtaken
    await bench.reconciler.reconcile(KEY)  # what the watch has queued
    assert bench.status["state"] == "Suspending"


async def test_a_pod_that_goes_during_a_look_does_not_come_back(
    bench: OperatorBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(bench)
    bench.reconciler.forget_looks()
    listed = bench.kubernetes.list_pods

    async def gone_meanwhile(key: Any) -> Any:
        pods = await listed(key)
        monkeypatch.setattr(bench.kubernetes, "list_pods", listed)
        for pod in pods:
            del bench.kubernetes.objects["Pod", "team", pod["metadata"]["name"]]
            bench.cache.drop_pod(KEY, pod["metadata"]["uid"])
        return pods

    monkeypatch.setattr(bench.kubernetes, "list_pods", gone_meanwhile)
    await bench.reconciler.reconcile(KEY)
    await bench.reconciler.reconcile(KEY)
    seen = bench.cache.observe(KEY)
    assert seen is not None
    assert seen.pods == ()


def posted_events(bench: OperatorBench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Reasons of the events that are sent to the API server, refused as duplicates or not."""
    posted: list[str] = []
    create = bench.kubernetes.create

    async def counted(manifest: Any) -> Any:
        if manifest["kind"] == "Event":
            posted.append(manifest["reason"])
        return await create(manifest)

    monkeypatch.setattr(bench.kubernetes, "create", counted)
    return posted


async def test_what_stands_is_told_once_and_idle_looks_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = OperatorBench(sink={"topic": "orders"})
    posted = posted_events(bench, monkeypatch)
    await bench.look(5)
    assert posted == ["ValidationFailed"]
    bench.restart_operator()
    await bench.look(5)
    assert posted == ["ValidationFailed"] * 2, "a new operator asks once, and is told that it is there"
    bench.kubernetes.edit_job(KEY, sink={"topic": "orders", "properties": {"acks": "1"}})
    await bench.look(2)
    assert posted == ["ValidationFailed"] * 3, "another generation is another occurrence"


async def test_what_still_stands_when_kubernetes_has_forgotten_the_event_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = OperatorBench(sink={"topic": "orders"})
    posted = posted_events(bench, monkeypatch)
    await bench.look()
    bench.kubernetes.objects = {place: one for place, one in bench.kubernetes.objects.items() if place[0] != "Event"}
    bench.wait(3599)
    await bench.look()
    assert posted == ["ValidationFailed"]
    bench.wait(1)
    await bench.look(2)
    assert posted == ["ValidationFailed"] * 2
    assert bench.kubernetes.events() == ["ValidationFailed"]


async def test_a_job_that_is_made_anew_is_told_of_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = OperatorBench(sink={"topic": "orders"})
    posted = posted_events(bench, monkeypatch)
    await bench.look(2)
    body = job_body(sink={"topic": "orders"})
    body["metadata"]["uid"] = "another-life"
    bench.kubernetes.add_job(body)
    await bench.look(2)
    assert posted == ["ValidationFailed"] * 2
