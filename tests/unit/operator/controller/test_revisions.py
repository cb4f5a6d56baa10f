"""What an attempt runs is kept in immutable ConfigMaps, and its pods mount a copy of the modules."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kafkasparkjob_operator.controller.watches.code_watch import CodeWatch
from kafkasparkjob_operator.decisions.state_machine import plan
from kafkasparkjob_operator.resources.revisions import KEPT, REVISION_KEY
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, KEY, OperatorFixture, record_name

MODULES = {"transform": {"python": {"function": "a:b", "configMapRef": {"name": "code"}}}}


def put_code(operator: OperatorFixture, text: str, *, name: str = "code", **more: Any) -> None:
    operator.kubernetes.objects["ConfigMap", KEY.namespace, name] = {
        "kind": "ConfigMap", "metadata": {"name": name, "namespace": KEY.namespace, "resourceVersion": text},
        "data": {"a.py": text}, **more,
    }  # fmt: skip


def kept(operator: OperatorFixture, role: str) -> dict[str, dict[str, Any]]:
    return {
        name: body
        for (kind, _, name), body in operator.kubernetes.objects.items()
        if kind == "ConfigMap" and body["metadata"].get("labels", {}).get(names.LABEL_ROLE) == role
    }


def mounted(operator: OperatorFixture, attempt: int) -> dict[str, Any]:
    """The ConfigMap of modules that driver and executors of an attempt mount: it has to be the same."""
    driver = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    data = operator.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]["data"]
    template = yaml.safe_load(data[names.EXECUTOR_POD_TEMPLATE_KEY])
    found = [
        next(volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if volume["name"] == "code")
        for pod in (driver, template)
    ]
    assert found[0] == found[1]
    granted = operator.kubernetes.objects["Role", KEY.namespace, "orders-driver"]["rules"]
    assert any(found[0] in rule.get("resourceNames", ()) for rule in granted if rule["verbs"] == ["use"])
    return operator.kubernetes.objects["ConfigMap", KEY.namespace, found[0]]


async def restarted(operator: OperatorFixture, attempt: int) -> None:
    """The attempt fails, and the next starts."""
    operator.driver_ends(attempt, FAILED)
    await operator.settle()
    operator.wait(400)
    await operator.settle()


async def test_an_attempt_mounts_an_immutable_copy_of_its_modules() -> None:
    operator = OperatorFixture(**MODULES)
    put_code(operator, "one", binaryData={"b.zip": "aGk="})
    await operator.run()
    copy = mounted(operator, 1)
    assert copy["immutable"] is True
    assert (copy["data"], copy["binaryData"]) == ({"a.py": "one"}, {"b.zip": "aGk="})
    put_code(operator, "two")
    assert mounted(operator, 1)["data"] == {"a.py": "one"}, "an executor that is created now has the same version"
    assert operator.status["attempt"]["codeDigest"]


async def test_a_revision_has_what_an_attempt_runs_and_no_request() -> None:
    operator = OperatorFixture(**MODULES, restartNonce=3, suspend=False, restartPolicy={"successor": "AfterStop"})
    put_code(operator, "one")
    await operator.run()
    [(name, body)] = kept(operator, "revision").items()
    assert (name, body["immutable"]) == (operator.status["attempt"]["revision"], True)
    content = json.loads(body["data"][REVISION_KEY])
    assert content["image"] == "kafkaspark/sparkapp:1"
    assert content["spec"].keys() == {"image", "kafka", "source", "sink", "transform"}
    assert content["modules"] == operator.status["attempt"]["codeDigest"]
    owner = body["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == (names.KIND, "job-uid")


@pytest.mark.parametrize("edit", [{"parallelism": 3}, {"restartNonce": 1}], ids=["rescale", "restart"])
async def test_a_request_makes_no_revision(edit: dict[str, Any]) -> None:
    operator = OperatorFixture()
    await operator.run()
    before = operator.status["attempt"]["revision"]
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    assert operator.drivers == ["orders-2-driver"]
    assert operator.status["attempt"]["revision"] == before
    assert len(kept(operator, "revision")) == 1


async def test_a_change_that_is_taken_back_is_the_revision_of_before() -> None:
    operator = OperatorFixture()
    await operator.run()
    found = [operator.status["attempt"]["revision"]]
    for number, topic in ((1, "another"), (2, "enriched")):
        operator.kubernetes.edit_job(KEY, sink={"topic": topic})
        await operator.settle()
        operator.driver_ends(number, DRAINED)
        await operator.run(number + 1)
        found.append(operator.status["attempt"]["revision"])
    assert found[0] == found[2] != found[1]


async def test_a_restart_uses_the_copy_where_the_modules_are_gone() -> None:
    operator = OperatorFixture(**MODULES)
    put_code(operator, "one")
    await operator.run()
    del operator.kubernetes.objects["ConfigMap", KEY.namespace, "code"]
    await restarted(operator, 1)
    assert operator.drivers == ["orders-2-driver"]
    assert mounted(operator, 2)["data"] == {"a.py": "one"}


@pytest.mark.parametrize("policy", ["AfterStop", "BeforeStop"])
async def test_a_change_to_modules_that_do_not_exist_stops_nothing(policy: str) -> None:
    operator = OperatorFixture(**MODULES, restartPolicy={"successor": policy})
    put_code(operator, "one")
    await operator.run()
    other = {"python": {"function": "a:b", "configMapRef": {"name": "others"}}}
    operator.kubernetes.edit_job(KEY, transform=other)
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"]
    assert (operator.ready["status"], operator.ready["reason"]) == ("True", "RevisionRefused")
    assert "kubectl create configmap others -n team" in operator.kubernetes.condition(KEY, "Stalled")["message"]
    observation = operator.cache.observe(KEY)
    assert observation is not None
    await restarted(operator, 1)
    assert mounted(operator, 2)["data"] == {"a.py": "one"}, "the attempt that worked comes back with its copy"
    await operator.run(2)
    put_code(operator, "new", name="others")
    await CodeWatch(operator.kubernetes, operator.cache, operator.queue).look()
    await operator.settle()
    for number in (2, 3):
        if names.driver_pod(KEY.name, number + 1) in operator.drivers:
            operator.kubernetes.pod_runs(names.driver_pod(KEY.name, number + 1))
            operator.kubernetes.set_data(KEY, "orders-report", names.PREPARED_KEY, str(number + 1))
            await operator.settle()
        if names.driver_pod(KEY.name, number) in operator.drivers:
            operator.driver_ends(number, DRAINED)
            await operator.settle()
    assert mounted(operator, int(operator.status["attempt"]["id"]))["data"] == {"a.py": "new"}


async def test_modules_that_change_between_look_and_start_are_looked_at_again() -> None:
    operator = OperatorFixture(**MODULES)
    put_code(operator, "one")
    look = operator.kubernetes.get

    async def get(kind: str, namespace: str, name: str) -> Any:
        found = await look(kind, namespace, name)
        if name == "code":
            put_code(operator, "two")
        return found

    operator.kubernetes.get = get  # type: ignore[method-assign]
    await operator.settle()
    assert operator.drivers == ["orders-1-driver"]
    assert mounted(operator, 1)["data"] == {"a.py": "two"}


async def test_the_newest_revisions_are_kept_and_those_of_attempts() -> None:
    operator = OperatorFixture(**MODULES)
    put_code(operator, "0")
    await operator.run()
    for number in range(1, KEPT + 4):
        put_code(operator, str(number))
        operator.kubernetes.edit_job(KEY, sink={"topic": f"topic-{number}"})
        await operator.settle()
        operator.driver_ends(number, DRAINED)
        await operator.run(number + 1)
    revisions = kept(operator, "revision")
    assert operator.status["attempt"]["revision"] in revisions
    assert KEPT + 1 <= len(revisions) <= KEPT + 3
    assert len(kept(operator, "modules")) == len(revisions)
    assert mounted(operator, KEPT + 4)["data"] == {"a.py": str(KEPT + 3)}


@pytest.mark.parametrize("role", ["revision", "modules"])
async def test_a_foreign_object_under_the_name_of_a_copy_is_not_mounted(role: str) -> None:
    operator = OperatorFixture(**MODULES)
    put_code(operator, "one")
    await operator.run()
    [(name, body)] = kept(operator, role).items()
    operator.kubernetes.objects["ConfigMap", KEY.namespace, name] = {
        **body, "immutable": False, "data": {"a.py": "evil"}, "metadata": {**body["metadata"], "labels": {}},
    }  # fmt: skip
    operator.driver_ends(1, FAILED)
    await operator.settle()
    operator.wait(400)
    await operator.settle_or_refused()
    assert "orders-2-driver" not in operator.drivers
    assert operator.status["reason"] == "StartRefused"
    assert f"kubectl delete configmap {name} -n team" in operator.status["message"]


async def test_the_copy_needs_no_request_at_each_report() -> None:
    operator = OperatorFixture(**MODULES)
    put_code(operator, "one")
    await operator.run()
    observation = operator.cache.observe(KEY)
    assert observation is not None
    assert not plan(observation, operator.now).needs_live


async def test_an_attempt_of_an_earlier_release_continues_with_its_modules() -> None:
    operator = OperatorFixture(**MODULES)
    put_code(operator, "one")
    await operator.run()
    pod = operator.kubernetes.objects["Pod", KEY.namespace, "orders-1-driver"]
    for name in ("kafkaspark.io/revision", "kafkaspark.io/modules-source"):
        del pod["metadata"]["annotations"][name]
    next(each for each in pod["spec"]["volumes"] if each["name"] == "code")["configMap"]["name"] = "code"
    for role in ("revision", "modules"):
        [(name, _)] = kept(operator, role).items()
        del operator.kubernetes.objects["ConfigMap", KEY.namespace, name]
    operator.restart_operator()
    await operator.settle()
    assert operator.ready["reason"] == "Running"
    put_code(operator, "two")
    await operator.settle()
    assert operator.status["reason"] == "CodeChanged"
    operator.driver_ends(1, DRAINED)
    await operator.run(2)
    assert mounted(operator, 2)["data"] == {"a.py": "two"}
