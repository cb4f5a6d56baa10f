"""How long a test waits for a fact before it fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkapp.clients.deadline import Deadline

PATIENCE = 120.0
"""Seconds. A machine that is shared may stand still for half a minute."""


def until(holds: Callable[[], object]) -> None:
    """Returns as soon as it holds."""
    deadline = Deadline.after(PATIENCE)
    while not holds():
        assert not deadline.expired, holds
        time.sleep(0.001)
