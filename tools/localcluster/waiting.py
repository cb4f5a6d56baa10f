"""Waiting for something that another process is about to make true."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from localcluster.errors import SetupError
from localcluster.processes import Identity

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
    """Polls ``condition`` until it holds; gives up early when ``process``, which it depends on, has ended.

    :raises SetupError: time ran out, or the process ended.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if process is not None and not process.is_running():
            raise SetupError(f"{what}: its process ended", log=log, hint=hint)
        if time.monotonic() >= deadline:
            raise SetupError(f"{what}: not within {seconds:.0f} s", log=log, hint=hint)
        time.sleep(POLL_SECONDS)
