"""A watch that is refused ends nothing: neither the process nor the watches of other namespaces."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from kopf._cogs.clients import errors, watching
from kopf._core.reactor import queueing

from kafkasparkjob_operator.controller.watches import kopf_watch_patch as watch_boundary
from kafkasparkjob_operator.controller.watches.kopf_watch_patch import Handler, WatchBoundary
from sparkapp.model import names

KINDS = (names.PLURAL, "pods", "configmaps")


class Resource:
    """As much of kopf's as the boundary looks at."""

    def __init__(self, plural: str) -> None:
        self.plural = plural


class Server:
    """Answers watches: of refused namespaces with an error, of others with one event and then silence."""

    def __init__(self) -> None:
        self.refused: dict[str | None, Exception] = {}
        self.asked: list[str | None] = []
        self.ends = asyncio.Event()

    def refuse(self, namespace: str, fault: Exception) -> None:
        self.refused[namespace] = fault
        self.ends.set()

    async def watch(self, *, resource: Any, namespace: str | None, **_: Any) -> AsyncIterator[Any]:
        self.asked.append(namespace)
        if namespace in self.refused:
            raise self.refused[namespace]
        yield watching.Bookmark.LISTED
        meta = {"namespace": namespace, "name": "one", "uid": "uid-one"}
        yield {"type": "ADDED", "object": {"kind": resource.plural, "metadata": meta}}
        await self.ends.wait()
        raise self.refused[namespace]


def forbidden() -> errors.APIForbiddenError:
    return errors.APIForbiddenError({"message": "forbidden: not you"}, status=403, headers={})  # type: ignore[typeddict-item]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(watching, "infinite_watch", made.watch)
    monkeypatch.setattr(watch_boundary, "PAUSES", (0.0,))
    return made


@pytest.fixture
def refusals() -> list[tuple[str, str, bool]]:
    return []


@pytest.fixture
def delivered() -> list[tuple[str, str]]:
    """Plural and type of each event that a handler got."""
    return []


@pytest.fixture
async def boundary(
    server: Server, refusals: list[tuple[str, str, bool]], delivered: list[tuple[str, str]]
) -> AsyncIterator[WatchBoundary]:
    made = WatchBoundary(
        KINDS, ("team-a", "team-b"), lambda kind, namespace, refused: refusals.append((kind, namespace, refused))
    )

    def handler_of(plural: str) -> Handler:
        return lambda event: delivered.append((plural, event["type"]))

    async with made.around_kopf({plural: handler_of(plural) for plural in KINDS}):
        yield made


def watch(plural: str, namespace: str | None) -> AsyncIterator[Any]:
    """As kopf's watcher asks for it."""
    return queueing.watching.infinite_watch(settings=None, resource=Resource(plural), namespace=namespace)  # type: ignore[arg-type, attr-defined, no-any-return]


async def some_turns() -> None:
    """The event loop goes round often enough for several tries."""
    for _ in range(30):
        await asyncio.sleep(0)


async def listed(plural: str, namespace: str | None) -> AsyncIterator[Any]:
    stream = watch(plural, namespace)
    assert await anext(stream) is watching.Bookmark.LISTED
    return stream


@pytest.mark.parametrize(
    "fault",
    [
        forbidden(),
        errors.APINotFoundError(status=404, headers={}),
        errors.APIServerError(status=503, headers={}),
        watching.WatchingError("Error in the watch-stream"),
    ],
)
async def test_a_refused_watch_tries_again_until_it_is_let_in(
    boundary: WatchBoundary, server: Server, refusals: list[tuple[str, str, bool]], fault: Exception
) -> None:
    server.refused["team-b"] = fault
    waiting = asyncio.ensure_future(anext(watch("pods", "team-b")))
    await some_turns()
    assert len(server.asked) > 3
    assert refusals == [("pods", "team-b", True)]
    server.refused.clear()
    assert await waiting is watching.Bookmark.LISTED
    assert refusals[-1] == ("pods", "team-b", False)


async def test_a_watch_that_is_refused_later_is_from_beginning(
    boundary: WatchBoundary, server: Server, delivered: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    stream = await listed("pods", "team-b")
    waiting = asyncio.ensure_future(anext(stream))
    await some_turns()
    assert delivered == [("pods", "ADDED")]
    server.refuse("team-b", forbidden())
    await some_turns()
    assert len(server.asked) > 2
    assert "pods in namespace team-b" in caplog.text
    assert "not you" in caplog.text
    server.refused.clear()
    assert await waiting is watching.Bookmark.LISTED
    # The list lacks what was added before: it was deleted meanwhile.
    assert delivered[1] == ("pods", "DELETED")


async def test_ready_is_who_has_listed_everything_that_lets_it_in(boundary: WatchBoundary, server: Server) -> None:
    assert "not listed yet" in boundary.unready()
    streams = [await listed(kind, "team-a") for kind in KINDS]
    assert boundary.unready() == "kafkasparkjobs in namespace team-b: not listed yet"
    server.refused["team-b"] = forbidden()
    tries = [asyncio.ensure_future(anext(watch(kind, "team-b"))) for kind in KINDS]
    await some_turns()
    assert boundary.unready() == ""
    server.refuse("team-a", forbidden())
    tries += [asyncio.ensure_future(anext(stream)) for stream in streams]
    await some_turns()
    assert boundary.unready() == ""  # it knows what it knew; the metric shows it
    for each in tries:
        each.cancel()


async def test_who_is_let_in_nowhere_is_not_ready(boundary: WatchBoundary, server: Server) -> None:
    server.refused = {"team-a": forbidden(), "team-b": forbidden()}
    places = [(kind, namespace) for kind in KINDS for namespace in server.refused]
    tries = [asyncio.ensure_future(anext(watch(kind, namespace))) for kind, namespace in places]
    await some_turns()
    assert "refused: forbidden: not you" in boundary.unready()
    for each in tries:
        each.cancel()


async def test_an_error_of_ours_is_not_hidden(boundary: WatchBoundary, server: Server) -> None:
    server.refused["team-b"] = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await anext(watch("pods", "team-b"))


async def test_kopf_is_left_as_it_was(server: Server) -> None:
    before = watching.infinite_watch
    async with WatchBoundary(KINDS, (), lambda *_: None).around_kopf({}):
        assert watching.infinite_watch is not before
    assert watching.infinite_watch is before


async def test_a_watch_that_is_stopped_while_its_event_is_delivered_is_closed_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the end of the event loop closes it and kopf's watch at the same time, and logs a traceback."""
    closed: list[str] = []

    @contextlib.asynccontextmanager
    async def block() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.sleep(0)
            closed.append("block")

    async def endless(**_: Any) -> AsyncIterator[Any]:
        try:
            async with block():
                while True:
                    yield watching.Bookmark.LISTED
        finally:
            closed.append("watch")

    monkeypatch.setattr(watching, "infinite_watch", endless)
    delivering = asyncio.Event()

    async def deliver() -> None:
        async for _ in watch("pods", "team-a"):
            delivering.set()
            await asyncio.Event().wait()

    async with WatchBoundary(KINDS, (), lambda *_: None).around_kopf({"pods": lambda _: None}):
        task = asyncio.create_task(deliver())
        await delivering.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        del task
        assert closed == []
    assert closed == ["block", "watch"]


async def test_an_event_that_cannot_be_read_ends_no_watch(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """Kopf gets no event: it would make a task, a queue and a memory for each object."""

    def unreadable(event: Mapping[str, Any]) -> None:
        raise KeyError(event["object"]["metadata"]["uid"])

    async with WatchBoundary(("pods",), ("team-a",), lambda *_: None).around_kopf({"pods": unreadable}):
        stream = await listed("pods", "team-a")
        waiting = asyncio.ensure_future(anext(stream))
        await some_turns()
        assert not waiting.done()
        assert "pods in namespace team-a: an event cannot be read: one" in caplog.text
        assert "KeyError: 'uid-one'" in caplog.text
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
