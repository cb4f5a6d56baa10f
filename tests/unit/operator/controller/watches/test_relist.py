"""What is deleted while a watch is interrupted is delivered as soon as the list after it is complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from kopf._cogs.clients import errors, watching
from kopf._core.reactor import queueing

from kafkasparkjob_operator.controller.watches import kopf_watch_patch as watch_boundary
from kafkasparkjob_operator.controller.watches.kopf_watch_patch import WatchBoundary
from sparkapp.model import names

LISTED = watching.Bookmark.LISTED


class Resource:
    """As much of kopf's as the boundary looks at."""

    def __init__(self, plural: str) -> None:
        self.plural = plural


def event(kind: str | None, name: str, uid: str = "") -> dict[str, Any]:
    labels = {names.LABEL_JOB: "orders", names.LABEL_ROLE: names.ROLE_DRIVER}
    meta = {"namespace": "team", "name": name, "uid": uid or f"uid-{name}", "resourceVersion": "7", "labels": labels}
    return {"type": kind, "object": {"kind": "Pod", "metadata": meta, "spec": {"large": "x" * 100}}}


async def delivered(monkeypatch: pytest.MonkeyPatch, plural: str, *streams: list[Any]) -> list[Any]:
    """What comes through the boundary; each stream ends with an error, and is followed by the next one."""
    left = list(streams)

    async def watch(**_: Any) -> AsyncIterator[Any]:
        for each in left.pop(0):
            yield each
        if left:
            raise errors.APIForbiddenError({"message": "no"}, status=403, headers={})  # type: ignore[typeddict-item]

    monkeypatch.setattr(watching, "infinite_watch", watch)
    monkeypatch.setattr(watch_boundary, "PAUSES", (0.0,))
    found: list[Any] = []

    def handle(event: Mapping[str, Any]) -> None:
        meta = event["object"]["metadata"]
        found.append((event["type"], meta["name"], meta["uid"]))

    async with WatchBoundary((plural,), (), lambda *_: None).around_kopf({plural: handle}):
        stream = queueing.watching.infinite_watch(settings=None, resource=Resource(plural), namespace=None)  # type: ignore[arg-type, attr-defined]
        async for each in stream:
            found.append(each)
    return found


async def test_a_deletion_in_the_gap_is_reported_with_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await delivered(
        monkeypatch, "pods",
        # Within one stream of kopf's: 410 Gone, and it lists again.
        [event(None, "a"), event(None, "b"), LISTED, event("ADDED", "c"), event(None, "a"), LISTED],
    )  # fmt: skip
    assert found[-3:] == [("DELETED", "b", "uid-b"), ("DELETED", "c", "uid-c"), LISTED]


async def test_a_refused_watch_compares_too_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = [event(None, "a"), event(None, "b"), LISTED, event("DELETED", "b")]
    found = await delivered(monkeypatch, "pods", first, [LISTED], [event(None, "a"), LISTED])
    assert found[4:] == [("DELETED", "a", "uid-a"), LISTED, (None, "a", "uid-a"), LISTED]


async def test_a_list_that_breaks_off_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [event(None, "a"), event(None, "b"), LISTED], [event(None, "a")], [event(None, "b"), LISTED]
    assert "DELETED" not in [each[0] for each in await delivered(monkeypatch, "pods", *parts) if each is not LISTED]


@pytest.mark.parametrize(("plural", "deleted"), [("pods", ["previous"]), (names.PLURAL, []), ("configmaps", [])])
async def test_a_namesake_that_came_meanwhile_stays(
    monkeypatch: pytest.MonkeyPatch, plural: str, deleted: list[str]
) -> None:
    found = await delivered(
        monkeypatch, plural, [event(None, "a", "previous"), LISTED, event(None, "a", "new"), LISTED]
    )  # fmt: skip
    assert [each[2] for each in found if each is not LISTED and each[0] == "DELETED"] == deleted
