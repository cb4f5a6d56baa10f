"""Finds what was deleted while a watch was interrupted, by comparing each list with what the watch told before.

A watch that continues after a gap begins with a list (Kubernetes' list-watch contract). The list has no entry for what
is gone, and no DELETED event follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_METADATA = ("namespace", "name", "uid", "resourceVersion", "labels")

Event = dict[str, Any]


class KnownObjects:
    """The objects of one watch. Called by the boundary around that watch, for every event in its order.

    :param by_uid: objects are told apart by UID (pods). Otherwise a name that is listed again stands for the object,
        whatever its UID.
    """

    def __init__(self, *, by_uid: bool) -> None:
        self._by_uid = by_uid
        self._known: dict[str, Event] = {}
        self._listing: set[str] = set()

    def told(self, event: Mapping[str, Any]) -> None:
        """An event: of a list (type None), or of the watch."""
        body = event["object"]
        identity = self._identity(body["metadata"])
        if event["type"] == "DELETED":
            self._known.pop(identity, None)
            return
        meta = {name: body["metadata"][name] for name in _METADATA if name in body["metadata"]}
        kind = {name: body[name] for name in ("apiVersion", "kind") if name in body}
        self._known[identity] = {**kind, "metadata": meta}
        if event["type"] is None:
            self._listing.add(identity)

    def listed(self) -> list[Event]:
        """The list is complete: a DELETED event for each object that it lacks.

        A list that broke off and was begun again counts as one: what it named once is not taken for deleted. The next
        list or the resync finds that.
        """
        gone = [identity for identity in self._known if identity not in self._listing]
        self._listing = set()
        return [{"type": "DELETED", "object": self._known.pop(identity)} for identity in gone]

    def _identity(self, meta: Mapping[str, Any]) -> str:
        return str(meta["uid"]) if self._by_uid else f"{meta.get('namespace', '')}/{meta['name']}"
