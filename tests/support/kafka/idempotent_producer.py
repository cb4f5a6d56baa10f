"""Producers of records for tests, which send again without repeating or reordering anything."""

from __future__ import annotations

from functools import lru_cache

from confluent_kafka import KafkaError, Message, Producer

_BROKERS = 2
"""The shared broker, and the broker that a test breaks."""


class IdempotentProducer(Producer):  # type: ignore[misc]  # confluent_kafka has no types
    """Raises where a record was not written, at the next :meth:`flush`: a test would look for it in vain."""

    def __init__(self, bootstrap: str) -> None:
        self._failed: list[str] = []
        super().__init__(
            {
                "bootstrap.servers": bootstrap, "linger.ms": 1, "enable.idempotence": True,
                "on_delivery": self._delivered,
            }
        )  # fmt: skip

    def flush(self, timeout: float = -1) -> int:
        """:raises AssertionError: a record was refused."""
        left: int = super().flush(timeout)
        failed, self._failed = self._failed, []
        assert not failed, f"{len(failed)} records were not written: {failed[:5]}"
        return left

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(f"{message.topic()}-{message.partition()}: {error.str()}")


@lru_cache(maxsize=_BROKERS)
def idempotent_producer(bootstrap: str) -> IdempotentProducer:
    """The producer of a broker, kept for the next test: a new producer waits half a second for its producer id.

    Whoever has written to it flushes it.
    """
    return IdempotentProducer(bootstrap)
