"""The writer of one subtask without transactions; also the base of the exactly-once writer.

As in Flink (``KafkaWriter``), a writer takes records of a checkpoint up to the pre-commit. It never commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sparkapp.model.checkpoint.committable import KafkaCommittable
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import InvalidArgument, PreCommitFailed
from sparkapp.model.job.client.record_limits import BROKERS_DEFAULT
from sparkapp.model.job.sections.sink import Sink
from sparkapp.sink.dead_letter import fitted
from sparkapp.sink.producers.producer_pool import ProducerPool
from sparkapp.sink.producers.reusable_producers import CommittedTransaction

if TYPE_CHECKING:
    import pyarrow as pa

    from sparkapp.dataplane.interface import BatchProducer
    from sparkapp.sink.router import Router

FLUSH_SECONDS = 120.0


class KafkaWriter:
    """Writes the records of one subtask without transactions (AtLeastOnce).

    Made for a task, or kept over checkpoints, as the engine likes.

    :param pool: the process's producers, shared by its writers.
    :param router: chooses topics and partitions; None leaves both to the sink's topic and the client's partitioner.
    :param timeout: seconds for a flush; never longer than a transaction may stay open.
    :cvar repeats: whether a failed task writes the records of its checkpoint again.
    """

    repeats = True

    def __init__(
        self, sink: Sink, *, pool: ProducerPool, router: Router | None = None, timeout: float = FLUSH_SECONDS
    ) -> None:
        self._pool = pool
        self._sink = sink
        self._router = router
        self._timeout = min(timeout, sink.transaction_timeout_millis / 1000)
        self._checkpoint_id: int | None = None
        self._records = 0
        self._dead_letters = 0

    @property
    def records(self) -> int:
        """Records of the current checkpoint, or of the last checkpoint after its pre-commit; without dead letters."""
        return self._records

    @property
    def dead_letters(self) -> int:
        """Dead letters of the current checkpoint, or of the last checkpoint after its pre-commit."""
        return self._dead_letters

    @property
    def transactional_id(self) -> str | None:
        """The id of the current checkpoint's transaction; None between checkpoints, or without transactions."""
        return None

    def begin(self, checkpoint_id: int) -> None:
        """Sets the checkpoint of the next records; a transaction begins with the first record (W05).

        :raises ProducersPoolEmpty: the checkpoint's slot is not free (T01, T08).
        """
        if self._checkpoint_id is not None:
            msg = f"checkpoint {self._checkpoint_id} is not pre-committed, {checkpoint_id} cannot begin"
            raise InvalidArgument(msg)
        self._take_slot(checkpoint_id)
        self._checkpoint_id = checkpoint_id
        self._records = 0
        self._dead_letters = 0

    def prepare(self) -> None:
        """Opens the current checkpoint's producer in the background, until the first record."""

    def fence(self) -> None:
        """Ends the transaction of an earlier try of the current checkpoint, also where this try has no record.

        :raises TransactionFenced: and others, as :meth:`write`.
        """

    def prepare_next(self, checkpoint_id: int) -> None:
        """Opens a later checkpoint's producer in the background, after the pre-commit of the current checkpoint.

        Nothing is opened where the checkpoint's slot may not be free yet.
        """

    def note_start(self) -> None:
        """Asks for the start of the current transaction, where records have begun it; between two writes.

        The pre-commit then need not ask.

        :raises KafkaUnreachable: and :class:`AuthorizationFailed`, as the pre-commit.
        """

    def write(self, batch: pa.RecordBatch) -> None:
        """Gives a batch to the producer; see :class:`sparkapp.dataplane.interface.BatchProducer` for its columns.

        :raises TransactionFenced: and the errors of client and router; the task has failed. The producer is dropped,
            unless it may have records of complete checkpoints (None).
        """
        self._produce(batch, self._sink.topic, self._router)
        self._records += batch.num_rows

    def write_dead_letters(self, batch: pa.RecordBatch, *, topic: str, limit: int = BROKERS_DEFAULT) -> None:
        """:meth:`write` to the dead letter topic, in the same transaction; counted separately.

        :param limit: bytes of a letter; a larger letter is cut, and says so.
        """
        self._produce(fitted(batch, limit), topic)
        self._dead_letters += batch.num_rows

    def pre_commit(
        self, ranges: Sequence[KafkaPartitionSplit], *, group_id: str | None, metadata: str = ""
    ) -> KafkaCommittable | None:
        """The first phase: everything written is acknowledged when this returns.

        ExactlyOnce: source offsets into the transaction, flush, every delivery report a success; the transaction stays
        open. AtLeastOnce: flush and reports. None: a check of the reports that are there, mostly of earlier
        checkpoints. Flink's ``preCommit`` ends with ``checkErroneous`` for every guarantee, too.

        :param ranges: the source ranges of the records; their ends go into the transaction as the group's offsets.
        :param group_id: None where offsets do not go into transactions. The committable then has no ranges, since the
            group's offsets prove nothing about it.
        :param metadata: text stored with each offset.
        :returns: the driver's committable, or None without a transaction; a prepared producer of it can fence nothing
            after that.
        :raises PreCommitFailed: a record is not acknowledged (None: a record was refused).
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

    def notify_committed(
        self, checkpoint_id: int, *, reusable: Mapping[str, CommittedTransaction] | None = None
    ) -> None:
        """Every checkpoint up to this number is complete; frees the slots of older checkpoints.

        :param reusable: the last transaction of each id whose producer may be used again; None: no producer is. In
            Flink the back channel of the committer tells it (cases W03 and W04).
        """

    def abort(self) -> None:
        """Discards the current checkpoint's records and drops the producer."""
        self._fail()

    def close(self) -> None:
        """Ends the writer: an unfinished checkpoint is aborted (W06); pre-committed transactions stay open.

        The pool's producers belong to the process and stay.
        """
        if self._checkpoint_id is not None:
            self.abort()

    def _take_slot(self, checkpoint_id: int) -> None:
        """Reserves a transactional id."""

    def _producer(self) -> BatchProducer:
        return self._pool.plain()

    def _drop_producer(self) -> None:
        self._pool.drop_plain()

    def _pre_commit(
        self, checkpoint_id: int, ranges: tuple[KafkaPartitionSplit, ...], group_id: str | None, metadata: str
    ) -> KafkaCommittable | None:
        if self._written:
            acknowledged = self._producer().flush(self._timeout)
            # The shared producer may also flush records of a failed task.
            if acknowledged < self._written:
                raise self._not_acknowledged(acknowledged)
        return None

    @property
    def _written(self) -> int:
        return self._records + self._dead_letters

    def _not_acknowledged(self, acknowledged: int) -> PreCommitFailed:
        return PreCommitFailed(f"{self._written} records were written, {acknowledged} acknowledged")

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
            self._fail_write()
            raise

    def _fail_write(self) -> None:
        self._fail()

    def _fail(self) -> None:
        self._drop_producer()
        self._reset()

    def _reset(self) -> None:
        self._checkpoint_id = None


class UnacknowledgedKafkaWriter(KafkaWriter):
    """Writes the records of one subtask without a guarantee (None): its producer keeps them beyond the checkpoint."""

    repeats = False

    def _pre_commit(
        self, checkpoint_id: int, ranges: tuple[KafkaPartitionSplit, ...], group_id: str | None, metadata: str
    ) -> None:
        self._pool.check_plain()

    def _fail_write(self) -> None:
        """The producer has records of complete checkpoints, which nobody would write again."""
        self._reset()
