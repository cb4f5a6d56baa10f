"""The plain consumer's endless read, over a client of the test's."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.dataplane.plain import consumer as module
from sparkapp.dataplane.plain.consumer import PlainConsumer
from sparkapp.model.checkpoint.split import ENDLESS, KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition

MANY = 10_000


class Record:
    """What the client has of a record."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def error(self) -> None:
        return None

    def value(self) -> bytes:
        return b"v"

    key = value


class Client:
    """Has a record each millisecond, without end."""

    def __init__(self) -> None:
        self.now = 100.0
        self.offset = 0

    def consume(self, count: int, wait: float) -> list[Record]:
        if count > 1:
            return []
        self.now += 0.001
        self.offset += 1
        return [Record(self.offset - 1)]

    def incremental_assign(self, _: object) -> None:
        """There is one partition."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("linger", "rows"), [(50, 49), (0, 1)])
def test_a_batch_ends_at_its_linger_however_close_the_records_are(
    linger: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer, client = PlainConsumer({"group.id": "g"}), Client()
    consumer.close()
    parts: Any = consumer
    parts._client, parts._is_open = client, True
    monkeypatch.setattr(module, "batch_of", lambda found, _: len(found))
    monkeypatch.setattr(module.time, "monotonic", lambda: client.now)
    consumer.follow([KafkaPartitionSplit(TopicPartition("t", 0), 0, ENDLESS)])
    found: Any = consumer.next_batch(wait_millis=100, linger_millis=linger, max_rows=MANY)
    assert rows <= found <= rows + 1
