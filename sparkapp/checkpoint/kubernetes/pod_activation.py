"""Activation of a standby driver by an annotation of its own pod; see :mod:`sparkapp.spark.launch.standby`."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import urllib3
from kubernetes import watch
from kubernetes.client.exceptions import ApiException

from sparkapp.model import names

LOG = logging.getLogger(__name__)

_REQUEST_TIMEOUT = (5, 10)
_WATCH_SECONDS = 60
"""A watch ends after this time and starts again, because a connection can die silently."""
_PAUSE = 1.0


class PodActivation:
    """Watches the driver's pod in its own thread until the operator activates it.

    :param api: of :func:`sparkapp.checkpoint.kubernetes.config_map.core_api`.
    :param pod: name of the driver's pod.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, attempt: int, pod: str) -> None:
        self._api = api
        self._namespace = namespace
        self._report = names.report_config_map(job)
        self._attempt = attempt
        self._pod = pod
        self._given = threading.Event()
        threading.Thread(target=self._watch, name="activation", daemon=True).start()

    def announce(self) -> None:
        """Writes the attempt's number next to the current attempt's report, which the operator watches."""
        body = {"data": {names.PREPARED_KEY: str(self._attempt)}}
        try:
            self._api.patch_namespaced_config_map(
                self._report, self._namespace, body, _request_timeout=_REQUEST_TIMEOUT
            )
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            LOG.warning("the operator could not be notified that the attempt is prepared: %s", error)

    def wait(self, seconds: float) -> bool:
        return self._given.wait(seconds)

    def _watch(self) -> None:
        while not self._given.is_set():
            try:
                self._watch_once()
            except Exception as error:
                # Any error (an answer that does not parse, a broken connection): without this thread the attempt would
                # wait for ever.
                LOG.warning("pod %s: the activation cannot be read: %s; retry in %.0f s", self._pod, error, _PAUSE)
                time.sleep(_PAUSE)

    def _watch_once(self) -> None:
        stream = watch.Watch().stream(
            self._api.list_namespaced_pod, self._namespace, field_selector=f"metadata.name={self._pod}",
            timeout_seconds=_WATCH_SECONDS, _request_timeout=(5, _WATCH_SECONDS + 10),
        )  # fmt: skip
        for event in stream:
            annotations = event["object"].metadata.annotations or {}
            if annotations.get(names.ANNOTATION_TURN) == names.TURN_GIVEN:
                self._given.set()
                return
