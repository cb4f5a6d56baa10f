"""What a reader sees and what is open: the end of every test of visibility, isolation or fencing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from contextlib import closing, suppress

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as ClientPartition

from sparkapp.clients.deadline import Deadline
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.errors import KafkaSparkJobError

_BOUND_SECONDS = 120.0


def records(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[bytes | None]:
    """Values of :func:`messages`."""
    return [message.value() for message in messages(bootstrap, topic, isolation=isolation)]


def messages(bootstrap: str, topic: str, *, isolation: str = "read_committed") -> list[Message]:
    """Every record that a reader of the isolation level gets now, partition after partition.

    Reads each partition to the end that the broker reports (under read_committed the last stable offset), so an open
    transaction hides what is behind it, as it does for any consumer. A broker answers EndTxn before the markers are in
    the partitions. So where something is hidden, this waits until no transaction is ending, and reads again.
    """
    found, is_hidden = _read(bootstrap, topic, isolation)
    if is_hidden and isolation == "read_committed":
        client = TransactionClient({"bootstrap.servers": bootstrap})
        with closing(client), suppress(KafkaSparkJobError):
            await_ended(client, "")
        found, _ = _read(bootstrap, topic, isolation)
    return found


def _read(bootstrap: str, topic: str, isolation: str) -> tuple[list[Message], bool]:
    """The records, and whether there are others behind the end that the reader gets."""
    consumer = _reader(bootstrap, isolation)
    try:
        partitions = _assign(consumer, topic)
        unread, is_hidden = set(partitions), False
        found: dict[int, list[Message]] = {partition: [] for partition in partitions}
        deadline = Deadline.after(_BOUND_SECONDS)
        while unread:
            message = consumer.poll(deadline.bound(1.0))
            if message is None:
                assert not deadline.expired, f"{topic}: partitions {unread} not read to their end"
            elif message.error() is None:
                found[message.partition()].append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                unread.discard(message.partition())
                _, end = consumer.get_watermark_offsets(ClientPartition(topic, message.partition()), cached=True)
                is_hidden |= end > message.offset()
            else:
                raise AssertionError(message.error())
        return [message for partition in sorted(found) for message in found[partition]], is_hidden
    finally:
        consumer.close()


def _reader(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "earliest",
            # A broker answers so late at the end of a partition, by default after half a second.
            "fetch.wait.max.ms": "10",
        }
    )


def _assign(consumer: Consumer, topic: str) -> Collection[int]:
    """Has it read the whole topic; returns the partitions."""
    partitions = consumer.list_topics(topic, timeout=_BOUND_SECONDS).topics[topic].partitions
    consumer.assign([ClientPartition(topic, partition, 0) for partition in partitions])
    return set(partitions)


def await_count(
    bootstrap: str, topic: str, count: int, *, seconds: float, look: Callable[[], None] = lambda: None
) -> None:
    """Waits until a reader of committed records has got so many of them. It reads each record once.

    :param look: called meanwhile; raises why the records will not come.
    """
    consumer, found = _reader(bootstrap, "read_committed"), 0
    try:
        _assign(consumer, topic)
        deadline = Deadline.after(seconds)
        while found < count:
            assert not deadline.expired, f"{topic}: {found} of {count} records"
            look()
            found += sum(message.error() is None for message in consumer.consume(1000, 0.1))
    finally:
        consumer.close()


def numbers(bootstrap: str, topic: str, **options: str) -> list[int]:
    """:func:`records` of a topic that holds numbers as text."""
    return [int(value or b"") for value in records(bootstrap, topic, **options)]


def await_ended(client: TransactionClient, *prefixes: str) -> None:
    """Waits until no transaction of the prefixes is still writing its markers, so that readers see its end."""
    deadline = Deadline.after(_BOUND_SECONDS)
    while any(row.state.ending for prefix in prefixes for row in client.list_transactions(prefix)):
        assert not deadline.expired, "transactions do not end"
        time.sleep(deadline.bound(0.01))


def await_stable(bootstrap: str, topic: str) -> None:
    """Waits until a reader of committed records gets all that the topic holds: no transaction holds anything back.

    A broker that has stood still describes a transaction as ended a moment before readers see that.
    """
    deadline = Deadline.after(_BOUND_SECONDS)
    while len(messages(bootstrap, topic)) < len(messages(bootstrap, topic, isolation="read_uncommitted")):
        assert not deadline.expired, f"{topic}: records are held back"
        time.sleep(deadline.bound(0.05))


def open_transactions(client: TransactionClient, *prefixes: str) -> list[str]:
    """Ids of the open transactions of the prefixes, once none is ending."""
    await_ended(client, *prefixes)
    return [row.transactional_id for prefix in prefixes for row in client.list_transactions(prefix) if row.state.open]
