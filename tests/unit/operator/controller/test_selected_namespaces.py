"""A label selector of namespaces: the operator knows no job elsewhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kafkasparkjob_operator.controller.watches.namespaces import SelectedNamespaces
from kafkasparkjob_operator.kubernetes.port import ClusterError
from tests.support.kubernetes.api_client import REPOSITORY
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, OperatorFixture


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


async def test_nothing_is_done_in_a_namespace_that_is_not_selected_any_more() -> None:
    """Another operator may have it now. The job has a timer, or a worker has it at the moment."""
    operator_fixture = OperatorFixture()
    namespaces = selected(operator_fixture, "jobs=enabled")
    operator_fixture.reconciler._includes = namespaces.includes
    label(operator_fixture, jobs="enabled")
    await namespaces.look()
    await operator_fixture.settle()
    operator_fixture.queue.add_after(KEY, 0.01)
    label(operator_fixture)
    await namespaces.look()
    operator_fixture.kubernetes.edit_job(KEY, suspend=True)
    before = list(operator_fixture.kubernetes.writes)
    operator_fixture.queue.add(KEY)  # as the worker would that had it
    worker = asyncio.create_task(operator_fixture.reconciler.work())
    await asyncio.sleep(0.1)
    worker.cancel()
    assert operator_fixture.kubernetes.writes == before
    assert operator_fixture.cache.keys == []


async def test_a_job_that_was_deleted_meanwhile_goes_when_its_namespace_is_selected_again() -> None:
    """Until then its finalizer stays: the operator does not act where another operator may."""
    operator_fixture = OperatorFixture(sink={"topic": "enriched", "transactions": {"timeoutSeconds": 0}})
    namespaces = selected(operator_fixture, "jobs=enabled")
    label(operator_fixture, jobs="enabled")
    await namespaces.look()
    await operator_fixture.run()
    label(operator_fixture)
    await namespaces.look()
    operator_fixture.kubernetes.delete_job(KEY)
    assert operator_fixture.kubernetes.has_job(KEY)
    label(operator_fixture, jobs="enabled")
    await namespaces.look()
    assert len(operator_fixture.queue) == 1
    await operator_fixture.settle()
    operator_fixture.checkpoint(1, 11, drained=True)
    operator_fixture.driver_ends(1, DRAINED)
    await operator_fixture.settle()
    assert not operator_fixture.kubernetes.has_job(KEY)


async def test_a_namespace_whose_jobs_could_not_be_listed_is_added_later(monkeypatch: pytest.MonkeyPatch) -> None:
    operator_fixture = OperatorFixture()
    namespaces = selected(operator_fixture, "jobs=enabled")
    label(operator_fixture, jobs="enabled")

    async def refused(_: str | None) -> AsyncIterator[list[dict[str, Any]]]:
        msg = "no answer"
        raise ClusterError(msg)
        yield []

    other = {"kind": "Namespace", "metadata": {"name": "a", "namespace": "", "labels": {"jobs": "enabled"}}}
    operator_fixture.kubernetes.objects["Namespace", "", "a"] = other
    listed = operator_fixture.kubernetes.list_jobs

    with monkeypatch.context() as patched:
        patched.setattr(
            operator_fixture.kubernetes, "list_jobs", lambda name: (refused if name == "a" else listed)(name)
        )
        with pytest.raises(ClusterError):
            await namespaces.look()
        assert (namespaces.includes("a"), namespaces.includes(KEY.namespace)) == (False, True)
    label(operator_fixture)
    await namespaces.look()
    label(operator_fixture, jobs="enabled")

    with monkeypatch.context() as patched:
        patched.setattr(operator_fixture.kubernetes, "list_jobs", refused)
        with pytest.raises(ClusterError):
            await namespaces.look()
    assert not namespaces.includes(KEY.namespace)
    await namespaces.look()
    assert namespaces.includes(KEY.namespace)
    assert operator_fixture.cache.keys == [KEY]


def test_the_operators_policy_takes_no_missing_label_for_an_empty_one() -> None:
    """A selector may want a label with an empty value; a namespace without the label has not that value."""
    policy = REPOSITORY / "charts/kafkaspark-operator/templates/operator-policy.yaml"
    text = " ".join(policy.read_text(encoding="utf-8").split())
    assert "namespaceObject.metadata.?labels[?'{{ $key }}'] == optional.of('{{ $value }}')" in text
    defaults = re.findall(r"\.orValue\(''\) == ([^()&|]+)", text)
    assert len(defaults) >= 2
    # Never equal to the empty default: a text, or a value with a text at its end.
    assert [value for value in defaults if not re.search(r"'[^'{]+' ?$", value)] == []
