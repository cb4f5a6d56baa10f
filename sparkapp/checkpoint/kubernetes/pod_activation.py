"""Activation of a standby driver by an annotation of its own pod; see :mod:`sparkapp.spark.launch.standby`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes.own_pod import watch_annotations
from sparkapp.model import names

LOG = logging.getLogger(__name__)

_REQUEST_TIMEOUT = (5, 10)


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
        # Without this thread the attempt would wait for ever.
        watch_annotations(self._api, namespace=self._namespace, pod=self._pod, seen=self._is_given)
        self._given.set()

    @staticmethod
    def _is_given(annotations: Mapping[str, str]) -> bool:
        return annotations.get(names.ANNOTATION_TURN) == names.TURN_GIVEN
