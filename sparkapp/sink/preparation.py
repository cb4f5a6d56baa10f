"""A producer that is readied beside its task, and how a task that does not need it any more gives it up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial

from sparkapp.model.errors import KafkaUnreachable
from sparkapp.native.beside import beside
from sparkapp.native.interface import BatchProducer, GivenUp
from sparkapp.sink.pooled_producer import PooledProducer

LOG = logging.getLogger(__name__)

_SLICE_SECONDS = 5.0
"""One slice of ``init_transactions`` is over long before."""


class Preparation:
    """One id's producer on its way; made by the producer pool, which alone keeps what it comes to.

    :param ready: gives the producer, in a thread of its own; it calls :meth:`initialise` for what may fence another
        producer of the id.
    """

    def __init__(self, transactional_id: str, ready: Callable[[Preparation], PooledProducer]) -> None:
        self.transactional_id = transactional_id
        self._given_up = threading.Event()
        self._fencing = False
        self._future = beside(partial(ready, self), name="prepare-producer")

    def check_wanted(self) -> None:
        """:raises GivenUp: nobody waits for it any more."""
        if self._given_up.is_set():
            raise GivenUp

    def initialise(self, producer: BatchProducer, timeout: float) -> None:
        """``init_transactions``, which fences whoever has the id and aborts what is open under it.

        :raises GivenUp: nobody waits for it any more; no slice of it begins from then on.
        """
        self._fencing = True
        try:
            producer.init_transactions(timeout, wanted=lambda: not self._given_up.is_set())
        finally:
            self._fencing = False

    def result(self) -> PooledProducer:
        """The producer, once it is ready. :raises KafkaSparkJobError: what went wrong with it."""
        return self._future.result()

    def give_up(self) -> None:
        """Returns when it cannot fence anybody any more, which is soon: its task then may be counted as done.

        The producer is closed, now or when it comes.

        :raises KafkaUnreachable: the client does not come back from a call that may yet fence. Whoever gives up must
            fail with this: the worker process ends, and the call with it.
        """
        self._given_up.set()
        if self._fencing:
            wait([self._future], timeout=_SLICE_SECONDS)
        stuck = self._fencing and not self._future.done()
        self._future.add_done_callback(_close)
        if stuck:
            msg = f"readying a producer of {self.transactional_id}, which is not needed: the client gives no answer"
            raise KafkaUnreachable(msg)


def _close(future: Future[PooledProducer]) -> None:
    error = future.exception()
    if error is None:
        future.result().producer.close()
    elif not isinstance(error, GivenUp):
        LOG.info("a producer that was not needed any more: %s", error)
