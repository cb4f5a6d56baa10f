"""Columns of a batch to be produced: which are read, which types are taken."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.dataplane.output_batch import OutputBatch
from sparkapp.model.errors import TransformError

HEADERS = SOURCE_SCHEMA.field("headers").type


def test_only_value_is_needed_and_other_names_are_ignored() -> None:
    output = OutputBatch.of(pa.record_batch({"value": pa.array([b"a"]), "offset": pa.array([1])}))
    assert output.rows == 1
    assert output.value.to_pylist() == [b"a"]
    assert (output.key, output.topic, output.partition, output.timestamp, output.headers) == (None,) * 5


def test_columns_of_nothing_but_nulls_are_absent() -> None:
    batch = pa.record_batch({"value": pa.array(["a"]), "key": pa.nulls(1), "headers": pa.nulls(1, HEADERS)})
    output = OutputBatch.of(batch)
    assert (output.key, output.headers) == (None, None)
    some = pa.array([[{"key": "a", "value": b"1"}], [], None, []], HEADERS)
    for start, count, given in ((0, 4, True), (1, 3, False), (3, 1, False), (0, 1, True)):
        batch = pa.record_batch({"value": pa.array(["a"] * 4), "headers": some}).slice(start, count)
        assert (OutputBatch.of(batch).headers is not None) == given


def test_strings_and_bytes_are_not_copied() -> None:
    for kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        value = pa.array(["a", None, "b"]).cast(kind)
        assert OutputBatch.of(pa.record_batch({"value": value})).value.type == kind


def test_other_spellings_of_the_types_are_brought_to_one() -> None:
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    output = OutputBatch.of(
        pa.record_batch(
            {
                "value": pa.array(["a"]).dictionary_encode(),
                "topic": pa.array(["t"], pa.large_string()),
                "partition": pa.array([3], pa.int64()),
                "timestamp": pa.array([moment], pa.timestamp("ns", tz="America/New_York")),
                "headers": pa.array(
                    [[{"key": "a", "value": b"1"}]],
                    pa.large_list(
                        pa.struct([pa.field("key", pa.large_string()), pa.field("value", pa.large_binary())])
                    ),
                ),
            }
        )
    )
    assert output.value.to_pylist() == [b"a"]
    assert output.topic is not None
    assert output.topic.type == pa.string()
    assert output.partition is not None
    assert output.partition.type == pa.int32()
    assert output.timestamp is not None
    assert output.timestamp.cast(pa.int64()).to_pylist() == [int(moment.timestamp() * 1000)]
    assert output.headers is not None
    assert output.headers.type.value_type == HEADERS.value_type


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("value", pa.array([1])),
        ("value", pa.array([[b"a"]])),
        ("key", pa.array([1.5])),
        ("topic", pa.array([b"\xff"], pa.binary())),
        ("partition", pa.array(["one"])),
        ("partition", pa.array([1 << 40])),
        ("timestamp", pa.array(["2024"])),
        ("timestamp", pa.array([1_700_000_000_000])),
        ("headers", pa.array(["h"])),
    ],
)
def test_a_type_that_cannot_be_meant_names_the_column(column: str, values: pa.Array) -> None:  # type: ignore[type-arg]
    batch = pa.record_batch({"value": pa.array([b"v"]), column: values})
    with pytest.raises(TransformError, match=f"column '{column}' has type") as refused:
        OutputBatch.of(batch)
    assert "return the columns value" in refused.value.remedy


def test_no_value_column() -> None:
    with pytest.raises(TransformError, match="no column 'value' but key, values"):
        OutputBatch.of(pa.record_batch({"key": pa.array(["k"]), "values": pa.array(["v"])}))
