"""The writer schemas that the driver fixes, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from sparkapp.formats.encoders.writer_schema import with_writer_schemas
from sparkapp.formats.protobuf_messages import message_of
from sparkapp.model.errors import (
    SchemaMismatch,
    SchemaNotFound,
    SchemaRegistryAccessDenied,
    SchemaUnusable,
)
from sparkapp.model.job.access.registry_access import SINK_REGISTRY
from sparkapp.model.job.codec import decode_job, encode_job
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat, SubjectNameStrategy, WriterSchema
from sparkapp.model.job.spec import Job
from tests.support.jobs.plain_job import plain_spec
from tests.support.kafka.schema_registry import RegistryServer, basic, registry

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def fixed(server: RegistryServer, **chosen: Any) -> SinkFormat:
    """The sink's format as tasks get it."""
    access = replace(server.access, field=SINK_REGISTRY)
    sink = Sink(
        topic="out", transactional_id_prefix="p", schema_registry=access,
        format=SinkFormat(**{"value": SinkEncoding.AVRO, **chosen}),
    )  # fmt: skip
    job = Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=replace(plain_spec(), sink=sink))
    fixed = decode_job(encode_job(with_writer_schemas(job)))
    assert fixed.spec.sink.format is not None
    return fixed.spec.sink.format


def test_without_a_choice_it_is_the_latest_of_the_topics_subject(server: RegistryServer) -> None:
    server.register("out-value", '"int"')
    number = server.register("out-value", ORDER)
    key = server.register("out-key", '"string"')
    found = fixed(server, key=SinkEncoding.AVRO)
    assert found.schema_of("value") == WriterSchema(json.dumps(ORDER, separators=(",", ":")), number, "out-value")
    assert found.schema_of("key") == WriterSchema('"string"', key, "out-key")


def test_an_id_needs_no_subject(server: RegistryServer) -> None:
    number = server.register("elsewhere", ORDER)
    assert fixed(server, value_schema_id=number).schema_of("value")[1:] == (number, "")
    with pytest.raises(SchemaNotFound, match="has no schema 9") as caught:
        fixed(server, value_schema_id=9)
    assert caught.value.remedy == "correct the schema, or set spec.sink.format.valueSchemaId to another"


def test_types_of_references_are_part_of_the_schema(server: RegistryServer) -> None:
    server.register("money", {"type": "fixed", "name": "shop.Money", "size": 8})
    body = {**ORDER, "fields": [{"name": "sum", "type": "shop.Money"}]}
    server.register("out-value", body, references=[{"name": "shop.Money", "subject": "money", "version": 1}])
    (field,) = json.loads(fixed(server).schema_of("value").text)["fields"]
    assert field["type"]["size"] == 8


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (SubjectNameStrategy.TOPIC_NAME, "out-value"),
        (SubjectNameStrategy.RECORD_NAME, "shop.Order"),
        (SubjectNameStrategy.TOPIC_RECORD_NAME, "out-shop.Order"),
    ],
)
def test_a_given_schema_is_found_and_registered_only_on_request(
    server: RegistryServer, strategy: SubjectNameStrategy, subject: str
) -> None:
    given = {"value_schema": json.dumps(ORDER), "subject_name_strategy": strategy}
    with pytest.raises(SchemaNotFound, match=f"under subject {subject!r}") as caught:
        fixed(server, **given)
    assert "set autoRegister: true" in caught.value.remedy
    assert server.subjects == {}
    assert fixed(server, **given, auto_register=True).schema_of("value")[1:] == (1, subject)
    assert server.subjects == {subject: [1]}
    server.register(subject, '"int"')
    assert fixed(server, **given).schema_of("value").number == 1, "not the latest, but the given schema"


def test_what_stops_a_start_says_what_to_do(server: RegistryServer) -> None:
    with pytest.raises(SchemaNotFound, match="no subject 'out-value'") as missing:
        fixed(server)
    assert "spec.sink.format.valueSchema with autoRegister: true" in missing.value.remedy
    server.closed = frozenset({"out-value"})
    with pytest.raises(SchemaMismatch, match="incompatible") as refused:
        fixed(server, value_schema='"int"', auto_register=True)
    assert "spec.sink.format.valueSchema" in refused.value.remedy
    assert refused.value.fatal
    server.register("out-value", "{}", kind="JSON")
    with pytest.raises(SchemaUnusable, match="is of type JSON, not AVRO") as other:
        fixed(server)
    assert "spec.sink.format.value" in other.value.remedy
    server.register("out-value", {"type": "enum"})
    with pytest.raises(SchemaUnusable, match="not an Avro schema") as broken:
        fixed(server)
    assert "spec.sink.format.valueSchemaId" in broken.value.remedy
    with pytest.raises(SchemaUnusable, match=r"spec\.sink\.format\.valueSchema is not an Avro schema"):
        fixed(server, value_schema='{"type": "enum"}', subject_name_strategy=SubjectNameStrategy.RECORD_NAME)
    server.authorization = basic("u", "p")
    with pytest.raises(SchemaRegistryAccessDenied) as denied:
        fixed(server)
    assert "spec.sink.schemaRegistry.authentication" in denied.value.remedy


def test_a_json_schema_has_the_schemas_that_it_refers_to(server: RegistryServer) -> None:
    server.register("unit", {"type": "string"}, kind="JSON")
    server.register(
        "money", {"$ref": "unit.json"}, kind="JSON", references=[{"name": "unit.json", "subject": "unit", "version": 1}]
    )
    references = [{"name": "money.json", "subject": "money", "version": 1}]
    body = {"title": "Order", "properties": {"sum": {"$ref": "money.json"}}}
    number = server.register("out-value", body, kind="JSON", references=references)
    found = fixed(server, value=SinkEncoding.JSON_SCHEMA).schema_of("value")
    assert found[1:] == (number, "out-value")
    assert json.loads(found.text) == {
        "schema": body, "references": {"money.json": {"$ref": "unit.json"}, "unit.json": {"type": "string"}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [(SubjectNameStrategy.RECORD_NAME, "Order"), (SubjectNameStrategy.TOPIC_RECORD_NAME, "out-Order")],
)
def test_the_title_of_a_json_schema_names_its_subject(
    server: RegistryServer, strategy: SubjectNameStrategy, subject: str
) -> None:
    chosen = {"value": SinkEncoding.JSON_SCHEMA, "subject_name_strategy": strategy, "auto_register": True}
    assert fixed(server, value_schema='{"title": "Order"}', **chosen).schema_of("value")[1:] == (1, subject)
    assert server.schemas[1]["schemaType"] == "JSON"
    with pytest.raises(SchemaUnusable, match=r"spec\.sink\.format\.valueSchema has no title") as caught:
        fixed(server, value_schema='{"type": "object"}', **chosen)
    assert "subjectNameStrategy: TopicName" in caught.value.remedy


SHOP = text_format.Parse(
    'name: "shop.proto" package: "shop" syntax: "proto3" message_type { name: "Order" nested_type { name: "Line" } }',
    FileDescriptorProto(),
)
PROTOBUF = SinkEncoding.PROTOBUF


def test_a_message_of_protobuf_has_its_compiled_files(server: RegistryServer) -> None:
    number = server.register_protobuf("out-value", SHOP)
    first = fixed(server, value=PROTOBUF).schema_of("value")
    assert first[1:] == (number, "out-value")
    assert message_of(first.text, "it").full_name == "shop.Order"
    line = fixed(server, value=PROTOBUF, value_schema_id=number, value_message="shop.Order.Line").schema_of("value")
    assert (message_of(line.text, "it").full_name, line.subject) == ("shop.Order.Line", "")
    given = fixed(server, value=PROTOBUF, value_schema="// shop.proto").schema_of("value")
    assert given == first
    with pytest.raises(SchemaUnusable, match=r"spec\.sink\.format\.valueMessage 'Order' is not a message") as caught:
        fixed(server, value=PROTOBUF, value_message="Order")
    assert caught.value.remedy == "set it to one of shop.Order, shop.Order.Line"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [(SubjectNameStrategy.RECORD_NAME, "shop.Order"), (SubjectNameStrategy.TOPIC_RECORD_NAME, "out-shop.Order")],
)
def test_the_message_of_protobuf_names_its_subject(
    server: RegistryServer, strategy: SubjectNameStrategy, subject: str
) -> None:
    chosen = {"value": PROTOBUF, "value_message": "shop.Order", "subject_name_strategy": strategy}
    with pytest.raises(SchemaNotFound, match=f"no subject '{subject}'"):
        fixed(server, **chosen)
    number = server.register_protobuf(subject, SHOP)
    assert fixed(server, **chosen).schema_of("value")[1:] == (number, subject)


def test_a_registry_that_compiles_nothing_is_refused_with_what_to_do(server: RegistryServer) -> None:
    server.register("out-value", 'syntax = "proto3";', kind="PROTOBUF")
    with pytest.raises(SchemaUnusable, match="did not return subject 'out-value' in this form") as caught:
        fixed(server, value=PROTOBUF)
    assert "format=serialized" in caught.value.remedy


def test_what_is_no_json_schema_is_refused(server: RegistryServer) -> None:
    server.register("out-value", ORDER)
    with pytest.raises(SchemaUnusable, match="schema 1 of subject 'out-value' is of type AVRO, not JSON") as caught:
        fixed(server, value=SinkEncoding.JSON_SCHEMA)
    assert "spec.sink.format.value" in caught.value.remedy
    server.register("out-value", "7", kind="JSON")
    with pytest.raises(SchemaUnusable, match="neither an object nor a boolean") as caught:
        fixed(server, value=SinkEncoding.JSON_SCHEMA)
    assert "spec.sink.format.valueSchemaId" in caught.value.remedy


def test_a_job_without_a_registry_asks_nobody() -> None:
    sink = Sink(topic="out", transactional_id_prefix="p", format=SinkFormat(value=SinkEncoding.JSON))
    job = Job(namespace="n", name="j", uid="u", generation=1, attempt=1, spec=replace(plain_spec(), sink=sink))
    assert with_writer_schemas(job) is job
