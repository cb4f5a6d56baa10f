"""Canaries in every Secret of a job are in no other object, no log and no metric; the test plays driver and kubelet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkapp.model import names
from sparkapp.model.errors import AuthenticationFailed
from sparkapp.model.report import Termination, termination_of
from tests.support.kubernetes.api_client import ApiClient
from tests.support.kubernetes.api_server_job import LiveJob
from tests.support.kubernetes.canaries import Canaries, text_of
from tests.support.kubernetes.operator_fixture import DRAINED
from tests.support.kubernetes.operator_process import OperatorProcess, Place

CANARIES = Canaries(
    {"kafka": ("password", "ca.crt"), "registry": ("password", "ca.crt"), "shop": ("api-key",), "pull": ("x",)}
)
SPEC: dict[str, Any] = {
    "kafka": {
        "bootstrapServers": "kafka:9093",
        "tls": {"trustedCertificates": [{"secretName": "kafka", "certificate": "ca.crt"}]},
        "authentication": {
            "type": "scram-sha-512", "username": "orders",
            "passwordSecret": {"secretName": "kafka", "password": "password"},
        },
    },
    "source": {
        "topics": ["orders"],
        "format": {"value": "avro"},
        "schemaRegistry": {
            "url": "https://registry:8081",
            "authentication": {
                "type": "basic", "username": "orders",
                "passwordSecret": {"secretName": "registry", "password": "password"},
            },
            "tls": {"trustedCertificates": [{"secretName": "registry", "certificate": "ca.crt"}]},
        },
    },
    "imagePullSecrets": [{"name": "pull"}],
    "driver": {"env": [{"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "api-key"}}}]},
    "executor": {"env": [{"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "shop", "key": "api-key"}}}]},
    "restartPolicy": {"backoff": {"initialSeconds": 0}},
}  # fmt: skip
KINDS = (
    "/api/v1/namespaces/{}/pods", "/api/v1/namespaces/{}/configmaps", "/api/v1/namespaces/{}/events",
    "/api/v1/namespaces/{}/serviceaccounts", "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{{}}/{names.PLURAL}",
)  # fmt: skip


@pytest.fixture
def secrets(api: ApiClient, place: Place) -> None:
    for secret in CANARIES.manifests():
        api.call("POST", f"/api/v1/namespaces/{place.namespace}/secrets", secret)


def everything(api: ApiClient, place: Place, operator: OperatorProcess) -> dict[str, str]:
    """All objects of the namespace but its Secrets, and what the operator shows of itself."""
    found = {kind: text_of(api.items(kind.format(place.namespace))) for kind in KINDS}
    return found | {"log": operator.log, "metrics": operator.read("/metrics")} | operator.of_process()


def test_canaries_of_secrets_stay_in_their_secrets(
    api: ApiClient, place: Place, secrets: None, start_operator: Callable[..., OperatorProcess], tmp_path: Path
) -> None:
    operator = start_operator(log_level="DEBUG")
    operator.await_leading()
    job = LiveJob(api, place.namespace)
    job.create(**SPEC)
    refused = termination_of(AuthenticationFailed("the brokers refused the login of user orders"))
    crash: Termination | None = None
    seen: list[dict[str, str]] = []
    for attempt, ending in ((1, refused), (2, crash), (3, DRAINED)):
        job.run(attempt, hold=False)
        job.add_executor(attempt)
        seen.append(everything(api, place, operator))
        if ending is DRAINED:
            job.checkpoint(attempt, 31, drained=True)
            job.edit(suspend=True)
            job.await_state("Suspended")
        else:
            job.ends(attempt, ending, code=1 if ending else 137)
            job.await_driver(attempt + 1, hold=False)
        seen.append(everything(api, place, operator))
    assert [CANARIES.leaks(parts) for parts in seen] == [[]] * len(seen)
    secrets_path = f"/api/v1/namespaces/{place.namespace}/secrets"
    assert CANARIES.leaks({"the search": text_of(api.items(secrets_path))}) == ["the search"]
    pods = json.dumps([parts["/api/v1/namespaces/{}/pods"] for parts in seen])
    assert all(f'\\"{secret}\\"' in pods or f'"{secret}"' in pods for secret in CANARIES.secrets), (
        "the pods name every Secret"
    )
    assert "AuthenticationFailed" in "".join(parts["/api/v1/namespaces/{}/events"] for parts in seen)
