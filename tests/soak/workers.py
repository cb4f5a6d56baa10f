"""The soak's worker processes, which start processes themselves."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess

_END_SECONDS = 30.0
"""For a schedule under way to end its processes."""


class Worker(SpawnProcess):
    """Not a daemon, as a daemon may have no children: subtasks of the continuous engine are processes."""

    daemon = property(lambda _: False, lambda _, __: None)  # type: ignore[assignment]

    def run(self) -> None:
        """Until its soak ends, also where that is killed.

        A schedule under way ends its own processes then: drivers have sessions of their own.
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        threading.Thread(target=_end_with_soak, daemon=True).start()
        super().run()


class Spawning(SpawnContext):
    """Makes :class:`Worker`."""

    Process = Worker  # type: ignore[assignment]


def _end_with_soak() -> None:
    # Linux has a signal for this, but sends it when the thread ends that has started the process. The pool's thread
    # ends before its workers. An idle worker holds the lock of the queue, so the soak would not end.
    soak = parent_process()
    assert soak is not None
    soak.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
