"""The driver's report to the operator, in a ConfigMap of the job."""

from __future__ import annotations

import logging
from typing import Any

from sparkapp.checkpoint.kubernetes.config_map import ConfigMap
from sparkapp.model import names
from sparkapp.model.errors import CheckpointError

LOG = logging.getLogger(__name__)


class ReportWriter:
    """Writes the driver's report for the operator; a failed write never fails the job.

    :param uid: of the resource, which owns the ConfigMap.
    """

    def __init__(self, api: Any, *, namespace: str, job: str, uid: str) -> None:
        self._place = ConfigMap(api, namespace=namespace, job=job, uid=uid, name=names.report_config_map(job))

    def write(self, text: str) -> None:
        """Replaces the report."""
        self._set(names.REPORT_KEY, text)

    def announce(self, attempt: int) -> None:
        """Writes the number of a prepared standby next to the current attempt's report, which the operator watches."""
        self._set(names.PREPARED_KEY, str(attempt))

    def _set(self, key: str, text: str) -> None:
        try:
            self._place.merge({key: text}, None)
        except CheckpointError as error:
            LOG.warning("the report could not be written (the job continues): %s", error)
