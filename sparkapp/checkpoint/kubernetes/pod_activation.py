"""Activation of a standby driver by an annotation of its own pod; see :mod:`sparkapp.spark.launch.standby`."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sparkapp.checkpoint.kubernetes.own_pod import OwnPod, watch_annotations
from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
from sparkapp.model import names


class PodActivation:
    """Watches the driver's pod in its own thread until the operator activates it.

    :param pod: the driver's.
    """

    def __init__(self, pod: OwnPod, *, report: ReportWriter, attempt: int) -> None:
        self._report = report
        self._attempt = attempt
        self._pod = pod
        self._given = threading.Event()
        threading.Thread(target=self._watch, name="activation", daemon=True).start()

    def announce(self) -> None:
        self._report.announce(self._attempt)

    def wait(self, seconds: float) -> bool:
        return self._given.wait(seconds)

    def _watch(self) -> None:
        # Without this thread the attempt would wait for ever.
        watch_annotations(self._pod, self._is_given)
        self._given.set()

    @staticmethod
    def _is_given(annotations: Mapping[str, str]) -> bool:
        return annotations.get(names.ANNOTATION_TURN) == names.TURN_GIVEN
