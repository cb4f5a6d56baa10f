"""Work in a thread that runs as long as a ``with`` block."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Background(ABC):
    """Base of context managers whose work is a thread: it starts with the block and stops with it.

    :param name: of the thread.
    :param end_seconds: how long the end of the block waits for the thread, which is a daemon.
    """

    def __init__(self, name: str, *, end_seconds: float = 10.0) -> None:
        self._ending = threading.Event()
        self._end_seconds = end_seconds
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._wake()
        self._thread.join(self._end_seconds)
        self._close()

    @abstractmethod
    def _run(self) -> None:
        """The thread's work; returns soon after ``_ending`` is set. Who waits for its results raises its errors."""

    def _wake(self) -> None:
        """Interrupts a call that the thread may be blocked in, other than a wait for ``_ending``."""
        return

    def _close(self) -> None:
        """Frees the resources of the work."""
        return
