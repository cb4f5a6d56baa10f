"""The interface of the data plane for source and sink, implemented by the C extension and the plain fallback.

Values cross it in Arrow record batches, so that with the extension no Python runs per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from sparkapp.dataplane.settings import BATCH_BYTES, BATCH_ROWS, LINGER_MILLIS
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition

_FIELDS: list[pa.Field[Any]] = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
    pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
]
SOURCE_SCHEMA = pa.schema(_FIELDS)
"""Columns of a record, as in Spark's own Kafka source."""

ALL_COLUMNS = frozenset(SOURCE_SCHEMA.names)


class GivenUp(Exception):
    """A call ended between two of its slices because the caller no longer wants its result."""


def always() -> bool:
    """Default of ``wanted``: the call is never given up."""
    return True


class BatchConsumer(Protocol):
    """A consumer that reads bounded ranges; it stays open across checkpoints and keeps its prefetched records."""

    def read(
        self,
        splits: Sequence[KafkaPartitionSplit],
        *,
        columns: frozenset[str] = ALL_COLUMNS,
        max_rows: int = BATCH_ROWS,
        max_bytes: int = BATCH_BYTES,
        linger_millis: int = LINGER_MILLIS,
        stall_timeout: float = 120.0,
    ) -> Iterator[pa.RecordBatch]:
        """Yields every record of the splits once, in offset order within a partition, then ends.

        Each batch has :data:`SOURCE_SCHEMA`; columns that are not requested are null and cost no work. The read ends
        exactly at each split's stop, also if the offsets before it are control records, aborted transactions or
        compacted records. A split that continues where the last read stopped uses the prefetched records; any other
        split seeks.

        :param linger_millis: wait for another row before a batch with rows is yielded.
        :param stall_timeout: seconds without any progress after which the read fails.
        :raises ReadTimedOut: no progress; the message names the splits and their positions.
        :raises OffsetsWentBackwards: the start offset is no longer, or not yet, on the broker; nothing is skipped.
        :raises KafkaAccessError: its subclasses for authentication, authorization, unknown topic, unreachable broker.
        :raises GivenUp: the consumer was interrupted.
        """
        ...

    def follow(self, splits: Sequence[KafkaPartitionSplit], *, columns: frozenset[str] = ALL_COLUMNS) -> None:
        """Begins an endless read of these partitions, whose batches :meth:`next_batch` returns.

        A split that starts at its partition's present position keeps the prefetched records; any other split seeks.
        Partitions that are not in the splits are not read any more.

        :param splits: from the next offset; :data:`sparkapp.model.checkpoint.split.ENDLESS` as the stop of a partition
            without end.
        :raises KafkaAccessError: see :meth:`read`.
        """
        ...

    def next_batch(self, *, wait_millis: int, linger_millis: int, max_rows: int) -> pa.RecordBatch | None:
        """The next records of the endless read; None where there are none, after ``wait_millis``.

        :param linger_millis: for further records, counted from the call: a batch that has rows ends after that.
        :raises OffsetsWentBackwards: and the other errors of :meth:`read`, except for the time-out.
        :raises GivenUp: the consumer was interrupted.
        """
        ...

    @property
    def followed(self) -> Mapping[TopicPartition, int]:
        """Position of each partition of the endless read, behind the records of the batches so far."""
        ...

    @property
    def behind(self) -> int:
        """Offsets of the read between its positions and the ends of the partitions that brokers have last sent."""
        ...

    def learn(self, topics: Iterable[str]) -> None:
        """Asks the brokers for these topics and their leaders, before the first read; raises nothing.

        Without it the client asks when partitions are assigned, and the first records come half a second later.

        :param topics: named by the job. Those that do not exist, or do not answer in time, are left to the read.
        """
        ...

    def wake(self) -> None:
        """Ends the wait of :meth:`next_batch` under way, or of the next, which returns what there is; from any thread.

        Nothing happens without the C extension, whose waits are short.
        """
        ...

    def interrupt(self) -> None:
        """Ends the read under way and every later read; from any thread. The consumer can only be closed."""
        ...

    def close(self) -> None: ...


class BatchProducer(Protocol):
    """A producer of record batches; transactional if its configuration has a ``transactional.id``.

    Columns of a batch; all but ``value`` are optional:

    - ``value``: binary or string; null is a tombstone.
    - ``key``: binary or string.
    - ``headers``: as in the source; a null within the list is no header.
    - ``topic``: string; null means the default topic.
    - ``partition``: int32; without it, or with null, the partitioner decides.
    - ``timestamp``: timestamp; null means now. The first millisecond of 1970 is written as the second millisecond.
    """

    def init_transactions(self, timeout: float, *, wanted: Callable[[], bool] = always) -> None:
        """Fences previous producers of the transactional id and aborts their open transaction.

        :param wanted: called before each slice; False gives the call up.
        :raises GivenUp: the call was given up; the producer can only be closed.
        :raises TransactionFenced: a newer producer exists.
        :raises KafkaAccessError: see :meth:`BatchConsumer.read`.
        """
        ...

    def begin_transaction(self) -> None: ...

    def produce(self, batch: pa.RecordBatch, *, topic: str) -> None:
        """Queues a batch in the client and waits while its queue is full; :meth:`flush` raises delivery failures."""
        ...

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], *, group_id: str, metadata: str, timeout: float
    ) -> None:
        """Adds a group's next offsets to the open transaction."""
        ...

    def flush(self, timeout: float) -> int:
        """Waits until the brokers have acknowledged every record since the last flush.

        :returns: records acknowledged since the last flush.
        :raises PreCommitFailed: records are not acknowledged, or a delivery failed. librdkafka checks this before its
            own commit only, and here another process sends the EndTxn.
        :raises TransactionFenced: a newer producer uses the transactional id.
        """
        ...

    def take_partitions(self) -> frozenset[TopicPartition]:
        """The partitions that delivery reports have named since the last call; then reset, as by a transaction's begin.

        Called behind a flush that has returned: then every partition with a record of the transaction is among them. A
        failed delivery counts, too, because the record may have been written.
        """
        ...

    def check(self) -> None:
        """Checks the available delivery reports without waiting; called between flushes of non-transactional producers.

        :raises PreCommitFailed: a delivery failed.
        :raises KafkaAccessError: the cause of the failed delivery; see :meth:`BatchConsumer.read`.
        """
        ...

    def commit_transaction(self, timeout: float) -> bool:
        """Commits the open transaction; for the local pace. In the two-phase commit the driver commits.

        librdkafka sends a request again whose answer is lost. The first may arrive later, and then ends the producer's
        next transaction, or changes its offsets (ADR 45). So the sent requests are counted.

        :returns: whether the producer may begin another transaction: EndTxn was sent once, and TxnOffsetCommit once for
            each :meth:`send_offsets`. Otherwise it can only be closed. The transaction is committed in both cases.
        :raises KafkaSparkJobError: the outcome is not known; the producer can only be closed.
        """
        ...

    def abort_transaction(self, timeout: float) -> None:
        """Aborts the open transaction.

        :raises TransactionFenced: a newer producer uses the transactional id.
        """
        ...

    def close(self) -> None:
        """Closes the client. An open transaction stays open for the driver, which has its committable.

        Queued records of a transaction are sent first, for a second at most. Others are dropped.
        """
        ...
