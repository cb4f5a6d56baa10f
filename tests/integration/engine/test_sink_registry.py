"""Protobuf and JSON Schema of a real registry in both engines, read by Confluent's own deserializers."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2

from localcluster.kafka.registry import Registry
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.model.job.access.registry_access import SINK_REGISTRY, RegistryAccess
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat
from sparkapp.model.job.sections.transform import ArrowTransform, Transform
from sparkapp.model.job.spec import Engine
from tests.integration.engine.conftest import LocalJobs
from tests.support.jobs.local_job import LocalJob, produce
from tests.support.kafka import visibility
from tests.support.kafka.protobuf_files import message_class

pytestmark = pytest.mark.spark

FILE = descriptor_pb2.FileDescriptorProto(name="n.proto", package="shop", syntax="proto3")
FILE.message_type.add(name="Other")
NUMBER = FILE.message_type.add(name="Number", oneof_decl=[descriptor_pb2.OneofDescriptorProto(name="_half")])
NUMBER.field.add(name="n", number=1, type=5, label=1)
NUMBER.field.add(name="half", number=2, type=1, label=1, oneof_index=0, proto3_optional=True)
PROTO = base64.b64encode(FILE.SerializeToString()).decode()
KEY = json.dumps({"title": "Key", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
_MODULE = """
import pyarrow as pa
import pyarrow.compute as pc


def numbers(batch):
    n = batch.column("value").cast(pa.string()).cast(pa.int32())
    half = pc.if_else(pc.equal(pc.bit_wise_and(n, 1), 0), pc.divide(n.cast(pa.float64()), 2.0), None)
    return pa.record_batch({"n": n, "half": half})


def holes(batch):
    n = batch.column("value").cast(pa.string()).cast(pa.int32())
    return pa.record_batch({"n": pc.if_else(pc.equal(n, 7), None, n)})
"""


@pytest.fixture
def registry(tmp_path: Path) -> Any:
    with Registry(tmp_path) as running:
        yield running


@pytest.fixture
def job(local_job: LocalJobs, tmp_path: Path, registry: Registry) -> LocalJob:
    """Writes Protobuf with a key in JSON of a schema, and registers both."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "encoded.py").write_text(_MODULE)
    made = local_job(transform=Transform(arrow=ArrowTransform(function="encoded:numbers")), code=code)
    chosen = SinkFormat(
        key=SinkEncoding.JSON_SCHEMA, key_columns=("n",), key_schema=KEY, value=SinkEncoding.PROTOBUF,
        value_schema=PROTO, value_message="shop.Number", auto_register=True,
    )  # fmt: skip
    access = RegistryAccess(url=registry.url, field=SINK_REGISTRY)
    made.spec = replace(made.spec, sink=replace(made.spec.sink, format=chosen, schema_registry=access))
    return made


def test_both_engines_write_what_confluents_readers_read(
    job: LocalJob, registry: Registry, broker: str, client: TransactionClient
) -> None:
    source, sink = job.spec.source.topics[0], job.spec.sink.topic
    query = (
        "SELECT n, IF(n & 1 = 0, n / 2D, NULL) AS half FROM"
        " (SELECT CAST(CAST(value AS STRING) AS INT) AS n FROM source)"
    )
    runs = ((Engine.CONTINUOUS, job.spec.transform), (Engine.MICRO_BATCH, job.spec.transform),
            (Engine.MICRO_BATCH, Transform(sql=query)))  # fmt: skip
    for first, (engine, transform) in zip((0, 300, 600), runs, strict=True):
        job.spec = replace(job.spec, engine=engine, transform=transform)
        produce(broker, source, first, 300)
        job.start()
        job.await_records_in(first + 300)
        assert job.drain() == 0, job.log()
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
    schemas = SchemaRegistryClient({"url": registry.url})
    assert schemas.get_versions(f"{sink}-value") == schemas.get_versions(f"{sink}-key") == [1]
    # Without the registry, of which it would ask a compiled form that this registry does not have.
    values = ProtobufDeserializer(message_class(FILE, "shop.Number"), {"use.deprecated.format": False})
    keys = JSONDeserializer(None, schema_registry_client=schemas)
    found = {}
    for message in visibility.messages(broker, sink):
        value = values(message.value(), SerializationContext(sink, MessageField.VALUE))
        assert keys(message.key(), SerializationContext(sink, MessageField.KEY)) == {"n": value.n}
        assert value.n not in found
        found[value.n] = value.half if value.HasField("half") else None
    assert found == {n: None if n & 1 else n / 2 for n in range(900)}


def test_what_does_not_fit_stops_both_engines_before_a_record_is_visible(
    job: LocalJob, registry: Registry, broker: str, client: TransactionClient
) -> None:
    produce(broker, job.spec.source.topics[0], 0, 100)
    holes = Transform(arrow=ArrowTransform(function="encoded:holes"))
    longer = Transform(sql="SELECT CAST(CAST(value AS STRING) AS BIGINT) AS n FROM source")
    number = f"(schema 2 of subject '{job.spec.sink.topic}-value')"
    for engine, transform, reason, says in (
        (Engine.MICRO_BATCH, longer, "SchemaMismatch", f"column n is BIGINT, and the schema has int32 {number}"),
        (Engine.MICRO_BATCH, holes, "EncodeError", "column n is null, and the schema takes no null"),
        (Engine.CONTINUOUS, holes, "EncodeError", "column n is null, and the schema takes no null"),
    ):
        job.spec = replace(job.spec, engine=engine, transform=transform)
        job.start()
        assert job.await_end() == 1, job.log()
        termination = job.termination()
        assert termination is not None
        assert (termination.reason, termination.fatal) == (reason, True), termination
        assert says in termination.message
    assert visibility.records(broker, job.spec.sink.topic) == []
    assert visibility.open_transactions(client, job.spec.sink.transactional_id_prefix) == []
