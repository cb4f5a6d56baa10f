"""The writer of one subtask: records of a checkpoint into one transaction, up to pre-commit. It never commits."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sparkapp.model.committable import KafkaCommittable
from sparkapp.model.errors import InvalidArgument, PreCommitFailed
from sparkapp.model.job import Job, Sink, TransactionTimeout
from sparkapp.model.semantic import Semantic
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.model.transaction_naming import pool_of_subtask
from sparkapp.sink.pooled_producer import PooledProducer
from sparkapp.sink.producer_pool import ProducerPool

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkapp.native.interface import BatchProducer
    from sparkapp.sink.router import Router

FLUSH_SECONDS = 120.0
REQUEST_MILLIS = 30_000
"""One request of a producer. Left alone, librdkafka takes nearly the whole transaction time-out, and its calls do not
end before their request does: behind a network that fails without a word a task would hang for a quarter of an hour."""

OFFSETS_SECONDS = 45.0
"""To add the source offsets to a transaction: longer than one request, and no longer than need be where the client has
lost the group's coordinator (``native.checked_producer``)."""


def producer_config(job: Job, shared: Mapping[str, str]) -> dict[str, str]:
    """librdkafka properties of the job's producers, without the transactional id. Pure.

    The user's properties (checked against the deny-list when the resource was read) win over the performance defaults
    and lose against what the semantic needs.

    :param shared: what every client of the job needs; see :func:`sparkapp.model.client_config.cluster_config`.
    """
    sink = job.spec.sink
    config = {**sink.properties, **shared}
    if sink.semantic is Semantic.NONE:
        return config
    config |= {
        "acks": "all",
        "enable.idempotence": "true",
        "max.in.flight.requests.per.connection": "5",
    }
    if sink.semantic is Semantic.EXACTLY_ONCE:
        transaction_millis = sink.transaction_timeout_millis
        config["transaction.timeout.ms"] = str(transaction_millis)
        if sink.transaction_timeout is TransactionTimeout.NEVER:
            # librdkafka refuses socket.timeout.ms here: it compares it with the time-out + 100 ms, which overflows. So
            # a request has no limit of its own, and what a task waits for must have one.
            if "delivery.timeout.ms" not in config:  # its other name
                config.setdefault("message.timeout.ms", str(round(FLUSH_SECONDS * 1000)))
        else:
            config.setdefault("socket.timeout.ms", str(min(REQUEST_MILLIS, transaction_millis)))
    return config


class KafkaWriter:
    """Writes one subtask's records; made for a task, or kept over checkpoints, as the engine likes.

    :param pool: the process's producers, shared by its writers.
    :param next_free: base of this life's transactional ids by hint: the restored hint's next free id.
    :param router: chooses topics and partitions; None leaves both to the sink's topic and the client's partitioner.
    :param timeout: seconds for a flush; never longer than the transaction may stay open.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        pool: ProducerPool,
        subtask: int,
        parallelism: int,
        next_free: int,
        router: Router | None = None,
        timeout: float = FLUSH_SECONDS,
    ) -> None:
        self._sink = sink
        self._pool = pool
        self._subtask = subtask
        self._router = router
        self._timeout = min(timeout, sink.transaction_timeout_millis / 1000)
        self._ids: Sequence[str] = ()
        if sink.semantic is Semantic.EXACTLY_ONCE:
            self._ids = pool_of_subtask(
                sink.transaction_naming,
                prefix=sink.transactional_id_prefix,
                subtask=subtask,
                parallelism=parallelism,
                pool_size=sink.producers_pool_size,
                next_free=next_free,
            )
        self._checkpoint_id: int | None = None
        self._transactional_id: str | None = None
        self._entry: PooledProducer | None = None
        self._records = 0
        self._dead_letters = 0

    @property
    def records(self) -> int:
        """Records of the current checkpoint, or of the last one after its pre-commit; without dead letters."""
        return self._records

    @property
    def dead_letters(self) -> int:
        """Dead letters of the current checkpoint, or of the last one after its pre-commit."""
        return self._dead_letters

    @property
    def transactional_id(self) -> str | None:
        """The id that the current checkpoint's records are written under; None between checkpoints, or without one."""
        return self._transactional_id

    def begin(self, checkpoint_id: int) -> None:
        """Names the checkpoint that the next records belong to; no transaction is begun before the first one (W05).

        :raises ProducersPoolEmpty: the checkpoint's slot is not free (T01, T08).
        """
        if self._checkpoint_id is not None:
            msg = f"checkpoint {self._checkpoint_id} is not pre-committed, {checkpoint_id} cannot begin"
            raise InvalidArgument(msg)
        if self._sink.semantic is Semantic.EXACTLY_ONCE:
            self._transactional_id = self._pool.slots.take(self._ids, checkpoint_id)
        self._checkpoint_id = checkpoint_id
        self._records = 0
        self._dead_letters = 0

    def prepare(self) -> None:
        """Has the current checkpoint's producer readied beside what the caller does until its first record."""
        if self._transactional_id is not None and self._entry is None:
            self._pool.prepare(self._transactional_id)

    def write(self, batch: pa.RecordBatch) -> None:
        """Hands a batch to the producer; see :class:`sparkapp.native.interface.BatchProducer` for its columns.

        :raises TransactionFenced: and what the client or the router raises; the producer is dropped and the task has
            failed.
        """
        self._produce(batch, self._sink.topic, self._router)
        self._records += batch.num_rows

    def write_dead_letters(self, batch: pa.RecordBatch, *, topic: str) -> None:
        """:meth:`write` to the dead letter topic, in the same transaction; counted apart."""
        self._produce(batch, topic)
        self._dead_letters += batch.num_rows

    def pre_commit(
        self, ranges: Sequence[KafkaPartitionSplit], *, group_id: str | None, metadata: str = ""
    ) -> KafkaCommittable | None:
        """The first phase: everything written is acknowledged when this returns.

        EXACTLY_ONCE: source offsets into the transaction, flush, every delivery report a success; the transaction stays
        open. AT_LEAST_ONCE: flush and reports. NONE: nothing is awaited; reports that are there are checked, which are
        of earlier checkpoints mostly (seed 002: ``preCommit`` ends with ``checkErroneous`` whatever the semantic).

        :param ranges: the source ranges behind the records; their ends go into the transaction as the group's offsets.
        :param group_id: None where offsets do not go into transactions; the committable then has no ranges, since the
            group's offsets prove nothing about it.
        :param metadata: text stored with each offset.
        :returns: what the driver needs to commit, or None without a transaction; a producer that was prepared for it
            fences nobody any more then.
        :raises PreCommitFailed: a record is not acknowledged (NONE: one was refused).
        :raises TransactionFenced: a newer producer of the id.
        """
        checkpoint_id = self._checkpoint_id
        if checkpoint_id is None:
            msg = "begin a checkpoint before its pre-commit"
            raise InvalidArgument(msg)
        try:
            committable = self._pre_commit(checkpoint_id, tuple(ranges), group_id, metadata)
            if committable is None:
                self._pool.give_up()
        except BaseException:
            self._fail()
            raise
        self._reset()
        return committable

    def notify_committed(self, checkpoint_id: int) -> None:
        """Every checkpoint up to this one is complete; frees the slots of older ones."""
        self._pool.slots.settle(checkpoint_id)

    def abort(self) -> None:
        """Gives the current checkpoint's records up; the producer is dropped, for an abort may change its epoch.

        The transaction itself is ended by the next producer of its id, or by the next attempt's recovery; aborting here
        only frees readers earlier, so a failure to do it is not one.
        """
        entry = self._entry
        if entry is not None:
            with contextlib.suppress(Exception):
                entry.producer.abort_transaction(self._timeout)
        self._fail()

    def close(self) -> None:
        """Ends the writer: an unfinished checkpoint is aborted (W06); pre-committed transactions stay open.

        The pool's producers belong to the process and stay.
        """
        if self._checkpoint_id is not None:
            self.abort()

    def _produce(self, batch: pa.RecordBatch, topic: str, router: Router | None = None) -> None:
        if self._checkpoint_id is None:
            msg = "begin a checkpoint before writing"
            raise InvalidArgument(msg)
        if not batch.num_rows:
            return
        try:
            routed = batch if router is None else router.route(batch)
            self._producer().produce(routed, topic=topic)
        except BaseException:
            self._fail()
            raise

    def _producer(self) -> BatchProducer:
        if self._transactional_id is None:
            return self._pool.plain()
        if self._entry is None:
            self._entry = self._pool.begin(self._transactional_id)
        return self._entry.producer

    def _pre_commit(
        self, checkpoint_id: int, ranges: tuple[KafkaPartitionSplit, ...], group_id: str | None, metadata: str
    ) -> KafkaCommittable | None:
        if self._sink.semantic is Semantic.NONE:
            self._pool.check_plain()
            return None
        written = self._records + self._dead_letters
        if not written:
            return None
        producer = self._producer()
        entry = self._entry
        inside: tuple[KafkaPartitionSplit, ...] = ()
        if entry is not None and group_id is not None and ranges:
            inside = ranges
            producer.send_offsets(
                {split.partition: split.stop for split in ranges},
                group_id=group_id,
                metadata=metadata,
                timeout=min(self._timeout, OFFSETS_SECONDS),
            )
        acknowledged = producer.flush(self._timeout)
        # More than ours can only be what a failed task left behind in the shared producer without transactions.
        if acknowledged < written or (entry is not None and acknowledged != written):
            msg = f"{written} records were written, {acknowledged} acknowledged"
            raise PreCommitFailed(msg)
        if entry is None:
            return None
        found = self._pool.verify(entry)
        self._pool.drop(entry.transactional_id)
        return KafkaCommittable(
            transactional_id=entry.transactional_id,
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            checkpoint_id=checkpoint_id,
            subtask=self._subtask,
            records=self._records,
            dead_letters=self._dead_letters,
            start_time_ms=max(found.start_time_ms, 0),
            ranges=inside,
        )

    def _fail(self) -> None:
        if self._transactional_id is None:
            self._pool.drop_plain()
        else:
            self._pool.drop(self._transactional_id)
        self._reset()

    def _reset(self) -> None:
        self._entry = None
        self._transactional_id = None
        self._checkpoint_id = None
