"""The rights that the operator gives a driver."""

from __future__ import annotations

from typing import Any

from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture
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
    assert granted(operator_fixture, "secrets") == ["registry"]
    assert granted(operator_fixture, "configmaps") == ["settings"]
    assert granted(operator_fixture, "persistentvolumeclaims") == ["volume"]
    assert granted(operator_fixture, "serviceaccounts") == ["orders-executor"]
    assert granted(operator_fixture, "executorimages") == ["kafkaspark/sparkapp:1"]
    assert granted(operator_fixture, "kafkasparkjobs", "drive") == ["orders"]


async def test_a_role_names_what_the_executors_template_refers_to() -> None:
    operator_fixture = OperatorFixture(executor={"podTemplate": everything("executor")})
    await operator_fixture.look()
    assert granted(operator_fixture, "secrets") == ["lookup-keys"]
    assert granted(operator_fixture, "configmaps") == ["lookup-tables"]
    assert granted(operator_fixture, "persistentvolumeclaims") == ["model-files"]


async def test_the_executors_of_two_attempts_that_run_at_once_are_granted() -> None:
    operator_fixture = OperatorFixture(restartPolicy={"successor": "BeforeStop"}, imagePullSecrets=[{"name": "former"}])
    await operator_fixture.run()
    operator_fixture.kubernetes.edit_job(KEY, imagePullSecrets=[{"name": "latter"}])
    await operator_fixture.look()
    assert operator_fixture.drivers == ["orders-1-driver", "orders-2-driver"]
    assert granted(operator_fixture, "secrets") == ["former", "latter"]


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
