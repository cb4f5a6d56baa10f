"""Columns of the source: what a Kafka record becomes in Arrow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from sparkapp.dataplane.interface import ALL_COLUMNS
from tests.support.native.batch_path import BatchPath, split, table_of

HEADERS = {"no": None, "one": [("a", b"x")], "many": [("a", b""), ("a", None), ("schlüssel", "wert✓".encode())]}


@pytest.fixture
def mixed(path: BatchPath, make_topic: Callable[..., str]) -> str:
    """A topic with one record of each kind."""
    topic = make_topic(partitions=2)
    producer = Producer({"bootstrap.servers": path.bootstrap})
    for key, value, headers in (
        (None, None, HEADERS["no"]),
        (b"", b"", HEADERS["one"]),
        (b"k", "grüße ✓ \x00 end".encode(), HEADERS["many"]),
        (b"\xff\xfe", bytes(range(256)), []),
    ):
        producer.produce(topic, value, key, partition=1, timestamp=1_700_000_000_123, headers=headers)
    assert producer.flush(30) == 0
    return topic


def test_every_column_of_a_record(path: BatchPath, mixed: str) -> None:
    table = table_of(path.consumer().read([split(mixed, 0, 4, partition=1)]))

    assert table["key"].to_pylist() == [None, b"", b"k", b"\xff\xfe"]
    assert table["value"].to_pylist() == [None, b"", "grüße ✓ \x00 end".encode(), bytes(range(256))]
    assert table["topic"].to_pylist() == [mixed] * 4
    assert table["partition"].to_pylist() == [1] * 4
    assert table["offset"].to_pylist() == [0, 1, 2, 3]
    assert table["timestamp"].to_pylist() == [datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)] * 4
    assert table["timestampType"].to_pylist() == [0] * 4
    assert table["headers"].to_pylist() == [
        None,
        [{"key": "a", "value": b"x"}],
        [{"key": "a", "value": b""}, {"key": "a", "value": None}, {"key": "schlüssel", "value": "wert✓".encode()}],
        None,
    ]


@pytest.mark.parametrize("column", sorted(ALL_COLUMNS))
def test_a_column_alone(path: BatchPath, mixed: str, column: str) -> None:
    splits = [split(mixed, 0, 4, partition=1)]
    consumer = path.consumer()
    whole = table_of(consumer.read(splits))
    alone = table_of(consumer.read(splits, columns=frozenset({column})))

    assert alone[column].equals(whole[column])
    assert all(alone[other].null_count == 4 for other in ALL_COLUMNS - {column})


def test_no_column_at_all_still_counts_the_rows(path: BatchPath, mixed: str) -> None:
    table = table_of(path.consumer().read([split(mixed, 0, 4, partition=1)], columns=frozenset()))
    assert table.num_rows == 4


def test_append_time_is_recognized_by_its_type(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(message_timestamp_type="LogAppendTime")
    before = datetime.now(UTC)
    path.fill(topic, ["x"], timestamp=1)
    table = table_of(path.consumer().read([split(topic, 0, 1)]))
    assert table["timestampType"].to_pylist() == [1]
    assert abs((table["timestamp"][0].as_py() - before).total_seconds()) < 60


def test_a_timestamp_that_microseconds_cannot_hold_is_null(path: BatchPath, make_topic: Callable[..., str]) -> None:
    topic = make_topic(message_timestamp_after_max_ms=str(2**63 - 1))
    last = (2**63 - 1) // 1000
    millis = [last, last + 1, 2**63 - 1, 1]
    for each in millis:
        path.fill(topic, [str(each)], timestamp=each)
    table = table_of(path.consumer().read([split(topic, 0, 4)]))
    assert [each.value for each in table["timestamp"]] == [last * 1000, None, None, 1000]
    assert table["timestampType"].to_pylist() == [0] * 4


def test_many_headers_over_several_batches(path: BatchPath, topic: str) -> None:
    producer = Producer({"bootstrap.servers": path.bootstrap})
    expected = []
    for number in range(5000):
        headers = [(f"h{index}", None if (number + index) % 5 == 0 else b"v" * index) for index in range(number % 7)]
        expected.append([{"key": key, "value": value} for key, value in headers] or None)
        producer.produce(topic, str(number), headers=headers)
    assert producer.flush(30) == 0
    table = table_of(path.consumer().read([split(topic, 0, 5000)], max_rows=777))
    assert table["headers"].to_pylist() == expected
    assert [int(value) for value in table["value"].to_pylist()] == list(range(5000))
