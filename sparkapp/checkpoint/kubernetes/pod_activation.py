"""Activation of a standby driver by an annotation of its own pod; see :mod:`sparkapp.spark.launch.standby`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from sparkapp.checkpoint.kubernetes.own_pod import OwnPod, watch_annotations
from sparkapp.checkpoint.kubernetes.report_writer import ReportWriter
from sparkapp.model import names

LOG = logging.getLogger(__name__)

_PAUSE = 0.05
"""Seconds between two looks at the document of an attempt that drains: readers wait meanwhile."""
_PAUSE_AFTER_ERROR = 1.0


class PodActivation:
    """Watches the driver's pod in its own thread until the operator activates it.

    A driver that is next does not wait for the operator. It reads the document: the last write of an attempt that
    drains says that nothing is open (ADR 95).

    :param pod: the driver's.
    :param drained: whether the document says that an earlier attempt has drained; may raise.
    """

    def __init__(self, pod: OwnPod, *, report: ReportWriter, attempt: int, drained: Callable[[], bool]) -> None:
        self._report = report
        self._attempt = attempt
        self._pod = pod
        self._drained = drained
        self._given = threading.Event()
        self._looks = False
        threading.Thread(target=self._watch, name="activation", daemon=True).start()

    def announce(self) -> None:
        self._report.announce(self._attempt)

    def wait(self, seconds: float) -> bool:
        return self._given.wait(seconds)

    def _watch(self) -> None:
        # Without this thread the attempt would wait for ever.
        watch_annotations(self._pod, self._is_given)
        self._given.set()

    def _is_given(self, annotations: Mapping[str, str]) -> bool:
        turn = annotations.get(names.ANNOTATION_TURN)
        if turn == names.TURN_NEXT and not self._looks:
            self._looks = True
            threading.Thread(target=self._await_drain, name="drain", daemon=True).start()
        return turn == names.TURN_GIVEN

    def _await_drain(self) -> None:
        pause = _PAUSE
        while not self._given.wait(pause):
            try:
                if self._drained():
                    self._given.set()
                pause = _PAUSE
            except Exception as error:
                # Any error: without this thread only the operator would activate the driver, seconds later.
                LOG.warning("the attempt before cannot be observed: %s; retry in %g s", error, _PAUSE_AFTER_ERROR)
                pause = _PAUSE_AFTER_ERROR
