"""Ordered faults for tests of the protocol on a real cluster: the driver kills itself at a named step.

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
    """Compares each step of this attempt with the ordered fault; without an order it does nothing."""

    def __init__(self, attempt: int, order: str) -> None:
        """
        :param order: text of the form above; empty for none.
        :raises ConfigurationError: the order has another form or an unknown step.
        """
        self._at: tuple[ProtocolStep, int] | None = None
        if not order:
            return
        match = _FORM.fullmatch(order)
        if match is None or match["step"] not in list(ProtocolStep):
            steps = ", ".join(ProtocolStep)
            msg = f"{VARIABLE}={order!r} is not <step>@attempt=<n>,checkpoint=<n> with a step of {steps}"
            raise ConfigurationError(msg)
        if int(match["attempt"]) == attempt:
            self._at = (ProtocolStep(match["step"]), int(match["checkpoint"]))

    @property
    def armed(self) -> bool:
        """Whether this attempt has a fault."""
        return self._at is not None

    def step(self, step: ProtocolStep, checkpoint_id: int) -> None:
        """Hook of coordinator and engine, called at each step of a checkpoint."""
        if self._at != (step, checkpoint_id):
            return
        if step is ProtocolStep.BEFORE_FLUSH:
            # The writers produce and then wait (see hold), so the driver dies while their transactions are open.
            threading.Timer(_KILL_AFTER_SECONDS, _die, (step, checkpoint_id)).start()
        else:
            _die(step, checkpoint_id)

    def hold(self, checkpoint_id: int) -> float:
        """Seconds that the writers of a checkpoint wait between producing and flushing."""
        return _HOLD_SECONDS if self._at == (ProtocolStep.BEFORE_FLUSH, checkpoint_id) else 0.0


def _die(step: ProtocolStep, checkpoint_id: int) -> None:
    LOG.error("ordered fault: SIGKILL at step %s of checkpoint %d", step, checkpoint_id)
    os.kill(os.getpid(), signal.SIGKILL)
