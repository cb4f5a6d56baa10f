"""Records of tests and of files: what they are in Kafka, and which line is no record."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkaspark.local.input_file import read_records
from kafkaspark.local.records import Record, source_batches
from sparkapp.model.errors import ConfigurationError, InputUnreadable
from sparkapp.model.job.sections.source import Source
from sparkapp.model.partition import TopicPartition

TIME = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, None), (b"\x00\xff", b"\x00\xff"), (bytearray(b"a"), b"a"), ("é", "é".encode()), (1.5, b"1.5"),
        ({"a": [1, None]}, b'{"a":[1,null]}'), (True, b"true"),
    ],
)  # fmt: skip
def test_key_and_value_are_bytes(given: object, stored: bytes | None) -> None:
    record = Record(given, key=given, headers={"h": given})
    assert (record.value, record.key, record.headers) == (stored, stored, (("h", stored),))


def test_records_are_equal_by_what_kafka_stores_for_a_reader() -> None:
    assert Record("a", "k", timestamp=TIME, topic="t", partition=3) == Record(b"a", b"k")
    assert Record("a") != Record("a", headers=[("h", "")])
    assert (Record({"a": 1}).json, Record("é").text, Record(None).json, Record(None).text) == (
        {"a": 1},
        "é",
        None,
        None,
    )


def test_offsets_count_over_checkpoints_and_by_partition() -> None:
    source = Source(group_id="g", topics=("orders", "payments"))
    first, second = source_batches(
        [[Record("a"), Record("b", partition=2), Record("c")], [Record("d", topic="payments"), Record("e")]], source
    )
    columns = ["topic", "partition", "offset"]
    rows = [tuple(row.values()) for batch in (first, second) for row in batch.select(columns).to_pylist()]
    assert rows == [("orders", 0, 0), ("orders", 2, 0), ("orders", 0, 1), ("payments", 0, 0), ("orders", 0, 2)]


def test_the_topic_of_chosen_partitions_is_the_default() -> None:
    (batch,) = source_batches([[Record("a")]], Source(group_id="g", partitions=(TopicPartition("orders", 1),)))
    assert batch.column("topic").to_pylist() == ["orders"]


def test_a_record_of_a_pattern_needs_a_topic() -> None:
    source = Source(group_id="g", topic_pattern="orders-.*")
    assert source_batches([[Record("a", topic="orders-eu")]], source)[0].num_rows == 1
    with pytest.raises(ConfigurationError, match=r"^in\.jsonl:3 names no topic"):
        source_batches([[Record("a", where="in.jsonl:3")]], source)


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ('{"id": 1}', Record({"id": 1})),
        ('"Ann"', Record("Ann")),
        ("null", Record(None)),
        ('{"key": "k", "value": {"id": 1}, "headers": {"h": "x"}}', Record({"id": 1}, "k", {"h": "x"})),
        ('{"value": 1, "unit": "cm"}', Record({"value": 1, "unit": "cm"})),
        ('{"key": "k"}', Record({"key": "k"})),
    ],
)
def test_a_line_is_a_record_or_a_value(line: str, record: Record, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(f"\n{line}\n")
    (found,) = read_records(file)
    assert found == record
    assert found.where == "in.jsonl:2"


def test_topic_partition_and_time_of_a_line(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(
        '{"value": 1, "topic": "t", "partition": 2, "timestamp": "2026-01-01T12:00:00Z"}\n'
        '{"value": 1, "timestamp": 1767268800000}\n{"value": 1, "timestamp": "2026-01-01T12:00:00"}\n'
    )
    records = read_records(file)
    assert (records[0].topic, records[0].partition) == ("t", 2)
    assert [record.timestamp for record in records] == [TIME] * 3


def test_every_line_can_be_a_value(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"key": "k", "value": 1}\n')
    assert read_records(file, values_only=True) == [Record({"key": "k", "value": 1})]


@pytest.mark.parametrize("line", ["{", '{"value": 1, "timestamp": "noon"}', '{"value": 1, "headers": 5}'])
def test_a_line_that_is_no_record_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(f'{{"id": 1}}\n{line}\n')
    with pytest.raises(InputUnreadable, match=r"^in\.jsonl:2 is no record: "):
        read_records(file)
