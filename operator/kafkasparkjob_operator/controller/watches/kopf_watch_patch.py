"""A boundary around each watch: a deleted namespace, or a refused one, does not affect the jobs of other namespaces.

Kopf ends the whole operator when a single watch is refused for some minutes, and has no setting for that. Therefore its
watch function is wrapped here. The wrapper also adds the deletions that a watch has missed, after its next list. It
calls the handlers itself: a task, a queue and a memory of kopf's for each object would cost more than the handlers.
Nothing else in this project uses internals of kopf, whose version is locked (ADR 33).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

from kopf._cogs.clients import errors, watching

from kafkasparkjob_operator.controller.watches.relist import KnownObjects

LOG = logging.getLogger(__name__)

PAUSES = (2.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds before each retry of a refused watch; the last value repeats."""
_OF_OBJECTS = frozenset({None, "ADDED", "MODIFIED", "DELETED"})
Handler = Callable[[Mapping[str, Any]], None]
"""Takes an event: its type, None for a list's, and its object. It does not wait."""
KOPF_LOGGER = "kopf._cogs.clients.watching"
"""Kopf logs every try here; the boundary logs a refusal once, with its cause."""


class WatchBoundary:
    """The boundary: retries each watch of kopf, and knows which watches are up.

    :param kinds: plurals of the watched kinds.
    :param namespaces: the watched namespaces; empty means all.
    :param refused: called with kind, namespace and the new state when a watch becomes refused or accepted.
    """

    def __init__(
        self, kinds: tuple[str, ...], namespaces: tuple[str, ...], refused: Callable[[str, str, bool], None]
    ) -> None:
        self._kinds = kinds
        self._namespaces = namespaces
        self._refused = refused
        self._faults: dict[tuple[str, str], str] = {}
        self._listed: set[tuple[str, str]] = set()
        self._open: list[AsyncGenerator[Any, None]] = []

    def unready(self) -> str:
        """Why the watches are not ready; empty when each watch had an answer, and each kind was listed somewhere.

        A refused namespace does not make the operator unready: other namespaces need it. Called by the probe.
        """
        for kind in self._kinds:
            places = [(kind, namespace) for namespace in self._namespaces or ("",)]
            for place in places:
                if place not in self._faults:
                    return f"{_named(place)}: not listed yet"
            if not self._listed.intersection(places):
                return f"{_named(places[0])}: the watch is refused: {self._faults[places[0]]}"
        return ""

    @contextlib.asynccontextmanager
    async def around_kopf(self, handlers: Mapping[str, Handler]) -> AsyncIterator[None]:
        """Wraps kopf's watch function while kopf runs. Called by the runtime.

        :param handlers: by plural. Kopf gets no event of an object.

        A watch whose event was being delivered when kopf was stopped is still open behind it. It is closed here, from
        the inside out. The end of the event loop would close all its parts at once, which may raise a RuntimeError.
        """
        logger = logging.getLogger(KOPF_LOGGER)
        original, level = watching.infinite_watch, logger.level
        watching.infinite_watch = self._bounded(original, handlers)  # type: ignore[assignment, unused-ignore]
        logger.setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            watching.infinite_watch = original
            logger.setLevel(level)
            for each in self._open:
                await each.aclose()
            self._open.clear()

    def _bounded(
        self, original: Callable[..., Any], handlers: Mapping[str, Handler]
    ) -> Callable[..., AsyncIterator[Any]]:
        async def watch(*, resource: Any, namespace: str | None, **rest: Any) -> AsyncGenerator[Any, None]:
            place = (str(resource.plural), namespace or "")
            handler = handlers[place[0]]
            pauses = _pauses()
            known = KnownObjects(by_uid=place[0] == "pods")
            while True:
                try:
                    async with contextlib.aclosing(original(resource=resource, namespace=namespace, **rest)) as events:
                        async for event in events:
                            if not isinstance(event, watching.Bookmark) and event["type"] in _OF_OBJECTS:
                                known.seen(event)
                                _deliver(event, handler, place)
                                continue
                            if event is watching.Bookmark.LISTED:
                                for missed in known.listed():
                                    _deliver(missed, handler, place)
                                self._is_up(place)
                                pauses = _pauses()
                            yield event
                    return
                except (errors.APIError, watching.WatchingError) as error:
                    pause = next(pauses)
                    self._is_refused(place, getattr(error, "message", None) or repr(error), pause)
                await asyncio.sleep(pause)

        def opened(**options: Any) -> AsyncIterator[Any]:
            self._open.append(watch(**options))
            return self._open[-1]

        return opened

    def _is_up(self, place: tuple[str, str]) -> None:
        if self._faults.get(place):
            LOG.info("%s: the watch works again", _named(place))
            self._refused(*place, False)
        self._faults[place] = ""
        self._listed.add(place)

    def _is_refused(self, place: tuple[str, str], message: str, pause: float) -> None:
        previous = self._faults.get(place)
        self._faults[place] = message
        if previous != message:
            LOG.warning("%s: the watch is refused: %s; retry in %.0f s", _named(place), message, pause)
        if not previous:
            self._refused(*place, True)


def _deliver(event: Mapping[str, Any], handler: Handler, place: tuple[str, str]) -> None:
    """An object that cannot be read must not end the watch of the others."""
    try:
        handler(event)
    except Exception:
        LOG.exception("%s: an event cannot be read: %s", _named(place), event["object"]["metadata"].get("name"))


def _pauses() -> Iterator[float]:
    return chain(PAUSES, repeat(PAUSES[-1]))


def _named(place: tuple[str, str]) -> str:
    kind, namespace = place
    return f"{kind} in {f'namespace {namespace}' if namespace else 'all namespaces'}"
