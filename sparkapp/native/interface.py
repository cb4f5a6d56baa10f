"""What source and sink ask of the batch path; the C extension and the plain fallback both give it.

Values cross in Arrow record batches, so that no Python runs per record where the extension is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit

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
"""The record as Spark's own Kafka source shows it."""

ALL_COLUMNS = frozenset(SOURCE_SCHEMA.names)


class GivenUp(Exception):
    """A call that nobody wants any more has ended between two of its slices."""


def always() -> bool:
    """Of a call that is wanted to its end."""
    return True


class BatchConsumer(Protocol):
    """A consumer that reads bounded ranges; it lives across checkpoints, so that prefetched records are used."""

    def read(
        self,
        splits: Sequence[KafkaPartitionSplit],
        *,
        columns: frozenset[str] = ALL_COLUMNS,
        max_rows: int = 65_536,
        max_bytes: int = 16 << 20,
        stall_timeout: float = 120.0,
    ) -> Iterator[pa.RecordBatch]:
        """Yields every record of the splits once, in offset order within a partition, then ends.

        Each batch has :data:`SOURCE_SCHEMA`; columns that are not asked for are all null (no work is done for them).
        Ends exactly at each split's stop, also where the offsets before it belong to control records, aborted
        transactions or compacted records. A split that continues where the last call stopped uses what was
        prefetched; any other one seeks.

        :param stall_timeout: seconds without any progress after which the read is given up.
        :raises ReadTimedOut: naming the split and its position.
        :raises OffsetsWentBackwards: the start is no longer (or not yet) on the broker; nothing is skipped silently.
        :raises KafkaAccessError: its subclasses for authentication, authorization, unknown topic, unreachable broker.
        """
        ...

    def close(self) -> None: ...


class BatchProducer(Protocol):
    """A producer of record batches; transactional if its configuration has a ``transactional.id``.

    The columns of a batch: ``value`` (binary or string, nullable: a tombstone), and optionally ``key`` (binary or
    string), ``headers`` (as in the source), ``topic`` (string; null means the default), ``partition`` (int32; null or
    absent leaves it to the partitioner), ``timestamp`` (timestamp; null means now, and the first millisecond of 1970 is
    written as the second one). A null within ``headers`` is no header.
    """

    def init_transactions(self, timeout: float, *, wanted: Callable[[], bool] = always) -> None:
        """Fences former producers of the id and aborts what they left open.

        :param wanted: looked at before each slice of the call.
        :raises GivenUp: it is not wanted any more; the producer is good for nothing but to be closed.
        :raises TransactionFenced: a newer producer exists. :raises KafkaAccessError: see :meth:`BatchConsumer.read`.
        """
        ...

    def begin_transaction(self) -> None: ...

    def produce(self, batch: pa.RecordBatch, *, topic: str) -> None:
        """Hands a batch to the client, waiting while its queue is full; failures surface in :meth:`flush`."""
        ...

    def send_offsets(
        self, offsets: Mapping[TopicPartition, int], *, group_id: str, metadata: str, timeout: float
    ) -> None:
        """Adds next offsets of a group to the open transaction."""
        ...

    def flush(self, timeout: float) -> int:
        """Waits until everything produced since the last flush is acknowledged.

        :returns: records acknowledged since the last flush.
        :raises PreCommitFailed: records are left, or a delivery report was a failure (an EndTxn from another
            process would skip librdkafka's own check of these).
        :raises TransactionFenced: a newer producer took the id over.
        """
        ...

    def check(self) -> None:
        """Looks at the delivery reports that are there, and waits for none; without transactions, between flushes.

        :raises PreCommitFailed: one of them was a failure; or what the failure means (see :meth:`BatchConsumer.read`).
        """
        ...

    def commit_transaction(self, timeout: float) -> None:
        """Commits the client's own transaction. Never called in a job: its driver commits, by the triple.

        :raises TransactionFenced: a newer producer took the id over since.
        """
        ...

    def abort_transaction(self, timeout: float) -> None: ...

    def close(self) -> None:
        """Ends the client at once; an open transaction stays open, to be settled by whoever holds its triple."""
        ...
