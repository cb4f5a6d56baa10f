"""Faults on order, for tests of the protocol on a real cluster: the process kills itself at a named step.

``KAFKASPARK_FAULT=<step>@attempt=<n>,checkpoint=<n>`` in the driver's environment (``spec.driver.env``); steps are
:class:`sparkapp.model.protocol.ProtocolStep`. Bound to an attempt, so that a restart does not meet the fault again.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading

from sparkapp.model.errors import ConfigurationError
from sparkapp.model.protocol import ProtocolStep

LOG = logging.getLogger(__name__)

VARIABLE = "KAFKASPARK_FAULT"
_FORM = re.compile(r"(?P<step>[a-z-]+)@attempt=(?P<attempt>\d+),checkpoint=(?P<checkpoint>\d+)")
_HOLD_SECONDS = 60.0
_KILL_AFTER_SECONDS = 4.0


class Faults:
    """Compares each step of this attempt with the one ordered fault; without an order nothing ever happens."""

    def __init__(self, attempt: int, order: str) -> None:
        """:raises ConfigurationError: the order is not of the form above."""
        self._at: tuple[ProtocolStep, int] | None = None
        if not order:
            return
        match = _FORM.fullmatch(order)
        if match is None or match["step"] not in list(ProtocolStep):
            steps = ", ".join(ProtocolStep)
            msg = f"{VARIABLE}={order!r} must be <step>@attempt=<n>,checkpoint=<n> with a step of {steps}"
            raise ConfigurationError(msg)
        if int(match["attempt"]) == attempt:
            self._at = (ProtocolStep(match["step"]), int(match["checkpoint"]))

    @property
    def armed(self) -> bool:
        return self._at is not None

    def step(self, step: ProtocolStep, checkpoint_id: int) -> None:
        """The coordinator's and the engine's hook."""
        if self._at != (step, checkpoint_id):
            return
        if step is ProtocolStep.BEFORE_FLUSH:
            # The writers produce and then hold (see hold); the driver dies while their transactions are open.
            threading.Timer(_KILL_AFTER_SECONDS, _die, (step, checkpoint_id)).start()
        else:
            _die(step, checkpoint_id)

    def hold(self, checkpoint_id: int) -> float:
        """Seconds that writers wait between producing and flushing."""
        return _HOLD_SECONDS if self._at == (ProtocolStep.BEFORE_FLUSH, checkpoint_id) else 0.0


def _die(step: ProtocolStep, checkpoint_id: int) -> None:
    LOG.error("fault on order: SIGKILL %s of checkpoint %d", step, checkpoint_id)
    os.kill(os.getpid(), signal.SIGKILL)
