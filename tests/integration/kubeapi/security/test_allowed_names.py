"""The administrator's lists and defaults, with a real operator (docs/security.md)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.kubernetes.api_client import ApiClient, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_fixture import DRAINED
from tests.support.kubernetes.operator_process import OperatorProcess, Place


def with_secret(name: str) -> dict[str, Any]:
    reference = {"secretKeyRef": {"name": name, "key": "k"}}
    return {"executor": {"env": [{"name": "A", "valueFrom": reference}]}}


@pytest.fixture
def other(place: Place, make_namespace: Callable[[str, str], None]) -> str:
    """Another tenant's namespace, which the same operator watches."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    make_namespace(name, f"system:serviceaccount:{place.namespace}:operator")
    return name


def test_a_job_refers_to_allowed_names_only(
    api: ApiClient, place: Place, other: str, start_operator: Callable[..., OperatorProcess]
) -> None:
    start_operator(
        watch_namespaces=f"{place.namespace},{other}",
        allowed_names=json.dumps({"secrets": ["shared-*"], "namespaces": {other: {"secrets": ["of-other"]}}}),
        driver_pod_template=json.dumps({"spec": {"nodeSelector": {"pool": "streaming"}}}),
    ).await_leading()
    mine, refused = LiveJob(api, place.namespace, "mine"), LiveJob(api, place.namespace, "refused")
    theirs = LiveJob(api, other, "theirs")
    mine.create(**with_secret("shared-a"))
    refused.create(**with_secret("of-other"))
    theirs.create(**with_secret("of-other"))
    assert mine.await_driver(1, hold=False)["spec"]["nodeSelector"] == {"pool": "streaming"}
    theirs.await_driver(1, hold=False)
    refused.await_state("Failed", reason="InvalidSpec")
    condition = refused.condition("ConfigValid")
    assert (condition["status"], condition["reason"]) == ("False", "NameNotAllowed")
    assert condition["message"].startswith(f"Secret 'of-other' is not allowed in namespace {place.namespace}; name")
    assert other not in str(refused.status)
    assert refused.pods == []
    refused.edit(**with_secret("shared-b"))
    refused.await_driver(1, hold=False)


def test_a_narrowed_list_refuses_the_next_attempt(
    api: ApiClient, place: Place, start_operator: Callable[..., OperatorProcess]
) -> None:
    first = start_operator()
    first.await_leading()
    job = LiveJob(api, place.namespace, "orders")
    job.create()
    job.run(1)
    first.stop()
    start_operator(allowed_names=json.dumps({"images": ["registry.example.com/*"]})).await_leading()
    await_that("the refusal is shown", lambda: job.condition("ConfigValid")["reason"] == "NameNotAllowed")
    assert job.status["state"] == "Running"
    job.edit(suspend=True)
    job.await_deletion(1)
    job.ends(1, DRAINED, code=0, reason="Completed")
    job.release(1)
    job.await_state("Suspended")
    job.edit(suspend=False)
    job.await_state("Failed", reason="InvalidSpec")
    assert job.pods == []
