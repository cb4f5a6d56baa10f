"""The few questions the tool asks the API server, without any client library."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from localcluster.settings import NODE_NAME

_TIMEOUT_SECONDS = 5.0


class KubeApi:
    """Reads from the API server as the administrator."""

    def __init__(self, url: str, pki: Path) -> None:
        """``pki``: the folder with the administrator's certificate; it need not be there yet."""
        self._url = url
        self._pki = pki

    def get(self, path: str) -> Any:
        """The decoded answer to a read of ``path``.

        :raises OSError: no answer, or an answer that refuses.
        """
        with self._open(path) as answer:
            return json.load(answer)

    def is_ready(self) -> bool:
        """Whether the server says that it is ready to serve."""
        try:
            with self._open("/readyz") as answer:
                return bool(answer.status == 200)
        except (OSError, HTTPException):
            return False

    def node_is_ready(self, *, since: datetime | None = None, name: str = NODE_NAME) -> bool:
        """Whether the node has joined and takes pods, as it said itself after ``since``.

        Without ``since`` the answer may be what the node said before it was stopped.
        """
        try:
            node = self.get(f"/api/v1/nodes/{name}")
        except (OSError, HTTPException):
            return False
        conditions = node.get("status", {}).get("conditions", [])
        tainted = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))
        return not tainted and any(
            each["type"] == "Ready"
            and each["status"] == "True"
            and (since is None or datetime.fromisoformat(each["lastHeartbeatTime"]) >= since)
            for each in conditions
        )

    def has_default_service_account(self) -> bool:
        """Whether pods can be created in the namespace ``default``: its service account comes a moment later."""
        try:
            self.get("/api/v1/namespaces/default/serviceaccounts/default")
        except (OSError, HTTPException):
            return False
        return True

    def _open(self, path: str) -> Any:
        context = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        context.load_cert_chain(self._pki / "admin.crt", self._pki / "admin.key")
        handler = urllib.request.HTTPSHandler(context=context)
        # No proxy from the environment: the server is on this machine.
        opener = urllib.request.build_opener(handler, urllib.request.ProxyHandler({}))
        return opener.open(f"{self._url}{path}", timeout=_TIMEOUT_SECONDS)
