"""Finds objects that were deleted while a watch was interrupted, by comparing each list with the known objects.

A watch that continues after a gap begins with a list (Kubernetes' list-watch contract). A deleted object is missing in
the list, and no DELETED event follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_METADATA = ("namespace", "name", "uid", "resourceVersion", "labels")

Event = dict[str, Any]


class KnownObjects:
    """The objects of a watch. Called by the watch boundary for every event, in order.

    :param by_uid: the UID identifies an object (pods); otherwise its name does, whatever its UID.
    """

    def __init__(self, *, by_uid: bool) -> None:
        self._by_uid = by_uid
        self._known: dict[str, Event] = {}
        self._listing: set[str] = set()

    def seen(self, event: Mapping[str, Any]) -> None:
        """Notes an event: of a list (type None), or of the watch."""
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
        """The list is complete: returns a DELETED event for each object that it lacks.

        A list that broke off and began again counts as a single list: an object of either part is not deleted. The next
        list or the resync finds such a deletion.
        """
        gone = [identity for identity in self._known if identity not in self._listing]
        self._listing = set()
        return [{"type": "DELETED", "object": self._known.pop(identity)} for identity in gone]

    def _identity(self, meta: Mapping[str, Any]) -> str:
        return str(meta["uid"]) if self._by_uid else f"{meta.get('namespace', '')}/{meta['name']}"
