"""The annotations of the driver's own pod, by which the operator tells a running driver something."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kubernetes import watch

from sparkapp.model import names
from sparkapp.model.report import Scale

LOG = logging.getLogger(__name__)

_WATCH_SECONDS = 60
"""A watch ends after this time and starts again, because a connection can die silently."""
_PAUSE = 1.0
_MOST = 1024
"""Subtasks and executors, also by the CRD."""


class OwnPod(NamedTuple):
    """The driver's pod. Another pod may get its name when it is gone, so the UID belongs to it.

    :param api: of :func:`sparkapp.checkpoint.kubernetes.config_map.core_api`.
    """

    api: Any
    namespace: str
    name: str
    uid: str


def watch_annotations(pod: OwnPod, seen: Callable[[Mapping[str, str]], bool]) -> None:
    """Blocks, in a thread of its own, until the annotations are all that is wanted.

    :param seen: called with the annotations at first and after each change of the pod; True ends the watch.
    """
    while True:
        try:
            if _watch_once(pod, seen):
                return
        except Exception as error:
            # Any error (an answer that does not parse, a broken connection): without this thread nobody would hear.
            LOG.warning("pod %s: its annotations cannot be read: %s; retry in %.0f s", pod.name, error, _PAUSE)
            time.sleep(_PAUSE)


def _watch_once(pod: OwnPod, seen: Callable[[Mapping[str, str]], bool]) -> bool:
    stream = watch.Watch().stream(
        pod.api.list_namespaced_pod, pod.namespace, field_selector=f"metadata.name={pod.name}",
        timeout_seconds=_WATCH_SECONDS, _request_timeout=(5, _WATCH_SECONDS + 10),
    )  # fmt: skip
    found = (event["object"].metadata for event in stream)
    return any(seen(metadata.annotations or {}) for metadata in found if metadata.uid == pod.uid)


class PodScale:
    """The scale that the operator asks for; called by the continuous engine, which starts the watch by its first call.

    :param pod: the driver's.
    """

    def __init__(self, pod: OwnPod) -> None:
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
        watch_annotations(self._pod, self._seen)

    def _seen(self, annotations: Mapping[str, str]) -> bool:
        wanted = [annotations.get(name, "") for name in (names.ANNOTATION_PARALLELISM, names.ANNOTATION_EXECUTORS)]
        if all(text.isascii() and text.isdigit() and 0 < int(text) <= _MOST for text in wanted):
            self._latest = Scale(*map(int, wanted))
        return False
