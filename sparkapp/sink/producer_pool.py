"""Producers of one worker process, kept alive from checkpoint to checkpoint."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from sparkapp.model.errors import KafkaSparkJobError, TransactionFenced
from sparkapp.model.slots import Slots
from sparkapp.native.beside import beside
from sparkapp.native.interface import BatchProducer
from sparkapp.sink.transactions import TransactionDescription, TransactionState

LOG = logging.getLogger(__name__)

OpenProducer = Callable[[Mapping[str, str]], BatchProducer]

MAX_PRODUCERS = 32
"""Live transactional producers a process keeps; each has threads and buffers of its own."""


class TransactionDescriber(Protocol):
    """What is needed of :class:`sparkapp.sink.transaction_client.TransactionClient`."""

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]: ...


@dataclass(slots=True)
class PooledProducer:
    """A live transactional producer and the identity under which the broker knows it.

    :param began: whether a transaction was begun with it that the client still believes to be open.
    """

    producer: BatchProducer
    transactional_id: str
    producer_id: int
    producer_epoch: int
    began: bool = False


class ProducerPool:
    """Keeps producers by transactional id, and one that is not transactional; used by one thread.

    A worker process holds one pool a job and attempt; every writer of the process shares it. Reusing a producer costs
    two small requests, opening one 60 ms to 1 s: :meth:`prepare` has that go on beside the fetch of the first records.

    **Producer id and epoch.** The client has no getter for them, so the coordinator is asked: right after
    ``init_transactions`` and before the first transaction. If another producer took the id over in between, the answer
    is that one's pair, but then our own first request is refused as fenced, and no committable is ever made of the
    pair: it is either ours or useless. The pair holds for as long as the producer does, since librdkafka bumps the
    epoch only when it aborts, and a producer that aborted is dropped.

    :param open_producer: opens a client; see :func:`sparkapp.native.batch.open_producer`.
    :param config: without ``transactional.id``, which the pool adds.
    :param timeout: seconds for each blocking call of a client.
    """

    def __init__(
        self,
        *,
        open_producer: OpenProducer,
        client: TransactionDescriber,
        config: Mapping[str, str],
        timeout: float = 60.0,
        max_producers: int = MAX_PRODUCERS,
    ) -> None:
        self._open = open_producer
        self._client = client
        self._config = dict(config)
        self._timeout = timeout
        self._max = max_producers
        self._entries: OrderedDict[str, PooledProducer] = OrderedDict()
        self._plain: BatchProducer | None = None
        self._preparing: tuple[str, Future[PooledProducer]] | None = None
        self.slots = Slots()

    @property
    def live(self) -> int:
        """Open clients; 0 after :meth:`close` (the leak check of case T14)."""
        return len(self._entries) + (self._plain is not None)

    def prepare(self, transactional_id: str) -> None:
        """Readies the id's producer beside the caller, who goes on until its first record; then :meth:`begin`.

        Nothing is begun here. What goes wrong is told by :meth:`begin` of the same id.
        """
        self._prepared(transactional_id)
        ready = beside(partial(self._ready, transactional_id), name="prepare-producer")
        self._preparing = (transactional_id, ready)

    def begin(self, transactional_id: str) -> PooledProducer:
        """A producer of the id with a transaction begun.

        One that is kept is reused if the coordinator still knows it under our pair and says that its last transaction
        is committed. Otherwise it is replaced, once, by a fresh one, whose ``init_transactions`` aborts what is open
        under the id: another worker wrote the subtask since, or a task failed here and is tried again.

        :raises TransactionFenced: another producer takes the id over at this moment.
        :raises KafkaAccessError: its subclasses, where the brokers do not let us work.
        """
        ready = self._prepared(transactional_id)
        entry = self._ready(transactional_id) if ready is None else ready.result()
        try:
            entry.producer.begin_transaction()
        except KafkaSparkJobError:
            self._end(transactional_id)
            raise
        entry.began = True
        return entry

    def verify(self, entry: PooledProducer) -> None:
        """Asks the coordinator, after the flush, whether the transaction is still open and still ours.

        Acknowledged records say nothing about what came after them: a newer producer, or the broker at the end of the
        transaction's time-out, may have aborted them since. A document must not name such a transaction.

        :raises TransactionFenced: it is not.
        """
        found = self._client.describe([entry.transactional_id]).get(entry.transactional_id)
        if found is None or not found.is_open_with(entry.producer_id, entry.producer_epoch):
            msg = (
                f"{entry.transactional_id} was written with producer {entry.producer_id} epoch "
                f"{entry.producer_epoch}; its coordinator now says {found}"
            )
            raise TransactionFenced(msg)

    def plain(self) -> BatchProducer:
        """The producer without transactions; opened on first use, kept until it fails."""
        if self._plain is None:
            self._plain = self._open(self._config)
        return self._plain

    def drop(self, transactional_id: str) -> None:
        """Ends a producer that failed; it is never used again (W04, W11). An open transaction stays open."""
        self._prepared(transactional_id)
        self._end(transactional_id)

    def _end(self, transactional_id: str) -> None:
        entry = self._entries.pop(transactional_id, None)
        if entry is not None:
            entry.producer.close()

    def drop_plain(self) -> None:
        """Ends the producer without transactions after a failure."""
        producer, self._plain = self._plain, None
        if producer is not None:
            producer.close()

    def close(self) -> None:
        """Ends every client; open transactions stay open, to be settled by whoever holds their triples."""
        self._prepared("")
        for transactional_id in list(self._entries):
            self._end(transactional_id)
        self.drop_plain()

    def _prepared(self, transactional_id: str) -> Future[PooledProducer] | None:
        """Waits for what was prepared; what it came to where that was for this id."""
        preparing, self._preparing = self._preparing, None
        if preparing is None:
            return None
        prepared_id, ready = preparing
        wait([ready])
        return ready if prepared_id == transactional_id else None

    def _ready(self, transactional_id: str) -> PooledProducer:
        return self._reusable(transactional_id) or self._fresh(transactional_id)

    def _reusable(self, transactional_id: str) -> PooledProducer | None:
        entry = self._entries.get(transactional_id)
        if entry is None:
            return None
        found = self._client.describe([transactional_id]).get(transactional_id)
        if found is None or not _is_ours(entry, found):
            LOG.info("producer of %s is replaced: the coordinator says %s", transactional_id, found)
            self._end(transactional_id)
            return None
        if entry.began:
            try:
                entry.producer.commit_transaction(self._timeout)
            except KafkaSparkJobError as error:
                LOG.info("producer of %s is replaced: %s", transactional_id, error)
                self._end(transactional_id)
                return None
            entry.began = False
        self._entries.move_to_end(transactional_id)
        return entry

    def _fresh(self, transactional_id: str) -> PooledProducer:
        while len(self._entries) >= self._max:
            self._end(next(iter(self._entries)))
        producer = self._open({**self._config, "transactional.id": transactional_id})
        try:
            producer.init_transactions(self._timeout)
            found = self._client.describe([transactional_id]).get(transactional_id)
            if found is None:
                msg = f"{transactional_id} is unknown to its coordinator right after it was initialised"
                raise TransactionFenced(msg)
        except BaseException:
            producer.close()
            raise
        entry = PooledProducer(producer, transactional_id, found.producer_id, found.producer_epoch)
        self._entries[transactional_id] = entry
        return entry


def _is_ours(entry: PooledProducer, found: TransactionDescription) -> bool:
    """Whether the client can go on: nobody took the id over, and what it began was committed by the driver.

    A transaction of ours that is still open is none that a checkpoint counted (its slot would not be free), so it must
    be aborted, never completed from here.
    """
    if (found.producer_id, found.producer_epoch) != (entry.producer_id, entry.producer_epoch):
        return False
    if entry.began:
        return found.state in {TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT}
    return not found.state.open
