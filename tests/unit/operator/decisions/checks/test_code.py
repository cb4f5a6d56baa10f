"""A changed ConfigMap of the user's modules rolls the job, also one that has failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.code_watch import CodeWatch
from kafkasparkjob_operator.decisions.state_machine import plan
from kafkasparkjob_operator.kubernetes.port import ClusterError
from kafkasparkjob_operator.workload import JobSettings
from kafkasparkjob_operator.workload.allowed_names import read_allowed_names
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, OperatorFixture

CODE = {"function": "enrich:transform", "configMapRef": {"name": "modules"}}


def put_code(operator_fixture: OperatorFixture, text: str, *, name: str = "modules", version: str = "1") -> None:
    operator_fixture.kubernetes.objects["ConfigMap", "team", name] = {
        "kind": "ConfigMap",
        "metadata": {"namespace": "team", "name": name, "uid": "m", "resourceVersion": version},
        "data": {"enrich.py": text},
    }


async def found_by_the_watch(operator_fixture: OperatorFixture) -> None:
    await CodeWatch(operator_fixture.kubernetes, operator_fixture.cache, operator_fixture.queue).look()
    assert len(operator_fixture.queue) == 1
    await operator_fixture.reconciler.reconcile(KEY)


@pytest.fixture(params=["python", "arrow"])
async def operator_fixture(request: pytest.FixtureRequest) -> OperatorFixture:
    operator_fixture = OperatorFixture(transform={request.param: CODE})
    put_code(operator_fixture, "one")
    await operator_fixture.run()
    assert operator_fixture.status["attempt"]["codeDigest"]
    return operator_fixture


async def test_a_changed_module_drains_the_attempt_and_the_next_one_starts_with_it(
    operator_fixture: OperatorFixture,
) -> None:
    put_code(operator_fixture, "two")
    await found_by_the_watch(operator_fixture)
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Restarting", "CodeChanged")
    assert "deletionTimestamp" in operator_fixture.kubernetes.objects["Pod", "team", "orders-1-driver"]["metadata"]
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert "CodeChanged" in operator_fixture.kubernetes.events()
    await operator_fixture.run(2)
    assert operator_fixture.drivers == ["orders-2-driver"], "once"


async def test_a_job_that_its_code_has_failed_starts_again_when_the_code_is_corrected(
    operator_fixture: OperatorFixture,
) -> None:
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    operator_fixture.wait(3600)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Failed"
    put_code(operator_fixture, "two")
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]
    assert operator_fixture.status["restarts"]["consecutiveFailures"] == 0


async def test_a_job_waits_for_its_config_map_and_starts_again_when_it_is_corrected() -> None:
    operator_fixture = OperatorFixture(transform={"python": CODE})
    await operator_fixture.settle_or_refused()
    assert operator_fixture.drivers == []
    assert (operator_fixture.status["state"], operator_fixture.status["reason"]) == ("Pending", "CodeMissing")
    assert "kubectl create configmap modules -n team" in operator_fixture.status["message"]
    put_code(operator_fixture, "one")
    await found_by_the_watch(operator_fixture)
    operator_fixture.kubernetes.pod_runs("orders-1-driver")
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    assert operator_fixture.status["state"] == "Failed"
    put_code(operator_fixture, "two")
    await found_by_the_watch(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_corrected_code_does_not_wait_for_the_backoff(operator_fixture: OperatorFixture) -> None:
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.look()
    assert operator_fixture.status["restarts"]["nextRetryTime"]
    put_code(operator_fixture, "two")
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-2-driver"]


async def test_a_config_map_that_is_gone_stops_nothing(operator_fixture: OperatorFixture) -> None:
    del operator_fixture.kubernetes.objects["ConfigMap", "team", "modules"]
    await operator_fixture.settle()
    assert operator_fixture.ready["reason"] == "Running"


async def test_a_standby_with_the_modules_of_before_is_not_activated() -> None:
    operator_fixture = OperatorFixture(transform={"python": CODE}, restartPolicy={"successor": "Standby"})
    put_code(operator_fixture, "one")
    await operator_fixture.run()
    operator_fixture.wait(60)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    put_code(operator_fixture, "two")
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    operator_fixture.driver_ends(2, DRAINED)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-3-driver"]


async def test_a_name_that_no_config_map_can_have_is_refused_by_its_field() -> None:
    code = {**CODE, "configMapRef": {"name": "../../kube-system/configmaps/x"}}
    operator_fixture = OperatorFixture(transform={"python": code})
    await operator_fixture.settle()
    found = operator_fixture.kubernetes.condition(KEY, "ConfigValid")
    assert found["status"] == "False"
    assert "spec.transform.python.configMapRef.name: '../../kube-system/configmaps/x' cannot be" in found["message"]
    assert found["message"].endswith("kubectl edit ksj orders -n team")
    assert operator_fixture.drivers == []


def other_code(operator_fixture: OperatorFixture, **spec: object) -> None:
    """The resource names another ConfigMap."""
    put_code(operator_fixture, "other", name="others")
    kind = next(iter(operator_fixture.kubernetes.job(KEY)["spec"]["transform"]))
    code = {**CODE, "configMapRef": {"name": "others"}}
    operator_fixture.kubernetes.edit_job(KEY, transform={kind: code}, **spec)


def stops(operator_fixture: OperatorFixture, driver: str) -> bool:
    return "deletionTimestamp" in operator_fixture.kubernetes.objects["Pod", "team", driver]["metadata"]


async def test_an_invalid_edit_to_another_config_map_stops_nothing(operator_fixture: OperatorFixture) -> None:
    digest, spec = operator_fixture.status["attempt"]["codeDigest"], dict(operator_fixture.kubernetes.job(KEY)["spec"])
    other_code(operator_fixture, sink={"topic": ""})
    await operator_fixture.settle()
    assert not stops(operator_fixture, "orders-1-driver")
    assert operator_fixture.status["attempt"]["codeDigest"] == digest
    assert operator_fixture.status["reason"] == "InvalidSpec"
    operator_fixture.kubernetes.edit_job(KEY, transform=spec["transform"], sink=spec["sink"])
    await operator_fixture.settle()
    assert not stops(operator_fixture, "orders-1-driver")
    assert operator_fixture.ready["status"] == "True"


async def test_an_invalid_edit_needs_no_requests_at_each_report(operator_fixture: OperatorFixture) -> None:
    other_code(operator_fixture, sink={"topic": ""})
    await operator_fixture.settle()
    observation = operator_fixture.cache.observe(KEY)
    assert observation is not None
    assert not plan(observation, operator_fixture.now).needs_live


async def test_a_config_map_that_is_not_allowed_stops_nothing(operator_fixture: OperatorFixture) -> None:
    allowed = read_allowed_names({"configMaps": ["modules"]}, "job.allowedNames")
    operator_fixture.restart_operator(settings=JobSettings(allowed=allowed))
    other_code(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.kubernetes.condition(KEY, "ConfigValid")["reason"] == "NameNotAllowed"
    assert not stops(operator_fixture, "orders-1-driver")


async def test_content_that_changes_under_an_invalid_spec_with_the_same_name_counts(
    operator_fixture: OperatorFixture,
) -> None:
    operator_fixture.kubernetes.edit_job(KEY, sink={"topic": ""})
    await operator_fixture.settle()
    put_code(operator_fixture, "two")
    await found_by_the_watch(operator_fixture)
    assert operator_fixture.status["reason"] == "CodeChanged"


async def test_an_attempt_of_the_last_valid_spec_records_no_digest_of_another_config_map(
    operator_fixture: OperatorFixture,
) -> None:
    digest, spec = operator_fixture.status["attempt"]["codeDigest"], dict(operator_fixture.kubernetes.job(KEY)["spec"])
    other_code(operator_fixture, sink={"topic": ""})
    operator_fixture.driver_ends(1, FAILED)
    await operator_fixture.settle()
    operator_fixture.wait(10)
    await operator_fixture.run(2)
    assert operator_fixture.status["attempt"]["id"] == 2
    assert operator_fixture.status["attempt"]["codeDigest"] == digest
    operator_fixture.kubernetes.edit_job(KEY, transform=spec["transform"], sink=spec["sink"])
    await operator_fixture.settle()
    assert not stops(operator_fixture, "orders-2-driver")


async def test_a_failed_job_is_not_started_again_by_an_invalid_edit_to_another_config_map(
    operator_fixture: OperatorFixture,
) -> None:
    operator_fixture.driver_ends(1, FATAL)
    await operator_fixture.settle()
    other_code(operator_fixture, sink={"topic": ""})
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver"]
    assert operator_fixture.status["state"] == "Failed"


async def test_another_config_map_is_a_change_of_the_spec(operator_fixture: OperatorFixture) -> None:
    other_code(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.status["reason"] == "SpecChanged"
    assert "CodeChanged" not in operator_fixture.kubernetes.events()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.run(2)
    await operator_fixture.settle()
    assert not stops(operator_fixture, "orders-2-driver")
    assert operator_fixture.ready["status"] == "True"


@pytest.mark.parametrize("changed", [False, True], ids=["same", "changed-meanwhile"])
async def test_another_config_map_is_prepared_by_a_standby_which_has_its_digest(changed: bool) -> None:
    """A change after the standby was started is not lost: the standby has imported the content before it."""
    operator_fixture = OperatorFixture(transform={"python": CODE}, restartPolicy={"successor": "BeforeStop"})
    put_code(operator_fixture, "one")
    await operator_fixture.run()
    other_code(operator_fixture)
    await operator_fixture.settle()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    assert not stops(operator_fixture, "orders-1-driver")
    if changed:
        put_code(operator_fixture, "newer", name="others")
    operator_fixture.kubernetes.pod_runs("orders-2-driver")
    operator_fixture.wait(91)
    await operator_fixture.settle()
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.run(2)
    await operator_fixture.settle()
    assert operator_fixture.status["attempt"]["id"] == 2
    assert stops(operator_fixture, "orders-2-driver") == changed
    assert ("CodeChanged" in operator_fixture.kubernetes.events()) == changed


class Counting:
    """The cluster of a fixture, whose lists and reads of ConfigMaps are noted."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.asked: list[str] = []
        self.refused = False

    async def list_versions(self, namespace: str) -> Mapping[str, str]:
        self.asked.append(f"list {namespace}")
        if self.refused:
            msg = "the API server is away"
            raise ClusterError(msg, status=503)
        found: Mapping[str, str] = await self._cluster.list_versions(namespace)
        return found

    async def get(self, kind: str, namespace: str, name: str) -> Any:
        self.asked.append(f"get {name}")
        return await self._cluster.get(kind, namespace, name)


async def test_contents_are_read_where_the_version_is_new(operator_fixture: OperatorFixture) -> None:
    cluster: Any = Counting(operator_fixture.kubernetes)
    watch = CodeWatch(cluster, operator_fixture.cache, operator_fixture.queue)
    assert await watch.look() == 1
    assert await watch.look() == 1
    assert cluster.asked == ["list team", "get modules", "list team"]
    put_code(operator_fixture, "two", version="2")
    await watch.look()
    assert cluster.asked[3:] == ["list team", "get modules"]
    assert len(operator_fixture.queue) == 1
    del operator_fixture.kubernetes.objects["ConfigMap", "team", "modules"]
    await watch.look()
    assert cluster.asked[5:] == ["list team", "get modules"], "it is gone, and may come back with its version"
    operator_fixture.cache.drop_job(KEY)
    assert await watch.look() == 0


async def test_a_late_answer_does_not_hide_changed_modules(
    operator_fixture: OperatorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch reads a version once, so an earlier content of a live look must not replace what it has read."""
    kubernetes = operator_fixture.kubernetes
    watch = CodeWatch(kubernetes, operator_fixture.cache, operator_fixture.queue)
    await watch.look()
    get, late = kubernetes.get, ["modules"]

    async def answered_late(kind: str, namespace: str, name: str) -> Any:
        body = await get(kind, namespace, name)
        if name in late:
            late.remove(name)
            put_code(operator_fixture, "two", version="2")
            await watch.look()
        return body

    monkeypatch.setattr(kubernetes, "get", answered_late)
    operator_fixture.reconciler.forget_looks()
    await operator_fixture.reconciler.reconcile(KEY)
    assert not late
    await operator_fixture.reconciler.reconcile(KEY)
    assert operator_fixture.status["reason"] == "CodeChanged"


async def test_a_list_that_fails_is_asked_again(operator_fixture: OperatorFixture) -> None:
    cluster: Any = Counting(operator_fixture.kubernetes)
    watch = CodeWatch(cluster, operator_fixture.cache, operator_fixture.queue)
    put_code(operator_fixture, "two")
    cluster.refused = True
    await watch.look()
    assert len(operator_fixture.queue) == 0
    cluster.refused = False
    await watch.look()
    assert len(operator_fixture.queue) == 1


async def test_a_change_is_seen_within_two_seconds() -> None:
    """A round has just missed it; the requests of the next round have the rest of the time."""
    operator_fixture = OperatorFixture(transform={"arrow": CODE})
    put_code(operator_fixture, "one")
    await operator_fixture.run()
    watch = CodeWatch(operator_fixture.kubernetes, operator_fixture.cache, operator_fixture.queue)
    watching = asyncio.create_task(watch.run())
    try:
        await asyncio.sleep(0.1)
        put_code(operator_fixture, "two", version="2")
        async with asyncio.timeout(1.5):
            assert await operator_fixture.queue.take() == KEY
    finally:
        watching.cancel()
