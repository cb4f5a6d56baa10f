"""Producers of one worker process: one for each transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

from sparkapp.model.errors import KafkaSparkJobError, TransactionFenced
from sparkapp.model.slots import Slots
from sparkapp.native.interface import BatchProducer
from sparkapp.sink.pooled_producer import PooledProducer
from sparkapp.sink.preparation import Preparation
from sparkapp.sink.transaction_describer import TransactionDescriber
from sparkapp.sink.transactions import TransactionDescription

LOG = logging.getLogger(__name__)

OpenProducer = Callable[[Mapping[str, str]], BatchProducer]


class ProducerPool:
    """Opens a producer for each transaction, and keeps one that is not transactional; used by one thread.

    A worker process holds one pool a job and attempt; every writer of the process shares it. Opening a producer takes
    60 ms to 1 s: :meth:`prepare` does it beside the fetch of the first records.

    **One producer, one transaction.** Each transaction has a producer epoch of its own. A request that its sender has
    sent again may reach the broker when the id is in use again: the broker then refuses it, because the epoch is an
    older one (ADR 28). A second transaction of the same producer would be ended, or have its offsets overwritten.

    **Producer id and epoch.** The client has no getter for them, so the coordinator is asked: right after
    ``init_transactions`` and before the transaction. If another producer took the id over in between, the answer is
    that one's pair, but then our own first request is refused as fenced, and no committable is ever made of the pair:
    it is either ours or useless.

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
    ) -> None:
        self._open = open_producer
        self._client = client
        self._config = dict(config)
        self._timeout = timeout
        self._entries: dict[str, PooledProducer] = {}
        self._plain: BatchProducer | None = None
        self._preparing: Preparation | None = None
        self.slots = Slots()

    @property
    def live(self) -> int:
        """Open clients; 0 after :meth:`close` (the leak check of case T14)."""
        return len(self._entries) + (self._plain is not None)

    def prepare(self, transactional_id: str) -> None:
        """Opens a producer of the id beside the caller, who goes on until its first record; then :meth:`begin`.

        No transaction is begun here. A failure is raised by :meth:`begin` of the same id. A task that ends without it
        calls :meth:`give_up`.
        """
        self.give_up()
        self._preparing = Preparation(transactional_id, partial(self._fresh, transactional_id))

    def give_up(self) -> None:
        """Ends what :meth:`prepare` began and nobody has asked for; called before a task without a record is reported.

        Its ``init_transactions`` would abort the transaction of whoever writes under the id next.

        :raises KafkaUnreachable: see :meth:`Preparation.give_up`; the task must fail.
        """
        preparing, self._preparing = self._preparing, None
        if preparing is not None:
            preparing.give_up()

    def begin(self, transactional_id: str) -> PooledProducer:
        """A new producer of the id with its transaction begun; :meth:`drop` it when the transaction is pre-committed.

        Its ``init_transactions`` aborts what is open under the id: a task failed here and is tried again.

        :raises TransactionFenced: another producer takes the id over at this moment.
        :raises KafkaAccessError: its subclasses, where the brokers do not let us work.
        """
        self._end(transactional_id)
        if self._preparing is None or self._preparing.transactional_id != transactional_id:
            self.prepare(transactional_id)
        preparing, self._preparing = self._preparing, None
        assert preparing is not None
        entry = self._entries[transactional_id] = preparing.result()
        try:
            entry.producer.begin_transaction()
        except KafkaSparkJobError:
            self._end(transactional_id)
            raise
        return entry

    def verify(self, entry: PooledProducer) -> TransactionDescription:
        """Asks the coordinator, after the flush, whether the transaction is still open and still ours.

        Acknowledged records say nothing about what came after them: a newer producer, or the broker at the end of the
        transaction's time-out, may have aborted them since. A document must not name such a transaction.

        :returns: what it is described as; its start tells it from the producer's other transactions.
        :raises TransactionFenced: it is not.
        """
        found = self._client.describe([entry.transactional_id]).get(entry.transactional_id)
        if found is None or not found.is_open_with(entry.producer_id, entry.producer_epoch):
            msg = (
                f"{entry.transactional_id} was written with producer {entry.producer_id} epoch "
                f"{entry.producer_epoch}; its coordinator now says {found}"
            )
            raise TransactionFenced(msg)
        return found

    def plain(self) -> BatchProducer:
        """The producer without transactions; opened on first use, kept until it fails."""
        if self._plain is None:
            self._plain = self._open(self._config)
        return self._plain

    def check_plain(self) -> None:
        """Whether the producer without transactions has been told of a failed record; waits for nothing.

        :raises PreCommitFailed: and what the failure means.
        """
        if self._plain is not None:
            self._plain.check()

    def flush_plain(self, timeout: float) -> None:
        """Waits until what the producer without transactions still has is acknowledged; at an orderly end.

        :param timeout: seconds.
        :raises PreCommitFailed: something is not; and what a failure means.
        """
        if self._plain is not None:
            self._plain.flush(timeout)

    def drop(self, transactional_id: str) -> None:
        """Ends a producer; its open transaction stays open, for the driver or the next producer of the id to end."""
        self._give_up_quietly()
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
        self._give_up_quietly()
        for transactional_id in list(self._entries):
            self._end(transactional_id)
        self.drop_plain()

    def _give_up_quietly(self) -> None:
        """Where the task fails in any case, or the process ends."""
        try:
            self.give_up()
        except KafkaSparkJobError as error:
            LOG.warning("%s", error.message)

    def _fresh(self, transactional_id: str, preparation: Preparation) -> PooledProducer:
        preparation.check_wanted()
        producer = self._open({**self._config, "transactional.id": transactional_id})
        try:
            preparation.initialise(producer, self._timeout)
            found = self._client.describe([transactional_id]).get(transactional_id)
            if found is None:
                msg = f"{transactional_id} is unknown to its coordinator right after it was initialised"
                raise TransactionFenced(msg)
        except BaseException:
            producer.close()
            raise
        return PooledProducer(producer, transactional_id, found.producer_id, found.producer_epoch)
