"""The reconciler's manners: few requests, no write storms, no act without leadership, no guess after a conflict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkasparkjob_operator.controller.refusals import ObjectAwaitsCollection
from kafkasparkjob_operator.kubernetes.port import NotLeading, ObjectConflict, ObjectRefused
from kafkasparkjob_operator.observation.observation import job_key
from kafkasparkjob_operator.observation.pod_view import pod_view
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, job_body, record_name


@pytest.fixture
async def operator_fixture() -> OperatorFixture:
    """A running job that the cache knows."""
    made = OperatorFixture()
    await made.run(1)
    return made


def watch(operator_fixture: OperatorFixture) -> None:
    """The watches deliver everything that there is."""
    operator_fixture.cache.put_job(operator_fixture.kubernetes.job(KEY))
    for pod in operator_fixture.kubernetes.pods(KEY):
        view, key = pod_view(pod), job_key(pod)
        assert view is not None
        assert key is not None
        operator_fixture.cache.put_pod(key, view)
    operator_fixture.cache.put_report(
        KEY, operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, names.report_config_map(KEY.name)]
    )


class Reads:
    """Counts the reads of a cluster."""

    def __init__(self, operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("get_job", "list_pods", "list_attempts", "get"):
            monkeypatch.setattr(
                operator_fixture.kubernetes, name, self._counted(getattr(operator_fixture.kubernetes, name))
            )

    def _counted(self, call: Any) -> Any:
        async def counted(*arguments: Any) -> Any:
            self.count += 1
            return await call(*arguments)

        return counted


async def test_a_running_job_costs_no_read_and_a_report_one_write(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(operator_fixture)
    reads = Reads(operator_fixture, monkeypatch)
    writes = len(operator_fixture.kubernetes.writes)
    for checkpoint in range(11, 14):
        operator_fixture.report(1, checkpoint_id=checkpoint, checkpoint_time="2026-11-21T12:00:00Z")
        watch(operator_fixture)
        await operator_fixture.reconciler.reconcile(KEY)
    assert reads.count == 0
    assert len(operator_fixture.kubernetes.writes) == writes + 3
    assert operator_fixture.status["checkpoint"]["id"] == 13


async def test_numbers_alone_are_written_with_a_pause_and_everything_else_at_once() -> None:
    operator_fixture = OperatorFixture()
    operator_fixture.reconciler._numbers_seconds = 3600
    await operator_fixture.run(1)
    writes = len(operator_fixture.kubernetes.writes)
    for checkpoint in range(20, 30):
        operator_fixture.report(1, checkpoint_id=checkpoint, checkpoint_time="2026-11-21T12:00:00Z")
        await operator_fixture.look()
    assert len(operator_fixture.kubernetes.writes) == writes
    operator_fixture.kubernetes.edit_job(KEY, restartPolicy={"resetAfterSeconds": 7})
    await operator_fixture.look()
    assert operator_fixture.status["checkpoint"]["id"] == 29


async def test_nothing_is_written_without_leadership() -> None:
    operator_fixture = OperatorFixture()
    operator_fixture.leading = False
    with pytest.raises(NotLeading):
        await operator_fixture.look()
    assert operator_fixture.kubernetes.writes == []


async def test_leadership_lost_in_the_middle_stops_before_the_next_write(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture()
    create = operator_fixture.kubernetes.create

    async def create_and_lose(manifest: Any) -> Any:
        made = await create(manifest)
        operator_fixture.leading = operator_fixture.leading and manifest["kind"] != "RoleBinding"
        return made

    monkeypatch.setattr(operator_fixture.kubernetes, "create", create_and_lose)
    with pytest.raises(NotLeading):
        await operator_fixture.look()
    assert ("create", "ConfigMap", record_name(1)) not in operator_fixture.kubernetes.writes
    assert operator_fixture.kubernetes.driver_attempts == []


async def test_a_status_that_somebody_else_wrote_is_not_overwritten(operator_fixture: OperatorFixture) -> None:
    watch(operator_fixture)
    operator_fixture.report(1, checkpoint_id=99, checkpoint_time="2026-11-21T12:00:00Z")
    operator_fixture.cache.put_report(KEY, operator_fixture.kubernetes.objects["ConfigMap", "team", "orders-report"])
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)  # the watch has not delivered it yet
    with pytest.raises(ObjectConflict):
        await operator_fixture.reconciler.reconcile(KEY)


async def test_a_pod_is_deleted_by_uid_so_that_its_successor_is_safe(operator_fixture: OperatorFixture) -> None:
    pod = operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]
    await operator_fixture.kubernetes.delete("Pod", "team", "orders-1-driver", uid="another")
    assert "deletionTimestamp" not in pod["metadata"]


async def test_a_foreign_object_of_our_name_is_left_alone_and_named() -> None:
    operator_fixture = OperatorFixture()
    operator_fixture.kubernetes.objects["ServiceAccount", "team", "orders-driver"] = {
        "kind": "ServiceAccount",
        "metadata": {"name": "orders-driver", "namespace": "team", "uid": "x", "resourceVersion": "1"},
    }
    with pytest.raises(ObjectRefused):
        await operator_fixture.look()
    assert operator_fixture.status["reason"] == "StartRefused"
    message = operator_fixture.status["message"]
    assert "ServiceAccount orders-driver exists, but the operator did not create it" in message
    assert "kubectl delete serviceaccount orders-driver -n team" in message


async def test_an_object_of_a_deleted_namesake_is_waited_for() -> None:
    operator_fixture = OperatorFixture()
    previous = job_body()["metadata"] | {"uid": "previous"}
    owner = {"kind": names.KIND, "uid": previous["uid"]}
    operator_fixture.kubernetes.objects["Role", "team", "orders-driver"] = {
        "kind": "Role",
        "metadata": {"name": "orders-driver", "namespace": "team", "uid": "x", "ownerReferences": [owner]},
    }
    with pytest.raises(ObjectAwaitsCollection):
        await operator_fixture.look()
    assert operator_fixture.kubernetes.driver_attempts == []


async def test_a_role_that_was_changed_is_put_right_at_the_next_start(operator_fixture: OperatorFixture) -> None:
    operator_fixture.kubernetes.objects["Role", "team", "orders-driver"]["rules"] = []
    operator_fixture.driver_ends(1, None, code=1)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.objects["Role", "team", "orders-driver"]["rules"]


async def test_a_worker_outlives_what_one_job_does_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture()
    looked = asyncio.Event()

    async def explode(_: Any) -> None:
        looked.set()
        msg = "bad"
        raise ValueError(msg)

    monkeypatch.setattr(operator_fixture.kubernetes, "get_job", explode)
    worker = asyncio.create_task(operator_fixture.reconciler.work())
    operator_fixture.queue.add(KEY)
    await asyncio.wait_for(looked.wait(), 1)
    looked.clear()
    operator_fixture.queue.add(KEY)
    await asyncio.wait_for(looked.wait(), 1)
    worker.cancel()


@pytest.mark.parametrize("call", ["list_pods", "patch_status"])
async def test_an_edit_that_comes_before_an_older_answer_is_not_forgotten(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The watch delivers it once: a list under way then must not put the previous resource in its place."""
    watch(operator_fixture)
    answer = getattr(operator_fixture.kubernetes, call)

    async def edit_meanwhile(*arguments: Any, **named: Any) -> Any:
        answered = await answer(*arguments, **named)
        monkeypatch.setattr(operator_fixture.kubernetes, call, answer)
        operator_fixture.kubernetes.edit_job(KEY, suspend=True)
        watch(operator_fixture)
        return answered

    monkeypatch.setattr(operator_fixture.kubernetes, call, edit_meanwhile)
    if call == "list_pods":
        operator_fixture.reconciler.forget_looks()
    else:
        operator_fixture.report(1, checkpoint_id=11, checkpoint_time="2026-11-21T12:00:00Z")
        watch(operator_fixture)
    await operator_fixture.reconciler.reconcile(KEY)  # what looks or writes, and is overtaken
    await operator_fixture.reconciler.reconcile(KEY)  # what the watch has queued
    assert operator_fixture.status["state"] == "Suspending"


async def test_a_pod_that_goes_during_a_look_does_not_come_back(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(operator_fixture)
    operator_fixture.reconciler.forget_looks()
    listed = operator_fixture.kubernetes.list_pods

    async def gone_meanwhile(key: Any) -> Any:
        pods = await listed(key)
        monkeypatch.setattr(operator_fixture.kubernetes, "list_pods", listed)
        for pod in pods:
            del operator_fixture.kubernetes.objects["Pod", "team", pod["metadata"]["name"]]
            operator_fixture.cache.drop_pod(KEY, pod["metadata"]["uid"])
        return pods

    monkeypatch.setattr(operator_fixture.kubernetes, "list_pods", gone_meanwhile)
    await operator_fixture.reconciler.reconcile(KEY)
    await operator_fixture.reconciler.reconcile(KEY)
    seen = operator_fixture.cache.observe(KEY)
    assert seen is not None
    assert seen.pods == ()


def posted_events(operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Reasons of the events that are sent to the API server, refused as duplicates or not."""
    posted: list[str] = []
    create = operator_fixture.kubernetes.create

    async def counted(manifest: Any) -> Any:
        if manifest["kind"] == "Event":
            posted.append(manifest["reason"])
        return await create(manifest)

    monkeypatch.setattr(operator_fixture.kubernetes, "create", counted)
    return posted


async def test_what_stands_is_reported_once_and_idle_looks_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(sink={"topic": "orders"})
    posted = posted_events(operator_fixture, monkeypatch)
    await operator_fixture.look(5)
    assert posted == ["ValidationFailed"]
    operator_fixture.restart_operator()
    await operator_fixture.look(5)
    assert posted == ["ValidationFailed"] * 2, "a new operator asks once, and learns that it is there"
    operator_fixture.kubernetes.edit_job(KEY, sink={"topic": "orders", "properties": {"acks": "1"}})
    await operator_fixture.look(2)
    assert posted == ["ValidationFailed"] * 3, "another generation is another occurrence"


async def test_what_still_holds_when_the_event_is_forgotten_is_reported_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator_fixture = OperatorFixture(sink={"topic": "orders"})
    posted = posted_events(operator_fixture, monkeypatch)
    await operator_fixture.look()
    operator_fixture.kubernetes.objects = {
        place: each for place, each in operator_fixture.kubernetes.objects.items() if place[0] != "Event"
    }
    operator_fixture.wait(3599)
    await operator_fixture.look()
    assert posted == ["ValidationFailed"]
    operator_fixture.wait(1)
    await operator_fixture.look(2)
    assert posted == ["ValidationFailed"] * 2
    assert operator_fixture.kubernetes.events() == ["ValidationFailed"]


async def test_a_job_that_is_recreated_is_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture(sink={"topic": "orders"})
    posted = posted_events(operator_fixture, monkeypatch)
    await operator_fixture.look(2)
    body = job_body(sink={"topic": "orders"})
    body["metadata"]["uid"] = "another-resource"
    operator_fixture.kubernetes.add_job(body)
    await operator_fixture.look(2)
    assert posted == ["ValidationFailed"] * 2
