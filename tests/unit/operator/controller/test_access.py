"""The rights that the operator gives a driver, the ConfigMaps that it writes, and the NetworkPolicies of its job."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kafkasparkjob_operator.settings import NetworkRules
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture, secret_name
from tests.support.kubernetes.pod_templates import everything


def granted(operator_fixture: OperatorFixture, resource: str, verb: str = "use") -> list[str]:
    rules: list[dict[str, Any]] = operator_fixture.kubernetes.objects["Role", KEY.namespace, "orders-driver"]["rules"]
    return [
        name
        for rule in rules
        if rule["resources"] == [resource] and rule["verbs"] == [verb]
        for name in rule["resourceNames"]
    ]


async def test_a_role_names_what_the_executors_refer_to() -> None:
    operator_fixture = OperatorFixture(
        imagePullSecrets=[{"name": "registry"}],
        executor={"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]},
        checkpoint={"stateVolume": {"claimName": "volume"}},
    )
    await operator_fixture.look()
    assert granted(operator_fixture, "secrets") == [secret_name(1), "registry"]
    assert granted(operator_fixture, "configmaps") == ["settings"]
    assert granted(operator_fixture, "persistentvolumeclaims") == ["volume"]
    assert granted(operator_fixture, "serviceaccounts") == ["orders-executor"]
    assert granted(operator_fixture, "executorimages") == ["kafkaspark/sparkapp:1"]
    assert granted(operator_fixture, "kafkasparkjobs", "drive") == ["orders"]


async def test_a_role_names_what_the_executors_template_refers_to() -> None:
    operator_fixture = OperatorFixture(executor={"podTemplate": everything("executor")})
    await operator_fixture.look()
    assert granted(operator_fixture, "secrets") == ["lookup-keys", secret_name(1), "service-keys"]
    assert granted(operator_fixture, "configmaps") == ["limits", "lookup-tables"]
    assert granted(operator_fixture, "persistentvolumeclaims") == ["model-files"]
    (text,) = granted(operator_fixture, "executormetadata")
    assert text.splitlines()[1:4] == [
        "label team=data", "annotation example.com/owner=data@example.com", "nodeSelector disk=ssd",
    ]  # fmt: skip


async def test_the_executors_of_two_attempts_that_run_at_once_are_granted() -> None:
    operator_fixture = OperatorFixture(
        restartPolicy={"successor": "BeforeStop"}, imagePullSecrets=[{"name": "earlier"}]
    )
    await operator_fixture.run()
    operator_fixture.kubernetes.edit_job(KEY, imagePullSecrets=[{"name": "later"}])
    await operator_fixture.look()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    assert granted(operator_fixture, "secrets") == ["earlier", "later", secret_name(1), secret_name(2)]


async def test_a_binding_to_another_role_is_replaced() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    binding = operator_fixture.kubernetes.objects["RoleBinding", KEY.namespace, "orders-driver"]
    binding["roleRef"]["name"] = "cluster-admin"
    operator_fixture.driver_ends(1, None)
    await operator_fixture.settle()
    operator_fixture.wait(5)
    await operator_fixture.settle()
    binding = operator_fixture.kubernetes.objects["RoleBinding", KEY.namespace, "orders-driver"]
    assert binding["roleRef"]["name"] == "orders-driver"


async def test_a_change_by_somebody_is_repaired_at_once() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    role = operator_fixture.kubernetes.objects["Role", KEY.namespace, "orders-driver"]
    rules = role["rules"]
    role["rules"] = [*rules, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await operator_fixture.reconciler.reconcile(KEY)
    assert role["rules"] != rules, "the cache is enough, and it knows of no change"
    operator_fixture.cache.access_changed(KEY)
    await operator_fixture.reconciler.reconcile(KEY)
    assert operator_fixture.kubernetes.objects["Role", KEY.namespace, "orders-driver"]["rules"] == rules
    assert operator_fixture.kubernetes.writes.count(("apply", "Role", "orders-driver")) == 1
    await operator_fixture.look()
    assert operator_fixture.kubernetes.writes.count(("apply", "Role", "orders-driver")) == 1


async def test_a_role_of_somebody_else_is_left_alone_and_stops_no_running_job() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    foreign = {"kind": "Role", "metadata": {"name": "orders-driver", "namespace": KEY.namespace, "uid": "x"}}
    operator_fixture.kubernetes.objects["Role", KEY.namespace, "orders-driver"] = foreign
    await operator_fixture.look()
    assert operator_fixture.kubernetes.objects["Role", KEY.namespace, "orders-driver"] is foreign
    assert operator_fixture.status["state"] == "Running"


RULES: NetworkRules = {
    "driver": {"ingress": [{"ports": [{"port": "metrics"}]}], "egress": [{"to": [{"namespaceSelector": {}}]}]},
    "executor": {"egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}]},
}
BOTH = ("orders-driver", "orders-executor")


def policies(operator_fixture: OperatorFixture) -> dict[str, Any]:
    found = {name: operator_fixture.kubernetes.objects.get(("NetworkPolicy", KEY.namespace, name)) for name in BOTH}
    return {name: copy.deepcopy(body["spec"]) for name, body in found.items() if body is not None}


async def with_policies() -> OperatorFixture:
    operator_fixture = OperatorFixture()
    operator_fixture.restart_operator(network_rules=RULES)
    await operator_fixture.run()
    return operator_fixture


async def test_policies_admit_the_jobs_own_pods_and_the_administrators_rules() -> None:
    own = [{"podSelector": {"matchLabels": {"kafkaspark.io/job": "orders"}}}]
    driver, executor = policies(await with_policies()).values()
    assert driver == {
        "podSelector": {"matchLabels": {"kafkaspark.io/job": "orders", "kafkaspark.io/role": "driver"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": own}, {"ports": [{"port": "metrics", "protocol": "TCP"}]}],
        "egress": [{"to": own}, {"to": [{"namespaceSelector": {}}]}],
    }
    assert executor == {
        "podSelector": {"matchLabels": {"kafkaspark.io/job": "orders", "kafkaspark.io/role": "executor"}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": own}],
        "egress": [{"to": own}, {"ports": [{"port": 53, "protocol": "UDP"}]}],
    }


async def test_policies_exist_before_the_driver() -> None:
    writes = (await with_policies()).kubernetes.writes
    driver = writes.index(("create", "Pod", "orders-1-driver"))
    assert all(writes.index(("create", "NetworkPolicy", name)) < driver for name in BOTH)


async def test_changed_and_deleted_policies_are_restored() -> None:
    operator_fixture = await with_policies()
    before = policies(operator_fixture)
    objects = operator_fixture.kubernetes.objects
    objects["NetworkPolicy", KEY.namespace, "orders-driver"]["spec"]["ingress"] = [{}]
    del objects["NetworkPolicy", KEY.namespace, "orders-executor"]
    operator_fixture.cache.access_changed(KEY)
    await operator_fixture.reconciler.reconcile(KEY)
    assert policies(operator_fixture) == before
    written = len(operator_fixture.kubernetes.writes)
    await operator_fixture.look()
    assert len(operator_fixture.kubernetes.writes) == written


async def test_policies_are_repaired_next_to_a_role_of_somebody_else() -> None:
    operator_fixture = await with_policies()
    objects = operator_fixture.kubernetes.objects
    foreign = {"kind": "Role", "metadata": {"name": "orders-driver", "namespace": KEY.namespace, "uid": "x"}}
    objects["Role", KEY.namespace, "orders-driver"] = foreign
    del objects["NetworkPolicy", KEY.namespace, "orders-executor"]
    await operator_fixture.look()
    assert list(policies(operator_fixture)) == list(BOTH)


async def test_policies_are_deleted_when_they_are_switched_off() -> None:
    operator_fixture = await with_policies()
    tenants = {
        "kind": "NetworkPolicy",
        "metadata": {"name": BOTH[1], "namespace": KEY.namespace, "uid": "x"},
        "spec": {},
    }
    operator_fixture.kubernetes.objects["NetworkPolicy", KEY.namespace, BOTH[1]] = tenants
    operator_fixture.restart_operator()
    await operator_fixture.look()
    assert policies(operator_fixture) == {BOTH[1]: {}}, "the policy that the job does not own stays"
    assert operator_fixture.status["state"] == "Running"


@pytest.mark.parametrize("name", ["orders-report", "orders-checkpoints"])
async def test_a_config_map_of_the_driver_that_is_gone_is_created_again(name: str) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    del operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, name]
    await operator_fixture.look()
    made = operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, name]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert made["data"] == {}
    written = len(operator_fixture.kubernetes.writes)
    await operator_fixture.look(2)
    assert len(operator_fixture.kubernetes.writes) == written, "an object that is as it should be is left alone"


async def test_a_report_that_is_gone_is_repaired_at_once() -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    del operator_fixture.kubernetes.objects["ConfigMap", KEY.namespace, "orders-report"]
    operator_fixture.cache.drop_report(KEY)
    await operator_fixture.reconciler.reconcile(KEY)
    operator_fixture.report(1, checkpoint_id=12)
    await operator_fixture.settle()
    assert (operator_fixture.status["state"], operator_fixture.ready["status"]) == ("Running", "True")
    assert operator_fixture.status["checkpoint"]["id"] == 12


@pytest.mark.parametrize(("kind", "name"), [("Role", "orders-driver"), ("ConfigMap", "orders-report")])
async def test_an_object_of_a_deleted_job_does_not_hold_up_a_running_job(kind: str, name: str) -> None:
    operator_fixture = OperatorFixture()
    await operator_fixture.run()
    owner = operator_fixture.kubernetes.objects[kind, KEY.namespace, name]["metadata"]["ownerReferences"][0]
    owner["uid"] = "previous"
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    await operator_fixture.look()
    assert operator_fixture.status["state"] == "Suspending"
