"""Finds objects that were deleted while a watch was interrupted, by comparing each list with the known objects.

A watch that continues after a gap begins with a list (Kubernetes' list-watch contract). A deleted object is missing in
the list, and no DELETED event follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any, NamedTuple

from sparkapp.model import names

_LABELS = (names.LABEL_JOB, names.LABEL_ROLE)
"""What handlers read of an object that is gone."""

Event = dict[str, Any]


class _Known(NamedTuple):
    """An object. Texts that many objects have in common are kept once: a fleet has some fifty thousand objects."""

    namespace: str
    name: str
    uid: str
    labels: tuple[str | None, ...]

    def deleted(self) -> Event:
        """The event that the watch has missed."""
        labels = {name: value for name, value in zip(_LABELS, self.labels, strict=True) if value is not None}
        meta = {"namespace": self.namespace, "name": self.name, "uid": self.uid, "resourceVersion": ""}
        return {"type": "DELETED", "object": {"metadata": {**meta, "labels": labels}}}


class KnownObjects:
    """The objects of a watch. Called by the watch boundary for every event, in order.

    :param by_uid: the UID identifies an object (pods); otherwise its name does, whatever its UID.
    """

    def __init__(self, *, by_uid: bool) -> None:
        self._by_uid = by_uid
        self._known: dict[str, _Known] = {}
        self._listing: set[str] = set()

    def seen(self, event: Mapping[str, Any]) -> None:
        """Notes an event: of a list (type None), or of the watch."""
        meta = event["object"]["metadata"]
        uid = str(meta.get("uid", ""))
        identity = uid if self._by_uid else f"{meta.get('namespace', '')}/{meta['name']}"
        if event["type"] == "DELETED":
            self._known.pop(identity, None)
            return
        known = self._known.get(identity)
        if known is None or known.uid != uid:
            labels = meta.get("labels") or {}
            self._known[identity] = _Known(
                intern(str(meta.get("namespace", ""))), str(meta["name"]), uid,
                tuple(intern(labels[name]) if name in labels else None for name in _LABELS),
            )  # fmt: skip
        if event["type"] is None:
            self._listing.add(identity)

    def listed(self) -> list[Event]:
        """The list is complete: returns a DELETED event for each object that it lacks.

        A list that broke off and began again counts as a single list: an object of either part is not deleted. The next
        list or the resync finds such a deletion.
        """
        gone = [identity for identity in self._known if identity not in self._listing]
        self._listing = set()
        return [self._known.pop(identity).deleted() for identity in gone]
