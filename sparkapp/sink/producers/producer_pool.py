"""Producers of one worker process: a producer for each transaction, and a shared producer without transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from sparkapp.clients.transactions.partition_logs import LogScope
from sparkapp.dataplane.interface import BatchProducer
from sparkapp.model.checkpoint.slots import Slots
from sparkapp.model.errors import AuthenticationFailed, KafkaSparkJobError, TlsFailed, TransactionFenced
from sparkapp.sink.ending.proven_ends import EndingClient
from sparkapp.sink.ending.proven_ids import ProvenIds
from sparkapp.sink.producers.kept_producers import KeptProducers
from sparkapp.sink.producers.preparation import PooledProducer, Preparation
from sparkapp.sink.producers.reusable_producers import CommittedTransaction

LOG = logging.getLogger(__name__)

_MOST_KEPT = 8
"""Kept producers of a subtask. Each is a client with a thread and a connection for each broker."""
_AGAIN_SECONDS = 5.0
"""For the client of a kept producer to learn that its transaction is committed; otherwise a new client has its time."""

OpenProducer = Callable[[Mapping[str, str]], BatchProducer]
Renew = Callable[[Mapping[str, str]], "tuple[EndingClient, Mapping[str, str]] | None"]
"""A client and a configuration with new credentials, after the brokers refused credentials; None without any."""


class ProducerPool:
    """Opens a producer for each transaction, and keeps a producer without transactions; used by one thread.

    A worker process holds one pool a job and attempt; every writer of the process shares it. Opening a producer takes
    60 ms to 1 s: :meth:`prepare` does it during the fetch of the first records.

    **One producer, one transaction.** Each transaction has its own producer epoch. A repeated request may reach the
    broker when the id is in use again. The broker then refuses it, because its epoch is older (ADR 28). A second
    transaction of the same producer would be ended, or have its offsets overwritten. So a producer has a second one
    only where no request was repeated (:meth:`keep`, ADR 62).

    **Producer id and epoch.** The client has no getter for them. So the coordinator is asked, right after
    ``init_transactions`` and before the transaction. If another producer took the id over in between, the answer is
    that producer's pair. But then the broker refuses this producer's first request as fenced, and no committable is
    made of the pair.

    :param open_producer: opens a client; see :func:`sparkapp.dataplane.batch.open_producer`.
    :param config: without ``transactional.id``, which the pool adds.
    :param scope: the partitions that the job's transactions can have written to.
    :param commits_itself: whether the producers commit, and not the driver.
    :param renew: called when the brokers refuse the credentials; a Secret may have changed.
    :param timeout: seconds for each blocking call of a client.
    :ivar reusable: the last transaction of each id whose producer may be used again; None: no producer is kept.
    """

    def __init__(
        self,
        *,
        open_producer: OpenProducer,
        client: EndingClient,
        config: Mapping[str, str],
        scope: LogScope,
        commits_itself: bool = False,
        renew: Renew = lambda _: None,
        timeout: float = 60.0,
    ) -> None:
        self._open = open_producer
        self._client = client
        self._config = config
        self._scope = scope
        self._commits_itself = commits_itself
        self._renew = renew
        self._timeout = timeout
        self._entries: dict[str, PooledProducer] = {}
        self._plain: BatchProducer | None = None
        self._preparing: Preparation | None = None
        self._kept = KeptProducers()
        self.slots = Slots()
        self.reusable: Mapping[str, CommittedTransaction] | None = None

    @property
    def proven(self) -> ProvenIds:
        """Proves the ends of the ids' transactions, with the pool's present client."""
        return ProvenIds(self._client, self._scope, commits_itself=self._commits_itself)

    @property
    def live(self) -> int:
        """Open clients; 0 after :meth:`close` (the leak check of case T14)."""
        return len(self._entries) + len(self._kept) + (self._plain is not None)

    def prepare(self, transactional_id: str) -> None:
        """Opens a producer of the id in the background; the caller continues until its first record.

        :meth:`begin` of the same id begins the transaction, and raises a failure of the preparation. A task that ends
        without a record calls :meth:`give_up`. A preparation of the same id stays, unless it has failed or its producer
        is retired.
        """
        preparing = self._prepared(transactional_id)
        if preparing is not None and not preparing.has_failed:
            return
        self.give_up()
        last = self._last(transactional_id)
        kept = self._kept.take(transactional_id, last=last)
        if kept is None:
            self._preparing = Preparation(transactional_id, partial(self._fresh, transactional_id))
        else:
            self._preparing = Preparation(transactional_id, partial(self._again, kept), last=last)

    def give_up(self) -> None:
        """Ends an unused preparation; called before a task without a record is reported.

        Its ``init_transactions`` would abort the next transaction under the id.

        :raises KafkaUnreachable: see :meth:`Preparation.give_up`; the task must fail.
        """
        preparing, self._preparing = self._preparing, None
        if preparing is not None:
            preparing.give_up()

    def begin(self, transactional_id: str) -> PooledProducer:
        """The id's producer with its transaction begun; :meth:`keep` or :meth:`end` it behind the pre-commit.

        It is a new producer, unless one is kept for the id. The ``init_transactions`` of a new producer aborts an open
        transaction of the id: that of a failed task, which is retried.

        :raises TransactionFenced: another producer takes the id over at this moment.
        :raises KafkaAccessError: its subclasses, where the brokers refuse.
        """
        self.end(transactional_id)
        if self._prepared(transactional_id) is None:
            self.prepare(transactional_id)
        preparing, self._preparing = self._preparing, None
        assert preparing is not None
        entry = self._entries[transactional_id] = preparing.result()
        try:
            entry.producer.begin_transaction()
        except KafkaSparkJobError:
            self.end(transactional_id)
            raise
        return entry

    def verify(self, entry: PooledProducer) -> int:
        """Asks the coordinator, after the flush, whether this producer's transaction is still open.

        Acknowledged records may have been aborted since: by a newer producer, or by the broker at the end of the
        transaction's time-out. A document must not name such a transaction.

        :returns: its start, which tells it from other transactions of the producer. Milliseconds by the coordinator's
            clock; 0 where the coordinator does not say it.
        :raises TransactionFenced: it is not open.
        """
        found = self._client.describe([entry.transactional_id]).get(entry.transactional_id)
        if found is None or not found.is_open_with(entry.producer_id, entry.producer_epoch):
            msg = (
                f"{entry.transactional_id} was written with producer {entry.producer_id} epoch "
                f"{entry.producer_epoch}; its coordinator now says {found}"
            )
            raise TransactionFenced(msg)
        return max(found.start_time_ms, 0)

    def start_of(self, entry: PooledProducer) -> int | None:
        """The start of this producer's transaction, as :meth:`verify`; None where its coordinator has none open.

        So it is until the coordinator knows the transaction's first partition.
        """
        try:
            return self.verify(entry) or None
        except TransactionFenced:
            return None

    def plain(self) -> BatchProducer:
        """The producer without transactions; opened on first use, kept until it fails."""
        if self._plain is None:
            self._plain = self._open(self._config)
        return self._plain

    def check_plain(self) -> None:
        """Checks the delivery reports of the producer without transactions; waits for nothing.

        :raises PreCommitFailed: or the error of the failed record.
        """
        if self._plain is not None:
            self._plain.check()

    def flush_plain(self, timeout: float) -> None:
        """Waits until all records of the producer without transactions are acknowledged; at an orderly end.

        :param timeout: seconds.
        :raises PreCommitFailed: records are not acknowledged; or the error of a failed record.
        """
        if self._plain is not None:
            self._plain.flush(timeout)

    def drop(self, transactional_id: str) -> None:
        """:meth:`end` after a failure: a preparation is given up."""
        self._give_up_quietly()
        self.end(transactional_id)

    def end(self, transactional_id: str) -> None:
        """Ends a producer; its open transaction stays open, for the driver or the next producer of the id to end."""
        entry = self._entries.pop(transactional_id, None)
        if entry is not None:
            entry.producer.close()

    def keep(self, entry: PooledProducer, checkpoint_id: int, *, among: Collection[str]) -> None:
        """:meth:`end` after a pre-commit; but the producer stays open where a later checkpoint may use it again.

        :param among: ids of the subtask. Producers of other ids are closed. Of many ids none is kept.
        """
        if self.reusable is not None and len(among) <= _MOST_KEPT:
            del self._entries[entry.transactional_id]
            self._kept.keep(entry, checkpoint_id, among=among)
        else:
            self.end(entry.transactional_id)

    def drop_plain(self) -> None:
        """Ends the producer without transactions after a failure."""
        producer, self._plain = self._plain, None
        if producer is not None:
            producer.close()

    def drop_kept(self) -> None:
        """Closes the kept producers; at an orderly end of the subtask."""
        self._kept.close()

    def close(self) -> None:
        """Ends every client; open transactions stay open, until recovery or the coordinator ends them."""
        self._give_up_quietly()
        for transactional_id in list(self._entries):
            self.end(transactional_id)
        self._kept.close()
        self.drop_plain()

    def _give_up_quietly(self) -> None:
        """:meth:`give_up` where the task fails in any case, or the process ends."""
        try:
            self.give_up()
        except KafkaSparkJobError as error:
            LOG.warning("%s", error.message)

    def _prepared(self, transactional_id: str) -> Preparation | None:
        """The id's preparation. None where an order has retired the kept producer that was prepared ahead."""
        preparing = self._preparing
        if preparing is None or preparing.transactional_id != transactional_id:
            return None
        return preparing if preparing.last in (None, self._last(transactional_id)) else None

    def _last(self, transactional_id: str) -> CommittedTransaction | None:
        return None if self.reusable is None else self.reusable.get(transactional_id)

    def _again(self, kept: PooledProducer, preparation: Preparation) -> PooledProducer:
        """The kept producer, once its client knows that its transaction is committed; or else a new producer."""
        try:
            is_clean = kept.producer.commit_transaction(min(self._timeout, _AGAIN_SECONDS))
        except KafkaSparkJobError as error:
            LOG.info("%s: the kept producer is replaced by a new producer: %s", kept.transactional_id, error.message)
            is_clean = False
        except BaseException:
            kept.producer.close()
            raise
        if is_clean:
            return kept
        kept.producer.close()
        return self._fresh(kept.transactional_id, preparation)

    def _fresh(self, transactional_id: str, preparation: Preparation) -> PooledProducer:
        preparation.check_wanted()
        try:
            return self._initialised(transactional_id, preparation)
        except (AuthenticationFailed, TlsFailed) as error:
            renewed = self._renew(self._config)
            if renewed is None:
                raise
            LOG.info("%s; again with the new content of the Secrets", error.message)
        self._client, self._config = renewed
        return self._initialised(transactional_id, preparation)

    def _initialised(self, transactional_id: str, preparation: Preparation) -> PooledProducer:
        producer = self._open({**self._config, "transactional.id": transactional_id})
        try:
            before = self.proven.before_init(transactional_id, timeout=self._timeout)
            preparation.initialise(producer, self._timeout)
            found = self._client.describe([transactional_id]).get(transactional_id)
            if found is None:
                msg = f"{transactional_id} is unknown to its coordinator right after it was initialised"
                raise TransactionFenced(msg)
            self.proven.after_init(transactional_id, before, found, timeout=self._timeout)
        except BaseException:
            producer.close()
            raise
        return PooledProducer(producer, transactional_id, found.producer_id, found.producer_epoch)
