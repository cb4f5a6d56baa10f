"""The driver's report to the operator, in a ConfigMap of the job."""

from __future__ import annotations

import logging
from typing import Any

import urllib3
from kubernetes.client.exceptions import ApiException

from sparkapp.checkpoint.kubernetes.config_map import REQUEST_TIMEOUT
from sparkapp.model import names

LOG = logging.getLogger(__name__)


class ReportWriter:
    """Writes the driver's report for the operator; a failed write never fails the job."""

    def __init__(self, api: Any, *, namespace: str, job: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = names.report_config_map(job)

    def write(self, text: str) -> None:
        try:
            self._api.patch_namespaced_config_map(
                self._name, self._namespace, {"data": {names.REPORT_KEY: text}}, _request_timeout=REQUEST_TIMEOUT
            )
        except (ApiException, urllib3.exceptions.HTTPError) as error:
            LOG.warning("the report could not be written (the job continues): %s", error)
