"""What goes on in a thread of its own for as long as a ``with`` block does."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Background(ABC):
    """Base of context managers whose work is a thread: it begins with the block and is ended with it.

    :param name: of the thread.
    :param end_seconds: how long the end of the block waits for it; a daemon, it holds up no exit of the process.
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
        """The thread; returns soon once ``_ending`` is set. Its errors are told by whoever waits for its results."""

    def _wake(self) -> None:
        """Interrupts what it may be blocked in, besides ``_ending``."""
        return

    def _close(self) -> None:
        """Frees what it used."""
        return
