"""What the batch path adds to a client's configuration."""

from __future__ import annotations

from sparkapp.native.settings import (
    MIN_PREFETCH_BYTES_A_PARTITION,
    PREFETCH_BYTES,
    consumer_settings,
    producer_settings,
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


def test_a_producer_keeps_order_without_duplicates() -> None:
    settings = producer_settings({"linger.ms": "0"})
    assert settings["enable.idempotence"] == "true"
    assert settings["partitioner"] == "murmur2_random"
    assert settings["linger.ms"] == "0"
