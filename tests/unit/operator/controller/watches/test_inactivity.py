"""Kopf replaces a watch that has silently died: the operator has no monitor of its own (ADR 33)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kopf._cogs.clients import watching
from kopf._cogs.structs.references import Resource

from kafkasparkjob_operator.controller.watches.kopf_settings import INACTIVITY_SECONDS, watch_settings
from sparkapp.model import names

BOOKMARK_SECONDS = 60
JOBS = Resource(names.GROUP, names.VERSION, names.PLURAL, namespaced=True)


class SilentServer:
    """Answers a list, and each watch with the given events and then silence."""

    def __init__(self, *pauses: float) -> None:
        self._pauses = pauses
        self.watches: list[dict[str, list[str]]] = []

    async def list(self, **_: Any) -> AsyncIterator[tuple[list[Any], str]]:
        yield [], "7"

    async def stream(self, *, url: str, **_: Any) -> AsyncIterator[dict[str, Any]]:
        self.watches.append(parse_qs(urlsplit(url).query))
        for number, pause in enumerate(self._pauses, 8):
            await asyncio.sleep(pause)
            yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(number)}}}
        await asyncio.Event().wait()


async def watch(server: SilentServer, monkeypatch: pytest.MonkeyPatch, *, seconds: float, until: int) -> None:
    monkeypatch.setattr(watching.fetching, "fetch_objs", server.list)
    monkeypatch.setattr(watching.api, "stream", server.stream)
    settings = watch_settings()
    settings.watching.inactivity_timeout = seconds
    async for _ in watching.infinite_watch(settings=settings, resource=JOBS, namespace="team"):
        if len(server.watches) >= until:
            return


async def test_a_watch_without_events_is_replaced_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SilentServer(0.0)
    async with asyncio.timeout(10):
        await watch(server, monkeypatch, seconds=0.2, until=2)
    first, second = server.watches
    assert first["allowWatchBookmarks"] == ["true"]
    assert (first["resourceVersion"], second["resourceVersion"]) == (["7"], ["8"])


async def test_bookmarks_keep_a_quiet_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    server = SilentServer(*[0.2] * 5)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.2):
            await watch(server, monkeypatch, seconds=0.6, until=2)
    assert len(server.watches) == 1


def test_the_time_is_longer_than_the_pause_between_bookmarks() -> None:
    assert BOOKMARK_SECONDS < watch_settings().watching.inactivity_timeout == INACTIVITY_SECONDS
