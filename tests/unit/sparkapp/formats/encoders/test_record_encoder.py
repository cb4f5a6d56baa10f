"""Which columns of a result make key and value, and what is refused before the first record."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from sparkapp.formats.encoders.record_encoder import RecordEncoder
from sparkapp.model.errors import EncodeError, ExtensionMissing, SchemaMismatch, TransformError
from sparkapp.model.job.sections.sink import Partitioner, Sink, TopicFrom
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat

RAW, STRING, JSON, AVRO = SinkEncoding.RAW, SinkEncoding.STRING, SinkEncoding.JSON, SinkEncoding.AVRO
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def encoder(*, sink: dict[str, Any] | None = None, **chosen: Any) -> RecordEncoder:
    return RecordEncoder(Sink(topic="out", transactional_id_prefix="p", format=SinkFormat(**chosen), **(sink or {})))


def rows(encoder: RecordEncoder, columns: dict[str, Any]) -> list[dict[str, Any]]:
    batch = encoder.encode(pa.record_batch(columns))
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def test_the_columns_without_another_meaning_make_the_value() -> None:
    found = rows(
        encoder(key=STRING, value=JSON),
        {"key": [7], "id": [1], "topic": ["in"], "partition": [3], "name": ["a"], "timestamp": [None]},
    )
    assert found == [{"key": "7", "value": b'{"id":1,"name":"a"}', "timestamp": None}]


def test_a_column_value_is_the_value_and_its_null_is_a_tombstone() -> None:
    values = pa.array([{"id": 1}, None, {"id": None}], pa.struct([("id", pa.int64())]))
    found = rows(encoder(value=JSON), {"key": ["a", None, "c"], "id": [1, 2, 3], "value": values})
    assert found == [
        {"key": "a", "value": b'{"id":1}'}, {"key": None, "value": None}, {"key": "c", "value": b"{}"},
    ]  # fmt: skip


def test_key_columns_are_a_record_and_stay_in_the_value() -> None:
    columns = {"key": ["source's"], "id": [1], "region": ["eu"], "n": [2]}
    assert rows(encoder(key=JSON, key_columns=("region", "id"), value=JSON), columns) == [
        {"key": b'{"region":"eu","id":1}', "value": b'{"id":1,"region":"eu","n":2}'}
    ]
    assert rows(encoder(key=STRING, key_columns=("id",), value=JSON), columns)[0]["key"] == "1"


def test_avro_has_the_frame_of_its_schema() -> None:
    made = encoder(key=AVRO, key_fixed=('"long"', "258", ""), value=AVRO, value_fixed=(ORDER, "7", ""))
    assert rows(made, {"key": [1], "id": [3]}) == [{"key": b"\0\0\0\1\2\2", "value": b"\0\0\0\0\7\6"}]


def test_json_of_a_schema_has_the_frame_and_its_refusals_the_subject() -> None:
    text = '{"schema": {"properties": {"id": {"type": "integer"}}}, "references": {}}'
    made = encoder(value=SinkEncoding.JSON_SCHEMA, value_fixed=(text, "258", "out-value"))
    assert rows(made, {"id": [3, None]}) == [{"value": b'\0\0\0\1\2{"id":3}'}, {"value": b"\0\0\0\1\2{}"}]
    with pytest.raises(SchemaMismatch) as caught:
        made.check(pa.schema([("id", pa.string())]))
    assert caught.value.message == "column id is STRING, and the schema has integer (schema 258 of subject 'out-value')"


def test_protobuf_has_the_frame_of_its_message() -> None:
    file = FileDescriptorProto(name="f.proto", syntax="proto3", package="shop")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    text = json.dumps({"message": "shop.Order", "files": [b64encode(file.SerializeToString()).decode()]})
    protobuf = SinkEncoding.PROTOBUF
    chosen = {"key_columns": ("id",), "key_fixed": (text, "258", ""), "value_fixed": (text, "7", "out-value")}
    made = encoder(key=protobuf, value=protobuf, **chosen)
    assert rows(made, {"id": [3]}) == [{"key": b"\0\0\0\1\2\2\2\x08\3", "value": b"\0\0\0\0\7\2\2\x08\3"}]
    with pytest.raises(EncodeError, match="column id is null, and the schema takes no null"):
        rows(made, {"id": pa.array([None], pa.int64())})
    with pytest.raises(SchemaMismatch, match=r"and the schema has int64 \(schema 7 of subject 'out-value'\)"):
        encoder(value=protobuf, value_fixed=(text, "7", "out-value")).check(pa.schema([("id", pa.string())]))


def test_text_and_bytes_are_written_as_they_are() -> None:
    assert rows(encoder(key=RAW, value=RAW), {"key": [b"\xff"], "value": ["a"]}) == [{"key": b"\xff", "value": "a"}]
    nothing = rows(encoder(key=RAW, value=STRING), {"key": pa.nulls(1), "value": pa.nulls(1)})
    assert nothing == [{"key": None, "value": None}]
    views = pa.array(["a"], pa.string_view())
    assert rows(encoder(value=STRING), {"value": views}) == [{"value": "a"}]
    assert rows(encoder(value=JSON), {"value": pa.array(["a"]).dictionary_encode()}) == [{"value": b'"a"'}]


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (pa.decimal128(38, 18), {"0": "0.000000000000000000", "0.00000001": "0.000000010000000000",
                                 "-1.5": "-1.500000000000000000"}),
        (pa.decimal128(38, 38), {"-1E-38": f"-0.{'0' * 37}1"}),
        (pa.decimal128(38, 0), {"9" * 38: "9" * 38, "0": "0", "-70": "-70"}),
        (pa.decimal128(5, -3), {"12E5": "1200000", "0": "0"}),
        (pa.date32(), {"0": "1970-01-01", "-719529": "-0001-12-31", "-719528": "0000-01-01",
                       "2932896": "9999-12-31", "2932897": "+10000-01-01", "20000000": "+56728-02-22"}),
        (pa.int8(), {"-128": "-128"}),
        (pa.uint64(), {str(2**64 - 1): str(2**64 - 1)}),
        (pa.bool_(), {"1": "true", "0": "false"}),
    ],
)  # fmt: skip
def test_string_has_the_text_of_a_cast_in_sql(kind: pa.DataType, texts: dict[str, str]) -> None:
    numbers = [Decimal(number) for number in texts]
    of_kind: pa.Array[Any] = pa.array(numbers, kind) if pa.types.is_decimal(kind) else pa.array(
        [int(number) for number in numbers], pa.int32() if kind in (pa.date32(), pa.bool_()) else kind
    ).cast(kind)  # fmt: skip
    with_null = pa.concat_arrays([pa.nulls(2, kind), of_kind]).slice(1)
    found = encoder(key=STRING, value=STRING).encode(pa.record_batch({"key": with_null, "value": with_null}))
    assert found["key"].cast(pa.string()).to_pylist() == [None, *texts.values()]
    assert found["value"].equals(found["key"])


def test_only_what_the_sink_routes_by_is_passed_on() -> None:
    columns = {"value": ["a"], "topic": ["t"], "partition": pa.array([1], pa.int32())}
    routed = {"topic_from": TopicFrom.COLUMN, "partitioner": Partitioner.SOURCE_PARTITION}
    assert rows(encoder(sink=routed, value=STRING), columns) == [{"value": "a", "topic": "t", "partition": 1}]
    assert rows(encoder(value=STRING), columns) == [{"value": "a"}]


def test_headers_may_be_a_map_or_have_texts() -> None:
    pairs = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    texts = pa.array([pairs[:1]], pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    maps = pa.array([[("z", "0")], [("a", "1"), ("b", None)], None], pa.map_(pa.string(), pa.string())).slice(1)
    made = encoder(value=STRING)
    assert rows(made, {"value": ["x"], "headers": texts}) == [{"value": "x", "headers": pairs[:1]}]
    assert rows(made, {"value": ["x", "y"], "headers": maps}) == [
        {"value": "x", "headers": pairs}, {"value": "y", "headers": None},
    ]  # fmt: skip
    assert rows(made, {"value": ["x"], "headers": pa.array([pairs], kind)}) == [{"value": "x", "headers": pairs}]
    with pytest.raises(TransformError, match="column 'headers' is BIGINT") as caught:
        made.check(pa.schema([("value", pa.string()), ("headers", pa.int64())]))
    assert "MAP<STRING, STRING>" in caught.value.remedy


@pytest.mark.parametrize(
    ("chosen", "columns", "says", "remedy"),
    [
        ({"value": STRING}, {"a": pa.string()}, "no column 'value': it has a", "AS value"),
        ({"value": JSON}, {"key": pa.string()}, "no column 'value': it has key", "AS value"),
        ({"value": JSON, "key_columns": ("b",), "key": JSON}, {"a": pa.string()}, "one column 'b'", "keyColumns"),
        ({"value": RAW}, {"value": pa.int64()}, r"value is BIGINT, and raw.*\(sink.format.value: raw\)", "AS STRING"),
        ({"key": RAW, "value": JSON}, {"key": pa.int64(), "a": pa.int64()}, "key is BIGINT", "key to string"),
        ({"value": STRING}, {"value": pa.binary()}, "value is BINARY, and string takes", "format.value to json or raw"),
        ({"value": STRING}, {"value": pa.float64()}, "value is DOUBLE, and string takes", "CAST"),
        ({"value": JSON}, {"a": pa.duration("s")}, "column a is duration", "AS STRING"),
    ],
)  # fmt: skip
def test_a_result_that_the_format_cannot_have_is_refused(
    chosen: dict[str, Any], columns: dict[str, pa.DataType], says: str, remedy: str
) -> None:
    with pytest.raises(TransformError, match=says) as caught:
        encoder(**chosen).check(pa.schema(list(columns.items())))
    assert remedy in caught.value.remedy


def test_two_columns_of_a_name_are_refused_where_they_are_used() -> None:
    twice = pa.schema([("a", pa.int64()), ("a", pa.int64()), ("value", pa.string())])
    encoder(value=STRING).check(twice)
    with pytest.raises(TransformError, match="not exactly one column 'a': it has a, a"):
        encoder(value=JSON).check(pa.schema([("a", pa.int64()), ("a", pa.int64())]))


def test_a_column_that_does_not_fit_names_schema_and_subject() -> None:
    made = encoder(value=AVRO, value_fixed=(ORDER, "7", "out-value"))
    with pytest.raises(SchemaMismatch) as caught:
        made.check(pa.schema([("id", pa.string())]))
    assert caught.value.message == "column id is STRING, and the schema has long (schema 7 of subject 'out-value')"
    assert caught.value.remedy == "cast it in the transform: CAST(id AS BIGINT), or write with another schema"
    with pytest.raises(SchemaMismatch, match=r"column value.x has no field.*schema 7 of the registry"):
        encoder(value=AVRO, value_fixed=(ORDER, "7", "")).check(
            pa.schema([("value", pa.struct([("id", pa.int64()), ("x", pa.int64())]))])
        )


def test_a_value_that_the_schema_cannot_have_ends_the_batch_with_its_column() -> None:
    made = encoder(value=AVRO, value_fixed=(ORDER, "7", ""))
    with pytest.raises(EncodeError) as caught:
        rows(made, {"id": [1, 2, None]})
    assert caught.value.message == "column id is null, and the schema takes no null (row 2 of a batch)"


def test_batches_of_other_columns_follow_each_other() -> None:
    made = encoder(value=JSON)
    assert rows(made, {"a": [1]}) == [{"value": b'{"a":1}'}]
    assert rows(made, {"b": ["x"]}) == [{"value": b'{"b":"x"}'}]
    assert made.columns == ("b",)
    assert json.loads(rows(made, {"a": [1]})[0]["value"]) == {"a": 1}


def test_without_the_extension_the_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sparkapp.dataplane.native._kafka_arrow", None)
    monkeypatch.delattr("sparkapp.dataplane.native._kafka_arrow", raising=False)
    with pytest.raises(ExtensionMissing, match=r"sink\.format json needs the C extension") as caught:
        encoder(value=JSON).check(pa.schema([("a", pa.int64())]))
    assert "make setup" in caught.value.remedy
    encoder(value=STRING).check(pa.schema([("value", pa.string())]))
