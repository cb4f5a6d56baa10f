"""Settings that the data plane adds to the given client configuration, with reasons.

A key of the caller wins, unless correctness depends on the key.

Queues and batches are small: each byte is written and read several times on its way, and a processor's cache has some
32 MiB. With queues of 64 MiB records of 1 KiB took up to a third more time, also in the broker on the same machine.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFETCH_BYTES = 32 << 20
"""Record bytes that a consumer may prefetch, over all its partitions."""
MIN_PREFETCH_BYTES_A_PARTITION = 1 << 20
FEW_PARTITIONS = 4
"""Number of partitions that divide the prefetch, until a client has more than twice as many."""
RESPONSE_BYTES = 1 << 20
"""Bytes of one partition in a fetch response; a larger record batch is sent whole."""
WAIT_MILLIS = 100
"""Longest wait of a reader for progress without the GIL; signals and errors are handled between two waits."""
LINGER_MILLIS = 50
"""Wait of a reader for another row after the first, by default; then the caller gets a smaller batch."""
BATCH_BYTES = 4 << 20
"""Bytes of a reader's batch, by default."""
BATCH_ROWS = 16_384
"""Rows of a reader's batch, by default."""
FETCH_BYTES = 16 << 20
RECEIVED_BYTES = 256 << 20
"""A response that a consumer takes: brokers send a record batch whole, also if it is larger than a fetch may be."""
MOST_RECEIVED_BYTES = (1 << 31) - 1
_RESPONSE_OVERHEAD = 512
MIN_MESSAGE_BYTES = 1000
"""Lowest ``message.max.bytes`` of librdkafka."""
QUEUE_BYTES = 16 << 20
"""Record bytes that wait in a producer."""
CLIENT_BYTES = 48 << 20
"""Memory of a client without its records: threads and unused memory of allocators. 13 MiB were measured while nothing
was read, and up to 42 MiB while a reader took large records."""

_CONSUMER_DEFAULTS: Mapping[str, str] = {
    # librdkafka needs a group for assign(); the consumer never commits.
    "group.id": "kafkaspark",
    "isolation.level": "read_committed",
    # Prefetched messages of a partition. This bounds small records, each with some 300 bytes of overhead in librdkafka;
    # PREFETCH_BYTES bounds large records.
    "queued.min.messages": "20000",
    # Interval for checking a partition whose prefetch was full; the default of a second starves a fast reader.
    "fetch.queue.backoff.ms": "5",
    # The broker holds an empty fetch response this long, and a seek or a new partition waits behind it. A range may end
    # in a transaction marker. Then only an empty response shows its end, and the read takes this much longer.
    "fetch.wait.max.ms": "50",
    "fetch.error.backoff.ms": "100",
    # A fetch response: 1 MiB a partition, and FETCH_BYTES. Larger responses and deeper queues were not faster.
    "fetch.message.max.bytes": str(RESPONSE_BYTES),
    "socket.receive.buffer.bytes": str(1 << 20),
    # Time until an unknown topic is an error; the topic existed when the job started.
    "topic.metadata.propagation.max.ms": "5000",
    # Nobody polls between two checkpoints, for as long as the trigger says; no group rebalances because of it.
    "max.poll.interval.ms": "86400000",
    # Brokers close idle connections regularly.
    "log.connection.close": "false",
    # For the driver's metrics: a read parses the newest statistics once. Some 0.7 KB a partition.
    "statistics.interval.ms": "10000",
}
_CONSUMER_MUSTS: Mapping[str, str] = {
    # The checkpoint document decides where reading starts; a missing offset is an error, never a silent reset.
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # Shows that no record is left before a stop (control records, aborted transactions, compaction).
    "enable.partition.eof": "true",
}
_PRODUCER_DEFAULTS: Mapping[str, str] = {
    # Batches fill up under load; otherwise flush() ends the wait.
    "linger.ms": "5",
    "batch.num.messages": "10000",
    "batch.size": str(1 << 20),
    # Enough for some batches in flight to each of several partitions; produce() waits while the queue is full.
    "queue.buffering.max.messages": "100000",
    "socket.send.buffer.bytes": str(1 << 20),
    # Between pods of a cluster the CPU costs more than the network; sink.properties can change it.
    "compression.type": "none",
    # Time until an unknown topic is an error; the topic existed when the job started.
    "topic.metadata.propagation.max.ms": "5000",
    "log.connection.close": "false",
    # The partition of a key is that of Java clients, Spark's and Flink's sinks among them.
    "partitioner": "murmur2_random",
    # Keeps the order within a partition and prevents duplicates by retries; a transactional id implies both.
    "enable.idempotence": "true",
}


def consumer_settings(config: Mapping[str, str], *, partitions: int = 1) -> dict[str, str]:
    """The consumer's complete configuration.

    :param partitions: number of partition queues that divide :data:`PREFETCH_BYTES`.
    """
    share = max(MIN_PREFETCH_BYTES_A_PARTITION, PREFETCH_BYTES // max(1, partitions))
    prefetch = {"queued.max.messages.kbytes": str(share >> 10)}
    # librdkafka requires room for the largest message in a fetch, and for the fetch in a response. A response in TLS or
    # HTTP has a size beyond this limit, by which librdkafka knows it.
    fetched = max(FETCH_BYTES, _whole(config.get("message.max.bytes", "")))
    received = max(RECEIVED_BYTES, _whole(config.get("fetch.max.bytes", str(fetched))) + _RESPONSE_OVERHEAD)
    room = {
        "fetch.max.bytes": str(min(fetched, MOST_RECEIVED_BYTES - _RESPONSE_OVERHEAD)),
        "receive.message.max.bytes": str(min(received, MOST_RECEIVED_BYTES)),
    }
    return {**_CONSUMER_DEFAULTS, **prefetch, **room, **config, **_CONSUMER_MUSTS}


def reader_bound(partitions: int, *, batch_bytes: int, record_bytes: int) -> int:
    """Upper bound of the bytes that a consumer with default settings holds, whatever its reader does. Pure.

    librdkafka fetches for a partition as long as its queue is below its share, so a response may exceed the share.
    Shares become smaller only after the partitions have more than doubled. A batch exists up to three times: under
    construction, in a growing buffer, and in the caller.

    :param batch_bytes: size of a read's batches.
    :param record_bytes: size of the largest record batch in the topics.
    """
    shared_by = max(FEW_PARTITIONS, -(-partitions // 2))
    share = max(MIN_PREFETCH_BYTES_A_PARTITION, PREFETCH_BYTES // shared_by)
    return CLIENT_BYTES + partitions * (share + max(RESPONSE_BYTES, record_bytes)) + 3 * (batch_bytes + record_bytes)


def producer_settings(config: Mapping[str, str]) -> dict[str, str]:
    """The producer's complete configuration. Its queue has room for the largest record that ``config`` allows.

    A record that is larger than the queue would wait for ever. So a smaller queue of the caller lowers the limit.
    """
    largest = _whole(config.get("message.max.bytes", ""))
    queue = max(QUEUE_BYTES, largest)
    settings = {**_PRODUCER_DEFAULTS, "queue.buffering.max.kbytes": str(-(-queue // 1024)), **config}
    room = _whole(settings["queue.buffering.max.kbytes"]) * 1024
    if MIN_MESSAGE_BYTES <= room < largest:
        settings["message.max.bytes"] = str(room)
    return settings


def _whole(text: str) -> int:
    return int(text) if text.isdecimal() else 0
