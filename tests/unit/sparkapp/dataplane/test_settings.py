"""What the batch path adds to a client's configuration."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from sparkapp.dataplane.settings import (
    CLIENT_BYTES,
    MIN_PREFETCH_BYTES_A_PARTITION,
    PREFETCH_BYTES,
    consumer_settings,
    producer_settings,
    reader_bound,
)


def test_the_callers_settings_win_except_where_correctness_depends_on_them() -> None:
    settings = consumer_settings(
        {
            "group.id": "mine",
            "fetch.wait.max.ms": "7",
            "queued.max.messages.kbytes": "99",
            "auto.offset.reset": "latest",
            "enable.auto.commit": "true",
            "enable.partition.eof": "false",
        }
    )
    assert settings["group.id"] == "mine"
    assert settings["fetch.wait.max.ms"] == "7"
    assert settings["queued.max.messages.kbytes"] == "99"
    assert settings["auto.offset.reset"] == "error"
    assert settings["enable.auto.commit"] == "false"
    assert settings["enable.partition.eof"] == "true"


def test_reading_is_committed_unless_asked_otherwise() -> None:
    assert consumer_settings({})["isolation.level"] == "read_committed"
    assert consumer_settings({"isolation.level": "read_uncommitted"})["isolation.level"] == "read_uncommitted"


def test_the_prefetch_is_shared_among_the_partitions() -> None:
    assert consumer_settings({}, partitions=4)["queued.max.messages.kbytes"] == str(PREFETCH_BYTES // 4 >> 10)
    many = consumer_settings({}, partitions=10_000)["queued.max.messages.kbytes"]
    assert many == str(MIN_PREFETCH_BYTES_A_PARTITION >> 10)


def test_what_a_reader_may_hold_grows_with_its_partitions_only_where_it_must() -> None:
    def prefetch(partitions: int) -> int:
        return (reader_bound(partitions, batch_bytes=0, record_bytes=0) - CLIENT_BYTES) >> 20

    assert prefetch(1) == 8 + 1, "a share of 8 MiB and a response"
    assert prefetch(8) == 8 * (8 + 1)
    assert max(prefetch(partitions) for partitions in range(1, 65)) <= 64 + 64
    assert prefetch(1000) == 1000 * (1 + 1), "beyond that a partition has its least"
    large = reader_bound(1, batch_bytes=10, record_bytes=5 << 20)
    assert large == CLIENT_BYTES + (8 + 5) * (1 << 20) + 3 * (10 + (5 << 20))


def test_the_queue_of_a_producer_has_room_for_the_largest_record() -> None:
    def queue(**config: str) -> str:
        return producer_settings({key.replace("_", "."): value for key, value in config.items()})[
            "queue.buffering.max.kbytes"
        ]

    assert queue() == queue(message_max_bytes="1000000") == str(16 << 10)
    assert queue(message_max_bytes=str((20 << 20) + 1)) == str((20 << 10) + 1)
    assert queue(message_max_bytes="99999999", queue_buffering_max_kbytes="77") == "77"


def test_a_producer_keeps_order_without_duplicates() -> None:
    settings = producer_settings({"linger.ms": "0"})
    assert settings["enable.idempotence"] == "true"
    assert settings["partitioner"] == "murmur2_random"
    assert settings["linger.ms"] == "0"


def test_no_record_is_larger_than_the_queue():
    """It would wait for ever."""
    found = producer_settings({"message.max.bytes": "9000000", "queue.buffering.max.kbytes": "77"})
    assert found["message.max.bytes"] == str(77 << 10)
    assert "message.max.bytes" not in producer_settings({"queue.buffering.max.kbytes": "77"})
    Producer(producer_settings({"message.max.bytes": "9000000", "queue.buffering.max.kbytes": "77"}))


@pytest.mark.parametrize(
    ("own", "received"),
    [
        ({}, 256 << 20), ({"fetch.max.bytes": "33554432"}, 256 << 20),
        ({"fetch.max.bytes": "300000000"}, 300_000_512), ({"message.max.bytes": "400000000"}, 400_000_512),
        ({"fetch.max.bytes": "2147483135"}, 2147483647), ({"receive.message.max.bytes": "100000000"}, 100_000_000),
    ],
)  # fmt: skip
def test_a_consumer_takes_the_largest_response(own: dict[str, str], received: int) -> None:
    found = consumer_settings(own)
    assert found["receive.message.max.bytes"] == str(received)
    Consumer(found).close()
