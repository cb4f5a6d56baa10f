"""The administrator's lists and defaults, with a real operator (docs/security.md)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafkasparkjob_operator.identity import ROLE_ATTEMPT, ROLE_MODULES, ROLE_REVISION, ROLE_SNAPSHOT
from sparkapp.model import names
from tests.support.kubernetes.admission_policies import AdmissionPolicies
from tests.support.kubernetes.api_client import ApiClient, ApiError, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.attacks import MERGE
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


def test_a_tenant_describes_no_attempt(api: ApiClient, place: Place, policies: AdmissionPolicies) -> None:
    group, tenant = "rbac.authorization.k8s.io", "a-tenant"
    base = f"/apis/{group}/v1/namespaces/{place.namespace}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
    name = {"apiVersion": f"{group}/v1", "metadata": {"name": tenant}}
    api.apply(f"{base}/roles/{tenant}", {**name, "kind": "Role", "rules": rules})
    reference = {"apiGroup": group, "kind": "Role", "name": tenant}
    subject = {"kind": "User", "apiGroup": group, "name": tenant}
    api.apply(
        f"{base}/rolebindings/{tenant}", {**name, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    )
    path = f"/api/v1/namespaces/{place.namespace}/configmaps"
    labels = {names.LABEL_ROLE: ROLE_ATTEMPT}

    def answer(method: str, path: str, body: Any) -> str:
        try:
            api.call(method, path, body, user=tenant, content_type=MERGE if method == "PATCH" else "application/json")
        except ApiError as error:
            return error.message
        return ""

    def config_map(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": dict(labels)}}

    await_that("the tenant may write", lambda: not answer("POST", path, config_map("orders-9-job", {})))
    refusal = "only the operator creates the ConfigMap of an attempt"
    forged = config_map("orders-8-job", labels)
    await_that("an attempt is refused", lambda: refusal in answer("POST", f"{path}?dryRun=All", forged))
    assert refusal in answer("POST", path, forged)
    for role in (ROLE_SNAPSHOT, ROLE_REVISION, ROLE_MODULES):
        assert refusal in answer("POST", path, config_map(f"orders-{role}", {names.LABEL_ROLE: role}))
    labelled = {"metadata": {"labels": labels}}
    assert refusal in answer("PATCH", f"{path}/orders-9-job", labelled)
    assert answer("PATCH", f"{path}/orders-9-job", {"data": {"k": "v"}}) == ""
    with policies.off():
        await_that("the policy is off", lambda: not answer("PATCH", f"{path}/orders-9-job", labelled))
    assert answer("PATCH", f"{path}/orders-9-job", {"metadata": {"ownerReferences": []}}) == ""
