"""A transactional producer, and its opening in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from sparkapp.clients.daemon_thread import run_in_background
from sparkapp.dataplane.interface import BatchProducer, GivenUp
from sparkapp.model.errors import KafkaUnreachable
from sparkapp.sink.producers.reusable_producers import CommittedTransaction

LOG = logging.getLogger(__name__)

_SLICE_SECONDS = 5.0
"""A slice of ``init_transactions`` is over well before."""


@dataclass(frozen=True, slots=True)
class PooledProducer:
    """A live transactional producer with its producer id and epoch."""

    producer: BatchProducer
    transactional_id: str
    producer_id: int
    producer_epoch: int


class Preparation:
    """Opens the producer of an id in the background; made by the producer pool.

    :param ready: opens the producer, in its own thread; it calls :meth:`initialise` for the step that may fence another
        producer of the id.
    :param last: the transaction that a kept producer has written; None for a new producer.
    """

    def __init__(
        self,
        transactional_id: str,
        ready: Callable[[Preparation], PooledProducer],
        *,
        last: CommittedTransaction | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.last = last
        self._given_up = threading.Event()
        self._fencing = False
        self._future = run_in_background(partial(ready, self), name="prepare-producer")

    @property
    def has_failed(self) -> bool:
        """Whether it has not opened its producer, and never will."""
        return self._future.done() and self._future.exception() is not None

    def check_wanted(self) -> None:
        """:raises GivenUp: the task no longer needs it."""
        if self._given_up.is_set():
            raise GivenUp

    def initialise(self, producer: BatchProducer, timeout: float) -> None:
        """``init_transactions``, which fences the id's other producer and aborts its open transaction.

        :raises GivenUp: the task no longer needs it; no further slice begins.
        """
        self._fencing = True
        try:
            producer.init_transactions(timeout, wanted=lambda: not self._given_up.is_set())
        finally:
            self._fencing = False

    def result(self) -> PooledProducer:
        """The producer, once it is ready. :raises KafkaSparkJobError: it could not be opened."""
        return self._future.result()

    def give_up(self) -> None:
        """Returns when the producer can fence nothing any more, which is soon: its task then may be reported as done.

        The producer is closed, now or when it is ready.

        :raises KafkaUnreachable: the client does not return from a call that may still fence. The caller must fail with
            this error: then the worker process ends, and the call with it.
        """
        self._given_up.set()
        if self._fencing:
            wait([self._future], timeout=_SLICE_SECONDS)
        stuck = self._fencing and not self._future.done()
        self._future.add_done_callback(_close)
        if stuck:
            msg = f"giving up the unused producer of {self.transactional_id}: the client does not answer"
            raise KafkaUnreachable(msg)


def _close(future: Future[PooledProducer]) -> None:
    error = future.exception()
    if error is None:
        future.result().producer.close()
    elif not isinstance(error, GivenUp):
        LOG.info("an unused producer failed: %s", error)
