"""A snapshot on a real API server."""

from __future__ import annotations

from typing import Any

from sparkapp.model import names
from tests.support.kubernetes.api_client import SNAPSHOTS, ApiClient, await_that


class LiveSnapshot:
    """One snapshot."""

    def __init__(self, api: ApiClient, namespace: str, name: str = "before") -> None:
        self.api, self.namespace, self.name = api, namespace, name
        self.path = f"{SNAPSHOTS.format(namespace)}/{name}"

    def create(self, job: str = "orders") -> dict[str, Any]:
        body = {
            "apiVersion": f"{names.GROUP}/{names.VERSION}",
            "kind": names.SNAPSHOT_KIND,
            "metadata": {"name": self.name},
            "spec": {"jobRef": {"name": job}},
        }
        return self.api.call("POST", f"{SNAPSHOTS.format(self.namespace)}?fieldValidation=Strict", body)

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.api.call("GET", self.path).get("status") or {})

    def condition(self, kind: str) -> str:
        """Its status; empty where there is none yet."""
        found = (each for each in self.status.get("conditions") or () if each["type"] == kind)
        return str(next(found, {}).get("status", ""))

    def await_state(self, state: str, *, reason: str) -> dict[str, Any]:
        def there() -> bool:
            return (self.status.get("state"), self.status.get("reason")) == (state, reason)

        await_that(f"snapshot {state} {reason}", there, seconds=60)
        return self.status

    def config_map(self) -> dict[str, Any]:
        return self.api.call(
            "GET", f"/api/v1/namespaces/{self.namespace}/configmaps/{self.status['configMap']['name']}"
        )
