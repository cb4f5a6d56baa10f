"""Rates of the sink's encoders and of the source's decoders, in one thread and without Kafka.

    PYTHONPATH=dev python -m bench.micro.sink_formats
    python -m bench.micro.sink_formats --rows 65536 --rounds 5

The same records go from columns to Avro, Protobuf or JSON, and back. fastavro and Google's library write them one by
one, as a transform would have to without ``sink.format``. Confluent's serializers are these with further checks. The
best round counts.
"""

from __future__ import annotations

import argparse
import base64
import json
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf import message_factory, text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from sparkapp.formats.encoders.record_encoder import RecordEncoder
from sparkapp.formats.protobuf_messages import message_of
from sparkapp.formats.schema_registry import AVRO, RegisteredSchema, SchemaRegistry
from sparkapp.formats.schema_registry import PROTOBUF as PROTOBUF_KIND
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.source.formats.avro import AvroDecoder
from sparkapp.source.formats.json_text.decoder import JsonDecoder
from sparkapp.source.formats.protobuf import ProtobufDecoder

SCHEMA = {
    "type": "record", "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": {"type": "record", "name": "Customer", "fields": [
            {"name": "name", "type": "string"}, {"name": "region", "type": ["null", "string"]}]}},
        {"name": "amount", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "items", "type": {"type": "array", "items": "string"}},
        {"name": "weight", "type": ["null", "double"]},
    ],
}  # fmt: skip
COLUMNS = (
    "id BIGINT, customer STRUCT<name: STRING, region: STRING>, amount DOUBLE, paid BOOLEAN, items ARRAY<STRING>,"
    " weight DOUBLE"
)
JSON_SCHEMA = {
    "type": "object", "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "object", "properties": {"name": {"type": "string"}, "region": {"type": "string"}}},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
        "items": {"type": "array", "items": {"type": "string"}},
        "weight": {"type": "number"},
    },
}  # fmt: skip
PROTOBUF = """
name: "order.proto" package: "shop" syntax: "proto3"
message_type {
  name: "Order"
  field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "customer" number: 2 type: TYPE_MESSAGE type_name: ".shop.Customer" label: LABEL_OPTIONAL }
  field { name: "amount" number: 3 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "paid" number: 4 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "items" number: 5 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "weight" number: 6 type: TYPE_DOUBLE label: LABEL_OPTIONAL oneof_index: 0 proto3_optional: true }
  oneof_decl { name: "_weight" }
}
message_type {
  name: "Customer"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "region" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 proto3_optional: true }
  oneof_decl { name: "_region" }
}
"""
_TYPES = {
    "id": pa.int64(),
    "customer": pa.struct([("name", pa.string()), ("region", pa.string())]),
    "amount": pa.float64(),
    "paid": pa.bool_(),
    "items": pa.list_(pa.string()),
    "weight": pa.float64(),
}


class _KnownSchemas(SchemaRegistry):
    """A registry that is asked once and answers without a request: Avro has id 7, Protobuf 8."""

    def by_id(self, schema_id: int, *, compiled: bool = False) -> RegisteredSchema:
        if compiled:
            return RegisteredSchema(_compiled(), PROTOBUF_KIND, (), schema_id)
        return RegisteredSchema(json.dumps(SCHEMA), AVRO, (), schema_id)


def orders(rows: int) -> pa.RecordBatch:
    """Records of about 80 bytes in Avro, and 150 in JSON."""
    names = ["ann", "bob", "carla del río", "dai"]
    records = [
        {
            "id": 10**9 + number, "customer": {"name": names[number % 4], "region": "eu" if number % 3 else None},
            "amount": number / 100, "paid": number % 2 == 0, "items": [f"item-{number % 50}", "shipping"],
            "weight": number / 7 if number % 5 else None,
        }
        for number in range(rows)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(records, schema=pa.schema(list(_TYPES.items())))


def main() -> None:
    """Runs the bench of the options and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=16_384, help="of a batch")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    batch = orders(options.rows)
    encoders = {kind: _encoder(kind, *fixed) for kind, fixed in _SCHEMAS.items()}
    in_avro, in_protobuf, in_json = (
        encoders[kind].encode(batch).column("value").cast(pa.binary())
        for kind in (SinkEncoding.AVRO, SinkEncoding.PROTOBUF, SinkEncoding.JSON)
    )
    registry = _KnownSchemas(RegistryAccess(url="http://none"))
    from_avro = AvroDecoder(registry, json.dumps(SCHEMA), where="the bench")
    from_protobuf = ProtobufDecoder(registry, _SCHEMAS[SinkEncoding.PROTOBUF][0], where="the bench")
    ways: dict[str, Callable[[], Any]] = {
        "columns -> Avro, sink.format": lambda: encoders[SinkEncoding.AVRO].encode(batch),
        "columns -> Avro, fastavro a record": lambda: _avro_by_record(batch),
        "Avro -> columns, source.format": lambda: from_avro.decode(in_avro),
        "columns -> Protobuf, sink.format": lambda: encoders[SinkEncoding.PROTOBUF].encode(batch),
        "columns -> Protobuf, Google's a record": lambda: _protobuf_by_record(batch),
        "Protobuf -> columns, source.format": lambda: from_protobuf.decode(in_protobuf),
        "columns -> JSON, sink.format": lambda: encoders[SinkEncoding.JSON].encode(batch),
        "columns -> JSON of a schema": lambda: encoders[SinkEncoding.JSON_SCHEMA].encode(batch),
        "JSON -> columns, source.format": lambda: JsonDecoder(COLUMNS, "value").decode(in_json),
    }
    assert in_avro.to_pylist() == _avro_by_record(batch).to_pylist()
    assert in_protobuf.to_pylist() == _protobuf_by_record(batch).to_pylist()
    print(f"batches of {options.rows} records; {in_avro.nbytes // options.rows} bytes a record in Avro,")
    print(f"{in_protobuf.nbytes // options.rows} in Protobuf, {in_json.nbytes // options.rows} in JSON; CPU time")
    for name, run in ways.items():
        seconds = min(_seconds(run) for _ in range(options.rounds))
        print(f"{name:38}{options.rows / seconds / 1e3:10.0f} k records a second and core", flush=True)


def _compiled() -> str:
    file = text_format.Parse(PROTOBUF, FileDescriptorProto())
    return base64.b64encode(file.SerializeToString()).decode()


_SCHEMAS = {
    SinkEncoding.AVRO: (json.dumps(SCHEMA), "7", ""),
    SinkEncoding.PROTOBUF: (json.dumps({"message": "shop.Order", "files": [_compiled()]}), "8", ""),
    SinkEncoding.JSON_SCHEMA: (json.dumps({"schema": JSON_SCHEMA, "references": {}}), "9", ""),
    SinkEncoding.JSON: (),
}


def _encoder(kind: SinkEncoding, *fixed: str) -> RecordEncoder:
    chosen = SinkFormat(value=kind, value_fixed=fixed)
    return RecordEncoder(Sink(topic="bench", transactional_id_prefix="bench", format=chosen))


def _protobuf_by_record(batch: pa.RecordBatch) -> pa.Array[Any]:
    kind = message_factory.GetMessageClass(message_of(_SCHEMAS[SinkEncoding.PROTOBUF][0], "the bench"))
    found = [
        b"\0\0\0\0\x08\0"
        + kind(**{name: value for name, value in record.items() if value is not None}).SerializeToString()
        for record in batch.to_pylist()
    ]
    return pa.array(found, pa.large_binary())


def _avro_by_record(batch: pa.RecordBatch) -> pa.Array[Any]:
    schema = fastavro.parse_schema(SCHEMA, {})
    found = []
    for record in batch.to_pylist():
        out = BytesIO()
        out.write(b"\0\0\0\0\7")
        fastavro.schemaless_writer(out, schema, record)
        found.append(out.getvalue())
    return pa.array(found, pa.large_binary())


def _seconds(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


if __name__ == "__main__":
    main()
