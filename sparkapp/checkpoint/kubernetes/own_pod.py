"""The annotations of the driver's own pod, by which the operator tells a running driver something."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kubernetes import watch

from sparkapp.model import names
from sparkapp.model.report import Scale

LOG = logging.getLogger(__name__)

_WATCH_SECONDS = 60
"""A watch ends after this time and starts again, because a connection can die silently."""
_PAUSE = 1.0
_MOST = 1024
"""Subtasks and executors, also by the CRD."""


def watch_annotations(api: Any, *, namespace: str, pod: str, seen: Callable[[Mapping[str, str]], bool]) -> None:
    """Blocks, in a thread of its own, until the annotations are all that is wanted.

    :param seen: called with the annotations at first and after each change of the pod; True ends the watch.
    """
    while True:
        try:
            if _watch_once(api, namespace, pod, seen):
                return
        except Exception as error:
            # Any error (an answer that does not parse, a broken connection): without this thread nobody would hear.
            LOG.warning("pod %s: its annotations cannot be read: %s; retry in %.0f s", pod, error, _PAUSE)
            time.sleep(_PAUSE)


def _watch_once(api: Any, namespace: str, pod: str, seen: Callable[[Mapping[str, str]], bool]) -> bool:
    stream = watch.Watch().stream(
        api.list_namespaced_pod, namespace, field_selector=f"metadata.name={pod}",
        timeout_seconds=_WATCH_SECONDS, _request_timeout=(5, _WATCH_SECONDS + 10),
    )  # fmt: skip
    return any(seen(event["object"].metadata.annotations or {}) for event in stream)


class PodScale:
    """The scale that the operator asks for; called by the continuous engine, which starts the watch by its first call.

    :param api: of :func:`sparkapp.checkpoint.kubernetes.config_map.core_api`.
    :param pod: name of the driver's pod.
    """

    def __init__(self, api: Any, *, namespace: str, pod: str) -> None:
        self._api = api
        self._namespace = namespace
        self._pod = pod
        self._latest: Scale | None = None
        self._is_watched = False

    def __call__(self) -> Scale | None:
        """The last scale that was asked for; None before the first."""
        if not self._is_watched:
            self._is_watched = True
            threading.Thread(target=self._watch, name="scale", daemon=True).start()
        return self._latest

    def _watch(self) -> None:
        watch_annotations(self._api, namespace=self._namespace, pod=self._pod, seen=self._seen)

    def _seen(self, annotations: Mapping[str, str]) -> bool:
        wanted = [annotations.get(name, "") for name in (names.ANNOTATION_PARALLELISM, names.ANNOTATION_EXECUTORS)]
        if all(text.isascii() and text.isdigit() and 0 < int(text) <= _MOST for text in wanted):
            self._latest = Scale(*map(int, wanted))
        return False
