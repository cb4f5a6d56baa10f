"""Calls in daemon threads, single or periodic: a call that never ends does not keep its process alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")


def run_in_background(call: Callable[[], Answer], *, name: str) -> Future[Answer]:
    """Starts the call; the future has its result or error.

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


class PeriodicThread:
    """Repeats a call, from :meth:`start` on, until :meth:`close`.

    An error of the call is logged with its traceback and ends neither the thread nor the job. Any further effect is the
    call's responsibility.

    :param name: of the thread. :param interval: seconds from the end of a call to the begin of the next call.
    :param patience: seconds that :meth:`close` waits for the call under way.
    """

    def __init__(self, call: Callable[[], object], *, name: str, interval: float, patience: float = 10.0) -> None:
        self._call = call
        self._interval = interval
        self._patience = patience
        self._closed = threading.Event()
        self._after = 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, *, after: float = 0.0) -> None:
        """
        :param after: seconds until the first call.
        """
        self._after = after
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and waits for the call under way, which may itself call this."""
        self._closed.set()
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return
        self._thread.join(self._patience)
        if self._thread.is_alive():
            LOG.warning("%s did not end in time", self._thread.name)

    def _run(self) -> None:
        self._closed.wait(self._after)
        while not self._closed.is_set():
            try:
                self._call()
            except Exception:
                LOG.exception("%s failed; retry in %g s", self._thread.name, self._interval)
            self._closed.wait(self._interval)
