"""The chart's admission policies on a real API server, which a test can switch off to show what they prevent."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.kubernetes.api_client import ApiClient, ApiError, await_that

_PATH = "/apis/admissionregistration.k8s.io/v1/{}"
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_OPERATOR = "system:serviceaccount:kafkaspark-system:kafkaspark-operator"
_POLICY = "kafkaspark-system-kafkaspark-operator-operator"
"""How names of the operator's own policies begin."""


def await_in_force(api: ApiClient) -> None:
    """Returns when each change of policies and bindings that was made by now is in force, deletions included.

    The API server compiles all that it knows together, and learns of changes in their order. So they are in force when
    a policy and a binding that are younger than all of them are.
    """
    name = f"probe-{uuid.uuid4().hex[:8]}"
    meta = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    validation = {"expression": f"object.metadata.name != '{name}'", "message": name}
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
    probe = [
        meta | {"kind": "ValidatingAdmissionPolicy", "spec": policy},
        meta
        | {"kind": "ValidatingAdmissionPolicyBinding", "spec": {"policyName": name, "validationActions": ["Deny"]}},
    ]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

    def refuses() -> bool:
        try:
            api.call("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", body)
        except ApiError as error:
            return name in error.message
        return False

    for manifest in probe:
        api.apply(_path(manifest), manifest)
    await_that("the policies are in force", refuses)
    for manifest in probe:
        api.call("DELETE", _path(manifest))


def _path(manifest: dict[str, Any]) -> str:
    return f"{_PATH.format(_PLURALS[manifest['kind']])}/{manifest['metadata']['name']}"


class AdmissionPolicies:
    """The policies and their bindings.

    :param manifests: of the whole chart.
    """

    def __init__(self, api: ApiClient, manifests: Iterable[dict[str, Any]]) -> None:
        self._api = api
        found = [each for each in manifests if each["kind"] in _PLURALS]
        self._operators = [each for each in found if each["metadata"]["name"].startswith(_POLICY)]
        self._manifests = [each for each in found if each not in self._operators]

    def enforce(self) -> None:
        """Installs them; returns when the API server refuses what they forbid."""
        for manifest in self._manifests:
            self._api.apply(_path(manifest), manifest)
        await_in_force(self._api)

    def confine_operator(self, name: str, account: str) -> None:
        """Installs the policy of an operator, for an operator of the tests."""
        for manifest in self._operators:
            text = json.dumps(manifest).replace(_OPERATOR, account)
            body = json.loads(text.replace(_POLICY, f"operator-{name}"))
            self._api.apply(_path(body), body)

    def remove(self) -> None:
        """Returns when they are no longer in force."""
        for manifest in self._manifests:
            self._api.call("DELETE", _path(manifest))
        await_in_force(self._api)

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Without the policies, until the block ends."""
        for manifest in self._manifests:
            if manifest["kind"].endswith("Binding"):
                self._api.call("DELETE", _path(manifest))
        await_in_force(self._api)
        try:
            yield
        finally:
            self.enforce()

    def warnings(self) -> list[dict[str, Any]]:
        """What the API server's type check says about the expressions."""
        found = [self._api.call("GET", _path(each)) for each in self._manifests if not each["kind"].endswith("ing")]
        return [
            warning
            for each in found
            for warning in each["status"].get("typeChecking", {}).get("expressionWarnings", [])
        ]
