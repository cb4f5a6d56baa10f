"""What the plain producer makes of delivery reports, over a client of the test's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError

from sparkapp.dataplane.plain import producer as module
from sparkapp.dataplane.plain.producer import PlainProducer
from sparkapp.model.errors import PreCommitFailed
from sparkapp.model.partition import TopicPartition


class Report:
    """Of a record. confluent_kafka has None for the partition where none was chosen."""

    def __init__(self, topic: str, partition: int | None) -> None:
        self._topic = topic
        self._partition = partition

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int | None:
        return self._partition

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return b"v"


class Client:
    """Serves reports from its flush, as librdkafka does."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._on_delivery: Callable[[KafkaError | None, Report], None] = config["on_delivery"]
        self.reports: list[tuple[KafkaError | None, Report]] = []

    def begin_transaction(self) -> None:
        """Nothing is sent."""

    def poll(self, seconds: float) -> int:
        return 0

    def flush(self, seconds: float) -> int:
        while self.reports:
            self._on_delivery(*self.reports.pop(0))
        return 0


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    made: list[Client] = []

    def open_client(config: Mapping[str, Any]) -> Client:
        made.append(Client(config))
        return made[-1]

    monkeypatch.setattr(module, "Producer", open_client)
    return made


def test_partitions_of_reports_are_taken_once_and_begin_with_the_transaction(client: list[Client]) -> None:
    producer = PlainProducer({})
    producer.begin_transaction()
    assert producer.take_partitions() == frozenset()
    client[0].reports = [(None, Report(topic, number % 3)) for topic in ("a", "b") for number in range(7)]
    assert producer.flush(1) == 14
    expected = {TopicPartition(topic, number) for topic in ("a", "b") for number in range(3)}
    assert producer.take_partitions() == expected
    assert producer.take_partitions() == frozenset()
    client[0].reports = [(None, Report("a", 0))]
    assert producer.flush(1) == 1
    producer.begin_transaction()
    assert producer.take_partitions() == frozenset()


def test_a_record_whose_delivery_failed_may_have_been_written(client: list[Client]) -> None:
    producer = PlainProducer({})
    timed_out = KafkaError(KafkaError._MSG_TIMED_OUT)
    client[0].reports = [(None, Report("a", 0)), (timed_out, Report("a", 1)), (timed_out, Report("b", None))]
    with pytest.raises(PreCommitFailed):
        producer.flush(1)
    assert producer.take_partitions() == {TopicPartition("a", 0), TopicPartition("a", 1)}
