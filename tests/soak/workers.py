"""The soak's worker processes, which start processes themselves."""

from __future__ import annotations

import ctypes
import signal
from multiprocessing.context import SpawnContext, SpawnProcess

_DIE_WITH_PARENT = 1


class Worker(SpawnProcess):
    """Not a daemon, as a daemon may have no children: subtasks of the continuous engine are processes."""

    daemon = property(lambda _: False, lambda _, __: None)  # type: ignore[assignment]

    def run(self) -> None:
        """Until its soak ends, also where that is killed."""
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        super().run()


class Spawning(SpawnContext):
    """Makes :class:`Worker`."""

    Process = Worker  # type: ignore[assignment]
