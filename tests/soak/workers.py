"""The soak's worker processes, which start processes themselves."""

from __future__ import annotations

from multiprocessing.context import SpawnContext, SpawnProcess


class Worker(SpawnProcess):
    """Not a daemon, as a daemon may have no children: subtasks of the continuous engine are processes."""

    daemon = property(lambda _: False, lambda _, __: None)  # type: ignore[assignment]


class Spawning(SpawnContext):
    """Makes :class:`Worker`."""

    Process = Worker  # type: ignore[assignment]
