"""The writer of a subtask in the local pace: it commits its transactions itself, one after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.partition import TopicPartition
from sparkapp.sink.ending.background_proof import BackgroundProof
from sparkapp.sink.exactly_once_writer import OFFSETS_SECONDS
from sparkapp.sink.producers.preparation import PooledProducer
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.writer import FLUSH_SECONDS, KafkaWriter

if TYPE_CHECKING:
    from sparkapp.dataplane.interface import BatchProducer
    from sparkapp.sink.router import Router

_ABORT_SECONDS = 5.0


class LocalKafkaWriter(KafkaWriter):
    """One instance of a subtask: a producer that initialises its id once, and then commits as long as no doubt arises.

    It can only be closed after an error, an abort, a call without an answer, or a request that was sent twice (ADR 45).
    It writes on when the partitions' leaders have the markers of its last commit (ADR 68). They are asked while the
    next records are read.

    :param transactional_id: the subtask's only one.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        pool: ProducerPool,
        transactional_id: str,
        router: Router | None = None,
        timeout: float = FLUSH_SECONDS,
    ) -> None:
        super().__init__(sink, pool=pool, router=router, timeout=timeout)
        self._id = transactional_id
        self._entry: PooledProducer | None = None
        self._number = 0
        self._proof: BackgroundProof | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written since the last commit."""
        return not self._written

    def open(self) -> None:
        """Fences the id's other producers; the instance sends nothing more before its first record or commit.

        :raises TransactionFenced: another producer takes the id over at this moment.
        :raises KafkaAccessError: its subclasses, where the brokers refuse.
        """
        self._entry = self._pool.begin(self._id)
        self._next()

    def commit(self, offsets: Mapping[TopicPartition, int], *, group_id: str, metadata: str) -> bool:
        """Commits what was written, with the group's next offsets inside.

        :param metadata: text stored with each offset.
        :returns: whether the instance may write on. Otherwise it is closed. It has committed in both cases.
        :raises KafkaSparkJobError: the outcome is not known, or the commit before is not proven. It is closed then.
        """
        try:
            producer = self._producer()
            producer.send_offsets(
                offsets, group_id=group_id, metadata=metadata, timeout=min(self._timeout, OFFSETS_SECONDS)
            )
            acknowledged = producer.flush(self._timeout)
            if acknowledged != self._written:
                raise self._not_acknowledged(acknowledged)
            if producer.commit_transaction(self._timeout):
                self._prove(producer.take_partitions(), group_id)
                producer.begin_transaction()
                self._next()
                return True
        except BaseException:
            self._fail()
            raise
        self._fail()
        return False

    def abort(self) -> None:
        """Aborts what was written, and closes the instance: readers need not wait for the next instance to do so."""
        if self._entry is not None:
            with contextlib.suppress(Exception):
                self._entry.producer.abort_transaction(_ABORT_SECONDS)
        self._fail()

    def _next(self) -> None:
        self._reset()
        self._number += 1
        self.begin(self._number)

    def _producer(self) -> BatchProducer:
        assert self._entry is not None, "an open instance"
        proof, self._proof = self._proof, None
        if proof is not None:
            proof.require(Deadline.after(self._timeout))
        return self._entry.producer

    def _prove(self, partitions: Collection[TopicPartition], group_id: str) -> None:
        assert self._entry is not None, "an open instance"
        end = EndTxn(
            transactional_id=self._id, producer_id=self._entry.producer_id, producer_epoch=self._entry.producer_epoch,
            commit=True,
        )  # fmt: skip
        self._proof = BackgroundProof(partial(self._pool.proven.committed, end, partitions, group_id))

    def _drop_producer(self) -> None:
        if self._proof is not None:
            self._proof.close()
        self._entry = self._proof = None
        self._pool.drop(self._id)
