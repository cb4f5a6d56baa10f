"""Rates of the sink's encoders and of the source's decoders, in one thread and without Kafka.

    PYTHONPATH=dev python -m bench.micro.sink_formats
    python -m bench.micro.sink_formats --rows 65536 --rounds 5

The same records go from columns to Avro or JSON, and back. fastavro writes them one by one, as a transform would have
to without ``sink.format``. Confluent's serializer is fastavro with further checks. The best round counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from sparkapp.formats.encoders.record_encoder import RecordEncoder
from sparkapp.formats.schema_registry import AVRO, RegisteredSchema, SchemaRegistry
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.source.formats.avro import AvroDecoder
from sparkapp.source.formats.json_text.decoder import JsonDecoder

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
_TYPES = {
    "id": pa.int64(),
    "customer": pa.struct([("name", pa.string()), ("region", pa.string())]),
    "amount": pa.float64(),
    "paid": pa.bool_(),
    "items": pa.list_(pa.string()),
    "weight": pa.float64(),
}


class _KnownSchema(SchemaRegistry):
    """A registry that is asked once and answers without a request."""

    def by_id(self, schema_id: int, *, compiled: bool = False) -> RegisteredSchema:
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
    avro, text = _encoder(SinkEncoding.AVRO), _encoder(SinkEncoding.JSON)
    in_avro, in_json = (each.encode(batch).column("value").cast(pa.binary()) for each in (avro, text))
    decoder = AvroDecoder(_KnownSchema(RegistryAccess(url="http://none")), json.dumps(SCHEMA), where="the bench")
    ways: dict[str, Callable[[], Any]] = {
        "columns -> Avro, sink.format": lambda: avro.encode(batch),
        "columns -> Avro, fastavro a record": lambda: _by_record(batch),
        "Avro -> columns, source.format": lambda: decoder.decode(in_avro),
        "columns -> JSON, sink.format": lambda: text.encode(batch),
        "JSON -> columns, source.format": lambda: JsonDecoder(COLUMNS, "value").decode(in_json),
    }
    assert avro.encode(batch).column("value").to_pylist() == _by_record(batch).to_pylist()
    print(f"batches of {options.rows} records; {in_avro.nbytes // options.rows} bytes a record in Avro,")
    print(f"{in_json.nbytes // options.rows} in JSON; CPU time of this process")
    for name, run in ways.items():
        seconds = min(_seconds(run) for _ in range(options.rounds))
        print(f"{name:38}{options.rows / seconds / 1e3:10.0f} k records a second and core", flush=True)


def _encoder(kind: SinkEncoding) -> RecordEncoder:
    chosen = SinkFormat(value=kind, value_fixed=(json.dumps(SCHEMA), "7", ""))
    return RecordEncoder(Sink(topic="bench", transactional_id_prefix="bench", format=chosen))


def _by_record(batch: pa.RecordBatch) -> pa.Array[Any]:
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
