"""Transactional id prefixes belong to namespaces (docs/security.md)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest

from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import OperatorProcess, Place


@pytest.fixture
def other(place: Place, make_namespace: Callable[[str, str], None]) -> str:
    """Another tenant's namespace, which the same operator watches."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    make_namespace(name, f"system:serviceaccount:{place.namespace}:operator")
    return name


def texts(job: LiveJob) -> str:
    """Everything that the tenant of the job can read about it."""
    found = job.api.items(f"/api/v1/namespaces/{job.namespace}/events")
    return f"{job.status} {[(each['metadata']['name'], each['message']) for each in found]}"


def test_a_suspended_job_that_never_ran_blocks_nobody(
    api: ApiClient, place: Place, other: str, start_operator: Callable[..., OperatorProcess]
) -> None:
    victim = LiveJob(api, place.namespace)
    squatter = LiveJob(api, other, "squatter")
    squatter.create(suspend=True, sink={"transactions": {"idPrefix": f"{place.namespace}.orders"}})
    start_operator(watch_namespaces=f"{place.namespace},{other}").await_leading()
    squatter.await_state("Suspended")
    victim.create()
    victim.run(1)
    squatter.edit(suspend=False)
    squatter.await_state("Failed", reason="PrefixNotAllowed")
    assert place.namespace not in texts(squatter).replace(f"{place.namespace}.orders", "")
    assert squatter.pods == []


def test_the_administrator_allows_a_prefix_and_a_refusal_names_no_other_namespace(
    api: ApiClient, place: Place, other: str, start_operator: Callable[..., OperatorProcess]
) -> None:
    start_operator(
        watch_namespaces=f"{place.namespace},{other}",
        transactional_id_prefixes=json.dumps({place.namespace: ["legacy"], other: ["legacy"]}),
    ).await_leading()
    first, second = LiveJob(api, place.namespace, "first"), LiveJob(api, other, "second")
    first.create(sink={"transactions": {"idPrefix": "legacy.orders"}})
    first.run(1)
    second.create(sink={"transactions": {"idPrefix": "legacy.orders"}})
    second.await_state("Failed", reason="PrefixInUse")
    assert "first" not in texts(second)
    assert place.namespace not in texts(second)
    api.call("DELETE", first.path)
    await_that("the second job starts", lambda: second.pods, seconds=90)
