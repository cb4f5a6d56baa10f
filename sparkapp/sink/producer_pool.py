"""Producers of one worker process, kept alive from checkpoint to checkpoint."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sparkapp.model.errors import KafkaSparkJobError, TransactionFenced
from sparkapp.model.slots import Slots
from sparkapp.native.interface import BatchProducer
from sparkapp.sink.pooled_producer import PooledProducer
from sparkapp.sink.preparation import Preparation
from sparkapp.sink.transaction_describer import TransactionDescriber
from sparkapp.sink.transactions import TransactionDescription, TransactionState

LOG = logging.getLogger(__name__)

OpenProducer = Callable[[Mapping[str, str]], BatchProducer]

MAX_PRODUCERS = 32
"""Live transactional producers a process keeps; each has threads and buffers of its own."""


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
        self._preparing: Preparation | None = None
        self.slots = Slots()

    @property
    def live(self) -> int:
        """Open clients; 0 after :meth:`close` (the leak check of case T14)."""
        return len(self._entries) + (self._plain is not None)

    def prepare(self, transactional_id: str) -> None:
        """Readies the id's producer beside the caller, who goes on until its first record; then :meth:`begin`.

        Nothing is begun here. What goes wrong is told by :meth:`begin` of the same id. A task that ends without it
        calls :meth:`give_up`.
        """
        self.give_up()
        entry, spare = self._taken(transactional_id)
        self._preparing = Preparation(transactional_id, partial(self._ready, transactional_id, entry, spare))

    def give_up(self) -> None:
        """Ends what :meth:`prepare` began and nobody has asked for; called before a task without a record is reported.

        Its ``init_transactions`` would abort the transaction of whoever writes under the id next.

        :raises KafkaUnreachable: see :meth:`Preparation.give_up`; the task must fail.
        """
        preparing, self._preparing = self._preparing, None
        entry = None if preparing is None else preparing.give_up()
        if entry is not None:
            self._entries[entry.transactional_id] = entry

    def begin(self, transactional_id: str) -> PooledProducer:
        """A producer of the id with a transaction begun.

        One that is kept is reused if the coordinator still knows it under our pair and says that its last transaction
        is committed. Otherwise it is replaced, once, by a fresh one, whose ``init_transactions`` aborts what is open
        under the id: another worker wrote the subtask since, or a task failed here and is tried again.

        :raises TransactionFenced: another producer takes the id over at this moment.
        :raises KafkaAccessError: its subclasses, where the brokers do not let us work.
        """
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
        entry.began = True
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
        """Ends a producer that failed; it is never used again (W04, W11). An open transaction stays open."""
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

    def _taken(self, transactional_id: str) -> tuple[PooledProducer | None, list[PooledProducer]]:
        """The producer kept for the id, and those that have to make room for one more; none of them is kept now.

        What is readied in a thread of its own is nobody else's meanwhile.
        """
        entry = self._entries.pop(transactional_id, None)
        spare = []
        while len(self._entries) >= self._max:
            spare.append(self._entries.popitem(last=False)[1])
        return entry, spare

    def _ready(
        self,
        transactional_id: str,
        entry: PooledProducer | None,
        spare: Sequence[PooledProducer],
        preparation: Preparation,
    ) -> PooledProducer:
        for one in spare:
            one.producer.close()
        if entry is not None:
            try:
                if self._is_reusable(entry):
                    return entry
            except BaseException:
                entry.producer.close()
                raise
            entry.producer.close()
        return self._fresh(transactional_id, preparation)

    def _is_reusable(self, entry: PooledProducer) -> bool:
        found = self._client.describe([entry.transactional_id]).get(entry.transactional_id)
        if found is None or not _is_ours(entry, found):
            LOG.info("producer of %s is replaced: the coordinator says %s", entry.transactional_id, found)
            return False
        if entry.began:
            try:
                entry.producer.commit_transaction(self._timeout)
            except KafkaSparkJobError as error:
                LOG.info("producer of %s is replaced: %s", entry.transactional_id, error)
                return False
            entry.began = False
        return True

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
