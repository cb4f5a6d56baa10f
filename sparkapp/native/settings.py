"""What the batch path adds to the client configuration it is given, and why.

A key that the caller sets wins, except where correctness depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFETCH_BYTES = 64 << 20
"""Record bytes a consumer may hold before they are read, over all its partitions."""
MIN_PREFETCH_BYTES_A_PARTITION = 1 << 20
FEW_PARTITIONS = 4
"""Partitions that the prefetch is spread over until there are more than twice as many."""
ANSWER_BYTES = 1 << 20
"""Of one partition in one answer of a broker; a record batch that is larger comes whole."""
CLIENT_BYTES = 32 << 20
"""A client's threads and what allocators keep, beside records; 13 MiB were measured."""

_CONSUMER_DEFAULTS: Mapping[str, str] = {
    # librdkafka wants a group for assign(), though nothing is ever committed through it.
    "group.id": "kafkaspark",
    "isolation.level": "read_committed",
    # Messages prefetched of a partition: this bounds small records, which cost librdkafka some 300 bytes each beside
    # their own; PREFETCH_BYTES bounds the large ones. 20,000 and 200,000 were as fast as this.
    "queued.min.messages": "50000",
    # After a partition's prefetch is full it is looked at again this soon; the default second starves a fast reader.
    "fetch.queue.backoff.ms": "5",
    # An empty answer waits so long for new records, and a seek or a new partition waits behind it. Where a range ends
    # in the marker of a transaction, only an empty answer tells that nothing is left: a read costs so much more then.
    "fetch.wait.max.ms": "50",
    "fetch.error.backoff.ms": "100",
    # One answer of a broker: 1 MiB a partition. Measured: larger ones, and deeper queues, make nothing faster.
    "fetch.message.max.bytes": str(ANSWER_BYTES),
    "fetch.max.bytes": str(16 << 20),
    "socket.receive.buffer.bytes": str(1 << 20),
    # How long a topic may be unknown to a broker before that is an error; it existed when the job started.
    "topic.metadata.propagation.max.ms": "5000",
    # Between two checkpoints nobody polls, for as long as the trigger says; no group rebalances because of it.
    "max.poll.interval.ms": "86400000",
    # Idle brokers close connections as a matter of course.
    "log.connection.close": "false",
    # For the driver's metrics: the newest are parsed once a read. Some 0.7 KB a partition.
    "statistics.interval.ms": "10000",
}
_CONSUMER_MUSTS: Mapping[str, str] = {
    # The checkpoint document decides where reading starts; a missing offset is an error, never a silent reset.
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # Tells that the log has nothing before a stop any more (control records, aborted transactions, compaction).
    "enable.partition.eof": "true",
}
_PRODUCER_DEFAULTS: Mapping[str, str] = {
    # Batches fill up by themselves under load; flush() ends the waiting where they do not.
    "linger.ms": "5",
    "batch.num.messages": "10000",
    "batch.size": str(1 << 20),
    # Enough for some batches in flight to each of several partitions; a full queue is where produce() waits.
    "queue.buffering.max.messages": "200000",
    "queue.buffering.max.kbytes": str(64 << 10),
    "socket.send.buffer.bytes": str(1 << 20),
    # Between pods of a cluster the CPU is dearer than the network; sink.properties can change it.
    "compression.type": "none",
    # How long a topic may be unknown to a broker before that is an error; it existed when the job started.
    "topic.metadata.propagation.max.ms": "5000",
    "log.connection.close": "false",
    # Equal keys go where Java clients (Spark's and Flink's sinks among them) put them.
    "partitioner": "murmur2_random",
    # Order within a partition and no duplicate by a retry; a transactional id implies both.
    "enable.idempotence": "true",
}


def consumer_settings(config: Mapping[str, str], *, partitions: int = 1) -> dict[str, str]:
    """The consumer's complete configuration.

    :param partitions: over how many separate partition queues :data:`PREFETCH_BYTES` is spread.
    """
    share = max(MIN_PREFETCH_BYTES_A_PARTITION, PREFETCH_BYTES // max(1, partitions))
    prefetch = {"queued.max.messages.kbytes": str(share >> 10)}
    return {**_CONSUMER_DEFAULTS, **prefetch, **config, **_CONSUMER_MUSTS}


def reader_bound(partitions: int, *, batch_bytes: int, record_bytes: int) -> int:
    """Bytes that a consumer with default settings may come to hold, whatever its reader does. Pure.

    A partition is asked for more as long as its queue is below its share, so one answer comes on top. Shares become
    smaller only when the partitions have more than doubled. A batch exists up to three times: under construction, in
    a buffer that is growing, and in the caller's hands.

    :param batch_bytes: of the batches that are read.
    :param record_bytes: of the largest record batch in the topics.
    """
    shared_by = max(FEW_PARTITIONS, -(-partitions // 2))
    share = max(MIN_PREFETCH_BYTES_A_PARTITION, PREFETCH_BYTES // shared_by)
    return CLIENT_BYTES + partitions * (share + max(ANSWER_BYTES, record_bytes)) + 3 * (batch_bytes + record_bytes)


def producer_settings(config: Mapping[str, str]) -> dict[str, str]:
    """The producer's complete configuration."""
    return {**_PRODUCER_DEFAULTS, **config}
