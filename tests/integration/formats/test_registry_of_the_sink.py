"""``sink.format`` with a real schema registry: Confluent's own deserializers read what the sink's encoder writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from localcluster.kafka.registry import Registry
from sparkapp.formats.encoders.record_encoder import RecordEncoder
from sparkapp.formats.encoders.writer_schema import with_writer_schemas
from sparkapp.model.errors import SchemaMismatch, SchemaNotFound
from sparkapp.model.job.access.registry_access import SINK_REGISTRY, RegistryAccess
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat, SubjectNameStrategy
from sparkapp.model.job.spec import Job
from tests.support.jobs.plain_job import plain_spec
from tests.support.kafka.protobuf_files import message_class


def avro(name: str, *fields: tuple[str, Any]) -> str:
    named = [{"name": field, "type": kind} for field, kind in fields]
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": named})


def json_schema(title: str, **properties: Any) -> str:
    body = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, "type": "object"}
    return json.dumps({**body, "properties": properties, "required": ["id"], "additionalProperties": False})


def file_of(*fields: FieldDescriptorProto) -> FileDescriptorProto:
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    order = file.message_type.add(name="Order", field=fields)
    order.oneof_decl.add(name="_name")
    return file


def proto(*fields: FieldDescriptorProto) -> str:
    """A descriptor, as Confluent's serializer registers it: this registry does not compile texts."""
    return base64.b64encode(file_of(*fields).SerializeToString()).decode()


def field(name: str, number: int, kind: str, label: str = "OPTIONAL", **others: Any) -> FieldDescriptorProto:
    kinds, labels = FieldDescriptorProto.Type, FieldDescriptorProto.Label
    return FieldDescriptorProto(
        name=name, number=number, type=kinds.Value(f"TYPE_{kind}"), label=labels.Value(f"LABEL_{label}"), **others
    )


class Case(NamedTuple):
    """Schemas of a format.

    :param value: of the value's records. :param key: of the key's. :param refused: a version that readers of ``value``
        cannot have. :param later: one that they can.
    """

    value: str
    key: str
    refused: str
    later: str


NAME = field("name", 2, "STRING", oneof_index=0, proto3_optional=True)
REST = (NAME, field("tags", 3, "STRING", "REPEATED"))
ORDER = file_of(field("id", 1, "INT64"), *REST)
TAGS = {"type": "array", "items": "string"}
CASES = {
    SinkEncoding.AVRO: Case(
        avro("Order", ("id", "long"), ("name", ["null", "string"]), ("tags", TAGS)),
        avro("Key", ("id", "long")),
        avro("Order", ("id", "string"), ("name", ["null", "string"]), ("tags", TAGS)),
        avro("Order", ("id", "long"), ("tags", TAGS)),
    ),
    SinkEncoding.PROTOBUF: Case(
        proto(field("id", 1, "INT64"), *REST),
        proto(field("id", 1, "INT64"), NAME),
        proto(field("id", 1, "STRING"), *REST),
        proto(field("id", 1, "INT64"), *REST, field("new", 4, "BOOL")),
    ),
    SinkEncoding.JSON_SCHEMA: Case(
        json_schema("Order", id={"type": "integer"}, name={"type": "string"},
                    tags={"type": "array", "items": {"type": "string"}}),
        json_schema("Key", id={"type": "integer"}),
        json_schema("Order", id={"type": "string"}, name={"type": "string"},
                    tags={"type": "array", "items": {"type": "string"}}),
        json_schema("Order", id={"type": "number"}, name={"type": "string"},
                    tags={"type": "array", "items": {"type": "string"}}),
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize("kind", CASES)
ROWS = [{"id": 1, "name": "ü", "tags": ["a", ""]}, {"id": 2**62, "name": None, "tags": []}]
RESULT = pa.RecordBatch.from_pylist(
    ROWS, schema=pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def fixed(registry: Registry, topic: str, **chosen: Any) -> Sink:
    """The sink as tasks get it."""
    access = RegistryAccess(url=registry.url, field=SINK_REGISTRY)
    if "protobuf" in (chosen.get("key"), chosen.get("value")):
        chosen = {"key_message": "shop.Order", "value_message": "shop.Order", **chosen}
    sink = Sink(topic=topic, transactional_id_prefix="p", schema_registry=access, format=SinkFormat(**chosen))
    job = Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=replace(plain_spec(), sink=sink))
    return with_writer_schemas(job).spec.sink


def read(client: SchemaRegistryClient, sink: Sink, kind: SinkEncoding, side: MessageField, value: bytes) -> Any:
    """By Confluent's deserializer, with the schema that the record names."""
    reader: Any
    if kind is SinkEncoding.AVRO:
        reader = AvroDeserializer(client)
    elif kind is SinkEncoding.JSON_SCHEMA:
        reader = JSONDeserializer(None, schema_registry_client=client)
    else:
        # Without the registry, of which it would ask a compiled form that this registry does not have.
        kind_of_it = message_class(ORDER, "shop.Order")
        reader = ProtobufDeserializer(kind_of_it, {"use.deprecated.format": False})
        found = reader(value, SerializationContext(sink.topic, side))
        return json_format.MessageToDict(found, preserving_proto_field_name=True)
    return reader(value, SerializationContext(sink.topic, side))


@EVERY
def test_confluents_reader_has_what_the_sink_has_written(
    registry: Registry, client: SchemaRegistryClient, kind: SinkEncoding, unique: str
) -> None:
    case = CASES[kind]
    chosen = {"key": kind, "value": kind, "key_columns": ("id",), "key_schema": case.key, "value_schema": case.value}
    sink = fixed(registry, unique, auto_register=True, **chosen)
    assert {f"{unique}-key", f"{unique}-value"} <= set(client.get_subjects())
    written = RecordEncoder(sink).encode(RESULT).to_pylist()
    for row, record in zip(ROWS, written, strict=True):
        value = read(client, sink, kind, MessageField.VALUE, record["value"])
        key = read(client, sink, kind, MessageField.KEY, record["key"])
        if kind is SinkEncoding.PROTOBUF:  # the JSON of Protobuf has texts of whole numbers
            value, key = {"tags": [], **value, "id": int(value["id"])}, {"id": int(key["id"])}
        assert value == {name: each for name, each in row.items() if each is not None or kind is SinkEncoding.AVRO}
        assert key == {"id": row["id"]}


@EVERY
def test_a_schema_is_registered_on_request_only_and_once(
    registry: Registry, client: SchemaRegistryClient, kind: SinkEncoding, unique: str
) -> None:
    case = CASES[kind]
    with pytest.raises(SchemaNotFound, match=f"subject '{unique}-value'") as caught:
        fixed(registry, unique, value=kind, value_schema=case.value)
    assert "autoRegister: true" in caught.value.remedy
    with pytest.raises(SchemaNotFound, match=f"no subject '{unique}-value'"):
        fixed(registry, unique, value=kind)
    assert f"{unique}-value" not in client.get_subjects()
    made = fixed(registry, unique, value=kind, value_schema=case.value, auto_register=True)
    again = fixed(registry, unique, value=kind, value_schema=case.value, auto_register=True)
    found = fixed(registry, unique, value=kind, value_schema=case.value)
    latest = fixed(registry, unique, value=kind)
    assert made.format is not None
    number = made.format.schema_of("value").number
    by_id = fixed(registry, unique, value=kind, value_schema_id=number)
    for sink in (again, found, latest, by_id):
        assert sink.format is not None
        assert sink.format.schema_of("value")[:2] == made.format.schema_of("value")[:2]
    assert client.get_versions(f"{unique}-value") == [1]


@EVERY
def test_an_incompatible_schema_is_refused_before_the_first_record(
    registry: Registry, client: SchemaRegistryClient, kind: SinkEncoding, unique: str
) -> None:
    case, subject = CASES[kind], f"{unique}-value"
    fixed(registry, unique, value=kind, value_schema=case.value, auto_register=True)
    client.set_compatibility(subject, "BACKWARD")
    with pytest.raises(SchemaMismatch, match=f"refuses the schema of .* under subject '{subject}'") as caught:
        fixed(registry, unique, value=kind, value_schema=case.refused, auto_register=True)
    assert "spec.sink.format.valueSchema" in caught.value.remedy
    assert client.get_versions(subject) == [1]
    fixed(registry, unique, value=kind, value_schema=case.later, auto_register=True)
    assert client.get_versions(subject) == [1, 2]


@EVERY
def test_columns_that_do_not_fit_name_the_schema_and_its_subject(
    registry: Registry, kind: SinkEncoding, unique: str
) -> None:
    sink = fixed(registry, unique, value=kind, value_schema=CASES[kind].value, auto_register=True)
    assert sink.format is not None
    number = sink.format.schema_of("value").number
    columns = pa.schema([("id", pa.string()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
    with pytest.raises(SchemaMismatch) as caught:
        RecordEncoder(sink).check(columns)
    assert f"(schema {number} of subject '{unique}-value')" in caught.value.message
    assert "column id is STRING" in caught.value.message
    assert "CAST(id AS BIGINT)" in caught.value.remedy


@EVERY
def test_a_strategy_by_name_has_the_subject_of_the_record(
    registry: Registry, client: SchemaRegistryClient, kind: SinkEncoding, unique: str
) -> None:
    chosen = {"subject_name_strategy": SubjectNameStrategy.TOPIC_RECORD_NAME, "auto_register": True}
    fixed(registry, unique, value=kind, value_schema=CASES[kind].value, **chosen)
    name = "Order" if kind is SinkEncoding.JSON_SCHEMA else "shop.Order"
    assert f"{unique}-{name}" in client.get_subjects()
