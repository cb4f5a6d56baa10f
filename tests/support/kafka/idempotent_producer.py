"""Producers of records for tests, which send again without repeating or reordering anything."""

from __future__ import annotations

from functools import lru_cache

from confluent_kafka import Producer

_BROKERS = 2
"""The shared broker, and the broker that a test breaks."""


@lru_cache(maxsize=_BROKERS)
def idempotent_producer(bootstrap: str) -> Producer:
    """The producer of a broker, kept for the next test: a new producer waits half a second for its producer id.

    Whoever has written to it flushes it.
    """
    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "enable.idempotence": True})
