"""The writer of one subtask under ExactlyOnce: records of a checkpoint into one transaction, up to its pre-commit."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.slots import slot_of
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.job.sections.sink import Sink
from sparkapp.sink.producers.preparation import PooledProducer
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.producers.reusable_producers import CommittedTransaction
from sparkapp.sink.writer import FLUSH_SECONDS, KafkaWriter

if TYPE_CHECKING:
    from sparkapp.dataplane.interface import BatchProducer
    from sparkapp.sink.router import Router

OFFSETS_SECONDS = 45.0
"""To add the source offsets to a transaction: longer than one request, and short enough for a client that has lost the
group's coordinator (``dataplane.producer``)."""

_NOTED_SECONDS = 2.0
"""For which a noted start spares the question behind the flush: longer than a checkpoint is open. A process that was
frozen asks again, since another may have ended its transaction. Then this try fails, and not the whole attempt."""


class ExactlyOnceKafkaWriter(KafkaWriter):
    """Writes the records of one subtask into transactions (Flink's ``ExactlyOnceKafkaWriter``).

    :param ids: transactional ids of the subtask; see :func:`sparkapp.model.checkpoint.naming.pool_of_subtask`.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        pool: ProducerPool,
        subtask: int,
        ids: Sequence[str],
        router: Router | None = None,
        timeout: float = FLUSH_SECONDS,
    ) -> None:
        super().__init__(sink, pool=pool, router=router, timeout=timeout)
        self._subtask = subtask
        self._ids = ids
        self._transactional_id: str | None = None
        self._entry: PooledProducer | None = None
        self._noted: tuple[int, float] | None = None
        """The start of the current transaction, and when it was asked for."""

    @property
    def transactional_id(self) -> str | None:
        """See :attr:`KafkaWriter.transactional_id`."""
        return self._transactional_id

    def prepare(self) -> None:
        """See :meth:`KafkaWriter.prepare`."""
        if self._transactional_id is not None and self._entry is None:
            self._pool.prepare(self._transactional_id)

    def fence(self) -> None:
        """See :meth:`KafkaWriter.fence`: a new producer's ``init_transactions`` does it."""
        try:
            self._transaction()
        except BaseException:
            self._fail()
            raise

    def prepare_next(self, checkpoint_id: int) -> None:
        """See :meth:`KafkaWriter.prepare_next`."""
        if self._pool.slots.is_free(self._ids, checkpoint_id):
            self._pool.prepare(self._ids[slot_of(checkpoint_id, len(self._ids))])

    def note_start(self) -> None:
        """See :meth:`KafkaWriter.note_start`."""
        if self._entry is not None and self._noted_start() is None:
            asked = time.monotonic()
            try:
                start = self._pool.start_of(self._entry)
            except BaseException:
                self._fail()
                raise
            self._noted = None if start is None else (start, asked)

    def notify_committed(
        self, checkpoint_id: int, *, reusable: Mapping[str, CommittedTransaction] | None = None
    ) -> None:
        """See :meth:`KafkaWriter.notify_committed`."""
        self._pool.slots.settle(checkpoint_id)
        self._pool.reusable = reusable

    def abort(self) -> None:
        """Aborts the transaction and drops the producer, because an abort may change its epoch.

        The next producer of the id or the next recovery ends the transaction in any case. An abort here only frees
        readers earlier, so its failure is no error.
        """
        entry = self._entry
        if entry is not None:
            with contextlib.suppress(Exception):
                entry.producer.abort_transaction(self._timeout)
        self._fail()

    def _take_slot(self, checkpoint_id: int) -> None:
        self._transactional_id = self._pool.slots.take(self._ids, checkpoint_id)

    def _producer(self) -> BatchProducer:
        return self._transaction().producer

    def _transaction(self) -> PooledProducer:
        assert self._transactional_id is not None
        if self._entry is None:
            self._entry = self._pool.begin(self._transactional_id)
        return self._entry

    def _drop_producer(self) -> None:
        if self._transactional_id is not None:
            self._pool.drop(self._transactional_id)

    def _pre_commit(
        self, checkpoint_id: int, ranges: tuple[KafkaPartitionSplit, ...], group_id: str | None, metadata: str
    ) -> KafkaCommittable | None:
        if not self._written:
            if self._entry is not None:
                self._pool.end(self._entry.transactional_id)
            return None
        entry = self._transaction()
        inside: tuple[KafkaPartitionSplit, ...] = ()
        if group_id is not None and ranges:
            inside = ranges
            entry.producer.send_offsets(
                {split.partition: split.stop for split in ranges},
                group_id=group_id,
                metadata=metadata,
                timeout=min(self._timeout, OFFSETS_SECONDS),
            )
        acknowledged = entry.producer.flush(self._timeout)
        if acknowledged != self._written:
            raise self._not_acknowledged(acknowledged)
        start = self._noted_start()
        if start is None:
            start = self._pool.verify(entry)
        self._pool.keep(entry, checkpoint_id, among=self._ids)
        return KafkaCommittable(
            transactional_id=entry.transactional_id,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            checkpoint_id=checkpoint_id,
            subtask=self._subtask,
            records=self._records,
            dead_letters=self._dead_letters,
            start_time_ms=start,
            ranges=inside,
        )

    def _noted_start(self) -> int | None:
        if self._noted is None or time.monotonic() - self._noted[1] > _NOTED_SECONDS:
            return None
        return self._noted[0]

    def _reset(self) -> None:
        super()._reset()
        self._entry = None
        self._noted = None
        self._transactional_id = None
