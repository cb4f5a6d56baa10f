"""The decoders of foreign bytes, each with the outcomes that are allowed for arbitrary bytes."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from sparkapp.model.checkpoint.codec import decode, encode
from sparkapp.model.errors import CheckpointCorrupt, CheckpointForeign
from sparkapp.model.report import (
    AttemptOutcome,
    DriverState,
    Report,
    Termination,
    decode_report,
    decode_termination,
    encode_report,
    encode_termination,
)
from tests.fuzz.damage import damaged

Round = Callable[[Random], None]
"""Checks one example; raises where the outcome is not allowed."""


class _Buffer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("capacity", ctypes.c_size_t),
                ("exhausted", ctypes.c_bool))  # fmt: skip


@contextmanager
def utf8() -> Iterator[Round]:
    """``ext/arrow/utf8.c`` compared with the text that Java has, made by Python."""
    from sparkapp.dataplane.native import _kafka_arrow
    from sparkapp.source.formats.json_text.java_text import decoded

    library = ctypes.CDLL(_kafka_arrow.__file__)
    library.buffer_free.argtypes = [ctypes.POINTER(_Buffer)]
    library.utf8_append.argtypes = [ctypes.POINTER(_Buffer), ctypes.c_char_p, ctypes.c_size_t]
    seeds = ["grüße ✓ 😀".encode(), b"plain", bytes(range(256)), b"\xf0\x9f\x98", b"\xe2\x9c"]

    def check(random: Random) -> None:
        text = damaged(random, seeds)
        buffer = _Buffer()
        library.utf8_append(ctypes.byref(buffer), text, len(text))
        got = ctypes.string_at(buffer.data, buffer.length) if buffer.length else b""
        library.buffer_free(ctypes.byref(buffer))
        assert got == decoded(text).encode(), text

    yield check


@contextmanager
def columns() -> Iterator[Round]:
    """A batch through the extension's producer, librdkafka's mock cluster, and the extension's consumer."""
    from confluent_kafka import Producer

    from sparkapp.dataplane.interface import SOURCE_SCHEMA
    from sparkapp.dataplane.native.consumer import NativeConsumer
    from sparkapp.dataplane.native.producer import NativeProducer
    from sparkapp.model.checkpoint.split import KafkaPartitionSplit
    from sparkapp.model.partition import TopicPartition

    cluster = Producer({"test.mock.num.brokers": 1})
    bootstrap = ",".join(f"{broker.host}:{broker.port}" for broker in cluster.list_topics(timeout=30).brokers.values())
    config = {"bootstrap.servers": bootstrap}
    producer, consumer = NativeProducer({**config, "linger.ms": "0"}), NativeConsumer(config)
    position = 0
    kinds = (pa.binary(), pa.large_binary(), pa.binary_view())

    def value(random: Random) -> bytes | None:
        return None if random.random() < 0.3 else random.randbytes(random.choice((0, 1, 7, 300)))

    def header(random: Random) -> dict[str, Any] | None:
        name = damaged(random, [b"name", "schlüssel✓".encode()]).replace(b"\0", b"").decode("utf-8", "ignore")
        return None if random.random() < 0.2 else {"key": name, "value": value(random)}

    def check(random: Random) -> None:
        nonlocal position
        rows = random.choice((1, 2, 9, 40))
        values, keys = ([value(random) for _ in range(rows)] for _ in range(2))
        headers = [random.choice((None, [header(random) for _ in range(random.randrange(4))])) for _ in range(rows)]
        kind = random.choice(kinds)
        batch = pa.record_batch(
            {
                "value": pa.array(values, pa.binary()).cast(kind),
                "key": pa.array(keys, pa.binary()).cast(kind),
                "headers": pa.array(headers, SOURCE_SCHEMA.field("headers").type),
                "partition": pa.array([0] * rows, pa.int32()),
            }
        )
        start = random.randrange(rows)
        producer.produce(batch.slice(start), topic="t")
        count = producer.flush(60)
        assert count == rows - start
        splits = [KafkaPartitionSplit(TopicPartition("t", 0), position, position + count)]
        table = pa.Table.from_batches(consumer.read(splits, max_rows=random.choice((1, 7, 1000))), SOURCE_SCHEMA)
        table.validate(full=True)
        position += count
        assert table["value"].to_pylist() == values[start:]
        assert table["key"].to_pylist() == keys[start:]
        wanted = [[each for each in some or () if each is not None] or None for some in headers[start:]]
        assert table["headers"].to_pylist() == wanted

    try:
        yield check
    finally:
        producer.close()
        consumer.close()


@contextmanager
def avro() -> Iterator[Round]:
    """``source.formats.avro``: a value or an error for each record; the records around it are unchanged."""
    from sparkapp.formats.schema_registry import SchemaRegistry
    from sparkapp.source.formats.avro import AvroDecoder
    from tests.support.kafka.schema_registry import framed, registry

    names = {"name": "n", "type": {"type": "array", "items": {"type": "map", "values": ["null", "double"]}}}
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, names]}
    with registry() as server:
        number = server.register("s", schema)
        decoder = AvroDecoder(SchemaRegistry(server.access, timeout=5), json.dumps(schema), where="the schema")
        good = framed(number, schema, {"id": 7, "n": [{"a": None}]})
        seeds = [good, framed(number, schema, {"id": -1, "n": [{}, {"x": 1.5, "✓" * 30: 2.0}]})]
        wanted = decoder.decode(pa.array([good]))[0].to_pylist()

        def check(random: Random) -> None:
            column, errors = decoder.decode(pa.array([good, damaged(random, seeds), good], pa.binary()))
            assert [column[0].as_py(), column[2].as_py()] == wanted * 2
            assert errors[0] is None
            assert errors[2] is None
            assert errors[1] is None or column[1].as_py() is None

        yield check


@contextmanager
def protobuf() -> Iterator[Round]:
    """``source.formats.protobuf``, likewise."""
    from google.protobuf import descriptor_pb2, text_format

    from sparkapp.formats.schema_registry import SchemaRegistry
    from sparkapp.source.formats.protobuf import ProtobufDecoder, protobuf_reader_schema
    from tests.support.kafka.schema_registry import framed_protobuf, registry

    file = text_format.Parse(
        'name: "default" package: "shop" syntax: "proto3" message_type { name: "Order"'
        ' field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }'
        ' field { name: "name" number: 2 type: TYPE_STRING label: LABEL_REPEATED } }',
        descriptor_pb2.FileDescriptorProto(),
    )
    with registry() as server:
        number = server.register_protobuf("in-value", file)
        client = SchemaRegistry(server.access, timeout=5)
        decoder = ProtobufDecoder(
            client, protobuf_reader_schema(client, topic="in", side="value", given=""), where="the schema"
        )
        good = framed_protobuf(number, b"\x08\x07\x12\x01a")
        seeds = [good, framed_protobuf(number, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x03\xe2\x9c\x93", 0)]
        wanted = decoder.decode(pa.array([good]))[0].to_pylist()

        def check(random: Random) -> None:
            column, errors = decoder.decode(pa.array([good, damaged(random, seeds), good], pa.binary()))
            assert [column[0].as_py(), column[2].as_py()] == wanted * 2
            assert (errors[0], errors[2]) == (None, None)
            assert errors[1] is None or column[1].as_py() is None

        yield check


@contextmanager
def state() -> Iterator[Round]:
    """The checkpoint document: an error that names the defect, or a document that a round trip does not change."""
    seed = Path(__file__).with_name("checkpoint.json").read_bytes()
    uid = json.loads(seed)["jobUid"]
    decode(seed.decode(), job_uid=uid)  # undamaged, it reaches every part of the decoder
    seeds = [seed]

    def check(random: Random) -> None:
        text = damaged(random, seeds).decode("utf-8", "replace")
        try:
            document = decode(text, job_uid=uid)
        except (CheckpointCorrupt, CheckpointForeign):
            return
        assert decode(encode(document), job_uid=uid) == document

    yield check


@contextmanager
def report() -> Iterator[Round]:
    """Reports and termination messages of drivers: None, or a value whose numbers are in range."""
    time = "2026-11-23T00:00:00Z"
    full = encode_report(
        Report(
            job_uid="u", attempt=1, state=DriverState.RUNNING, updated_at=time, checkpoint_time=time,
            oldest_transaction_time=time,
        )
    )  # fmt: skip
    last = encode_termination(Termination(outcome=AttemptOutcome.FAILED, reason="R", message="m", remedy="r"))
    seeds = [full.encode(), last.encode()]
    assert decode_report(full, job_uid="u") is not None
    assert decode_termination(last) is not None

    def check(random: Random) -> None:
        text = damaged(random, seeds).decode("utf-8", random.choice(("replace", "surrogateescape", "ignore")))
        found = decode_report(text, job_uid="u")
        if found is not None:
            assert 0 <= found.checkpoint_id < 1 << 63
            encode_report(found).encode()
            for known in filter(None, (found.checkpoint_time, found.oldest_transaction_time)):
                assert datetime.fromisoformat(known) + timedelta(days=1) > datetime.min.replace(tzinfo=UTC)
        decode_termination(text)

    yield check


TARGETS: Mapping[str, Callable[[], Any]] = {
    target.__name__: target for target in (utf8, columns, avro, protobuf, state, report)
}
