"""A label selector of namespaces: the operator knows no job elsewhere."""

from __future__ import annotations

from kafkasparkjob_operator.controller.watches.namespaces import SelectedNamespaces
from tests.support.kubernetes.operator_fixture import KEY, OperatorFixture


def selected(operator_fixture: OperatorFixture, selector: str) -> SelectedNamespaces:
    return SelectedNamespaces(operator_fixture.kubernetes, operator_fixture.cache, operator_fixture.queue, selector)


def label(operator_fixture: OperatorFixture, **labels: str) -> None:
    body = {"kind": "Namespace", "metadata": {"name": KEY.namespace, "namespace": "", "labels": labels}}
    operator_fixture.kubernetes.objects["Namespace", "", KEY.namespace] = body


async def test_without_a_selector_every_namespace_is_included() -> None:
    namespaces = selected(OperatorFixture(), "")
    await namespaces.look()
    assert namespaces.includes("any")


async def test_the_jobs_of_a_namespace_come_and_go_with_its_label() -> None:
    operator_fixture = OperatorFixture()
    namespaces = selected(operator_fixture, "jobs=enabled")
    label(operator_fixture, jobs="disabled")
    await namespaces.look()
    assert not namespaces.includes(KEY.namespace)
    assert operator_fixture.cache.keys == []
    label(operator_fixture, jobs="enabled")
    await namespaces.look()
    assert namespaces.includes(KEY.namespace)
    assert operator_fixture.cache.keys == [KEY]
    assert len(operator_fixture.queue) == 1
    label(operator_fixture)
    await namespaces.look()
    assert operator_fixture.cache.keys == []
