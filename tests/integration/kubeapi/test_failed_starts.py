"""A webhook that must be asked and does not answer: the job's resource says so, and the start is made up for."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support.kubernetes.api_client import ApiClient, ApiError, await_that
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.operator_process import Running

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def webhook(api: ApiClient, running: Running) -> Iterator[str]:
    """One for this namespace's pods, at an address where nobody listens."""
    name = f"down-{uuid.uuid4().hex[:6]}"
    selector = {"matchLabels": {"kubernetes.io/metadata.name": running.place.namespace}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    hook = {
        "name": "policy.example.com", "clientConfig": {"url": "https://127.0.0.1:9/"}, "rules": [rule],
        "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "namespaceSelector": selector,
    }  # fmt: skip
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    api.call("POST", WEBHOOKS, {**body, "metadata": {"name": name}, "webhooks": [hook]})
    await_that("the API server asks it", lambda: _asked(api, running.place.namespace))
    yield name
    if api.get(f"{WEBHOOKS}/{name}") is not None:
        api.call("DELETE", f"{WEBHOOKS}/{name}")


def test_a_webhook_that_is_down_is_named_and_uses_up_no_attempt(api: ApiClient, running: Running, webhook: str) -> None:
    job = LiveJob(api, running.place.namespace, f"orders-{uuid.uuid4().hex[:6]}")
    job.create()
    status = job.await_state("Pending", reason="StartRefused")
    assert 'failed calling webhook "policy.example.com"' in status["message"]
    assert job.condition("Ready")["status"] == "False"
    assert ("StartRefused", 1) in job.events
    api.call("DELETE", f"{WEBHOOKS}/{webhook}")
    job.run(1)


def _asked(api: ApiClient, namespace: str) -> bool:
    security = {
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    pod = {
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "x", "image": "x", "securityContext": security}]},
    }
    try:
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)
    except ApiError as error:
        return "failed calling webhook" in error.message
    return False
