"""Requests to the API server, without a client library."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from localcluster.settings import NODE_NAME

_TIMEOUT_SECONDS = 5.0


class KubeApi:
    """Requests to the API server as the administrator."""

    def __init__(self, url: str, pki: Path) -> None:
        """``pki``: the folder with the administrator's certificate, which may not exist yet."""
        self._url = url
        self._pki = pki

    def get(self, path: str) -> Any:
        """The decoded answer to a GET of ``path``.

        :raises OSError: no answer, or an error status.
        """
        with self._open(path) as answer:
            return json.load(answer)

    def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Creates an object in the collection of ``path``.

        :raises OSError: no answer, or an error status.
        """
        with self._open(f"{path}?fieldValidation=Strict", body=body, method="POST"):
            pass

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        """Merges a change into the object of ``path``; None removes a field.

        :raises OSError: no answer, or an error status.
        """
        with self._open(path, body=change, method="PATCH"):
            pass

    def is_ready(self) -> bool:
        """Whether the server reports that it is ready."""
        try:
            with self._open("/readyz") as answer:
                return bool(answer.status == 200)
        except (OSError, HTTPException):
            return False

    def node_is_ready(self, *, since: datetime | None = None, name: str = NODE_NAME) -> bool:
        """Whether the node accepts pods, by a heartbeat of ``since`` or later.

        Without ``since`` the heartbeat may be from before the node was stopped.
        """
        try:
            node = self.get(f"/api/v1/nodes/{name}")
        except (OSError, HTTPException):
            return False
        conditions = node.get("status", {}).get("conditions", [])
        tainted = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))
        return not tainted and any(
            condition["type"] == "Ready"
            and condition["status"] == "True"
            and (since is None or datetime.fromisoformat(condition["lastHeartbeatTime"]) >= since)
            for condition in conditions
        )

    def has_default_service_account(self) -> bool:
        """Whether the namespace ``default`` has its service account, without which no pod can be created there."""
        try:
            self.get("/api/v1/namespaces/default/serviceaccounts/default")
        except (OSError, HTTPException):
            return False
        return True

    def _open(self, path: str, *, body: Mapping[str, Any] | None = None, method: str = "GET") -> Any:
        context = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        handler = urllib.request.HTTPSHandler(context=context)
        # No proxy from the environment: the server is on this machine.
        opener = urllib.request.build_opener(handler, urllib.request.ProxyHandler({}))
        request = urllib.request.Request(  # noqa: S310 - the address is this program's
            f"{self._url}{path}", method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"},
        )  # fmt: skip
        return opener.open(request, timeout=_TIMEOUT_SECONDS)
