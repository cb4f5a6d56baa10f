"""A call that goes on beside its caller, in a daemon thread: one that never ends keeps no process from ending."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Answer = TypeVar("Answer")


def beside(call: Callable[[], Answer], *, name: str) -> Future[Answer]:
    """Begins the call; the future has what it returns or raises.

    :param name: of the thread.
    """
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
