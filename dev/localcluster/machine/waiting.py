"""Waits for a condition that another process makes true."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.machine.processes import Identity

POLL_SECONDS = 0.1


def wait_for(
    what: str,
    condition: Callable[[], bool],
    *,
    seconds: float,
    process: Identity | None = None,
    log: Path | None = None,
    hint: str = "",
) -> None:
    """Polls ``condition`` until it holds. Fails early when ``process``, on which it depends, has ended.

    :raises SetupError: the time is up, or the process ended.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and not process.is_running():
            raise SetupError(f"{what}: the process ended", log=log, hint=hint)
        if time.monotonic() >= deadline:
            raise SetupError(f"{what}: not within {seconds:.0f} s", log=log, hint=hint)
        time.sleep(POLL_SECONDS)
