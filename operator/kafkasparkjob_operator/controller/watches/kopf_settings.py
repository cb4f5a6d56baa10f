"""Settings of kopf, which carries lists and watches only (ADR 33).

Kopf writes nothing to a resource: no finalizer, no annotation, no event, no peering. The progress of a resource is
``status.observedGeneration`` against ``metadata.generation``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import kopf

from kafkasparkjob_operator.identity import ROLE_REPORT
from kafkasparkjob_operator.kubernetes.client import PAGE_ITEMS
from sparkapp.model import names

Kind = tuple[str, str, str]
"""Group, version and plural."""
RBAC = "rbac.authorization.k8s.io"
OF_JOBS: tuple[Kind, ...] = (
    (names.GROUP, names.VERSION, names.PLURAL), ("", "v1", "pods"), ("", "v1", "configmaps"), (RBAC, "v1", "roles"),
    (RBAC, "v1", "rolebindings"), ("networking.k8s.io", "v1", "networkpolicies"),
)  # fmt: skip
"""The kinds that jobs need. The operator is ready without the watch of snapshots."""
OF_SNAPSHOTS: Kind = (names.GROUP, names.VERSION, names.SNAPSHOT_PLURAL)
SERVER_SECONDS = 120
CLIENT_SECONDS = 150
CONNECT_SECONDS = 5
"""Each watch request ends after this time and is replaced (kopf issues 698 and 955)."""
INACTIVITY_SECONDS = 70
"""A watch without any event is replaced after this time. The API server sends a bookmark every 60 s, so a watch whose
connection has silently died is found."""
REQUEST_SECONDS = 60
ERROR_PAUSES = (1, 1, 2, 3)
"""Seconds between retries of a request while the API server is unavailable or refuses. After the last retry the watch
boundary logs it and retries (:mod:`~kafkasparkjob_operator.controller.watches.kopf_watch_patch`)."""


class _NoDiffBase(kopf.DiffBaseStorage):  # type: ignore[misc, unused-ignore]
    """Keeps no last-handled configuration on the resources."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        """Nothing is kept."""


class _NoProgress(kopf.ProgressStorage):  # type: ignore[misc, unused-ignore]
    """Keeps no handler progress on the resources."""

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        """Nothing is kept."""

    def purge(self, **_: Any) -> None:
        """Nothing was kept."""

    def touch(self, **_: Any) -> None:
        """Nothing is touched."""

    def clear(self, *, essence: Any) -> Any:
        return essence


def watch_settings() -> kopf.OperatorSettings:
    """Kopf's settings; called once, when the operator is put together."""
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = SERVER_SECONDS
    settings.watching.client_timeout = CLIENT_SECONDS
    settings.watching.connect_timeout = CONNECT_SECONDS
    settings.watching.chunk_size = PAGE_ITEMS
    settings.watching.inactivity_timeout = INACTIVITY_SECONDS
    settings.watching.label_selectors["", "v1", "pods"] = names.LABEL_JOB
    for plural in ("roles", "rolebindings"):
        settings.watching.label_selectors[RBAC, "v1", plural] = names.LABEL_JOB
    settings.watching.label_selectors["networking.k8s.io", "v1", "networkpolicies"] = names.LABEL_JOB
    settings.watching.label_selectors["", "v1", "configmaps"] = f"{names.LABEL_JOB},{names.LABEL_ROLE}={ROLE_REPORT}"
    settings.networking.request_timeout = REQUEST_SECONDS
    settings.networking.connect_timeout = CONNECT_SECONDS
    settings.networking.error_backoffs = ERROR_PAUSES
    settings.posting.enabled = False
    # Scanning would watch CRDs and namespaces, which needs rights on the whole cluster.
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.persistence.progress_storage = _NoProgress()
    return settings


def watches_of(kinds: Iterable[Kind]) -> kopf.OperatorRegistry:
    """Kopf's registry for the watches of these kinds; called once, when the operator is put together.

    Kopf watches what has a handler. It calls none, because the boundary keeps the events
    (:mod:`~kafkasparkjob_operator.controller.watches.kopf_watch_patch`).
    """
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_via_client)
    for group, version, plural in kinds:
        kopf.on.event(group, version, plural, registry=registry)(_watched)
    return registry


async def _watched(**_: Any) -> None:
    """Stands for the boundary's handler."""
