"""The registry's client against a real HTTP server."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from sparkapp.formats.schema_registry import Reference, RegisteredSchema, SchemaRegistry
from sparkapp.model.errors import SchemaMismatch, SchemaNotFound, SchemaRegistryUnreachable, SchemaUnusable
from sparkapp.model.job.access.registry_access import RegistryAccess
from tests.support.kafka.schema_registry import RegistryServer, registry


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry() as running:
        yield running


def test_by_id_and_latest(server: RegistryServer) -> None:
    server.register("in-value", '"int"')
    second = server.register("in-value", '"long"')
    client = SchemaRegistry(RegistryAccess(url=server.url + "/"))
    assert client.by_id(1) == RegisteredSchema('"int"', "AVRO", (), 1)
    assert client.latest("in-value") == client.by_id(second) == RegisteredSchema('"long"', "AVRO", (), 2)


def test_kind_and_references(server: RegistryServer) -> None:
    server.register("other", '"int"', kind="JSON")
    server.register("in-value", "{}", references=[{"name": "a.B", "subject": "other", "version": 1}])
    client = SchemaRegistry(server.access)
    (reference,) = client.latest("in-value").references
    assert reference == Reference("a.B", "other", 1)
    assert client.version(reference).kind == "JSON"


def test_a_subject_with_a_slash(server: RegistryServer) -> None:
    server.register("a/b-value", '"int"')
    assert SchemaRegistry(server.access).latest("a/b-value").text == '"int"'


def test_what_is_not_there_is_not_found_at_once(server: RegistryServer) -> None:
    client = SchemaRegistry(server.access)
    with pytest.raises(SchemaNotFound, match=r"has no subject 'in-value'.*Subject not found"):
        client.latest("in-value")
    with pytest.raises(SchemaNotFound, match="has no schema 7"):
        client.by_id(7)
    assert len(server.requests) == 2


def test_a_schema_by_its_text_and_its_registration(server: RegistryServer) -> None:
    client = SchemaRegistry(server.access)
    with pytest.raises(SchemaNotFound, match=r"has no schema of AVRO under subject 'out-value' with the given text"):
        client.registered("out-value", '"int"', "AVRO", register=False)
    made = client.registered("out-value", '"int"', "AVRO", register=True)
    assert made.id == client.registered("out-value", ' "int"', "AVRO", register=True).id
    assert client.registered("out-value", '"int"', "AVRO", register=False) == made == client.latest("out-value")
    server.closed = frozenset({"out-value"})
    with pytest.raises(SchemaMismatch, match=r"refuses the schema of AVRO under subject 'out-value'.*incompatible"):
        client.registered("out-value", '"string"', "AVRO", register=True)
    assert server.subjects == {"out-value": [made.id]}


def test_a_registry_that_is_starting_is_asked_again(server: RegistryServer) -> None:
    server.register("in-value", '"int"')
    server.broken = 1
    assert SchemaRegistry(server.access).by_id(1).text == '"int"'
    assert len(server.requests) == 2


def test_a_registry_that_stays_broken_is_given_up_with_its_answer(server: RegistryServer) -> None:
    server.broken = 100
    with pytest.raises(SchemaRegistryUnreachable, match=r"HTTP 503.*starting") as caught:
        SchemaRegistry(server.access, timeout=0.8).by_id(1)
    assert "spec.source.schemaRegistry.url" in caught.value.remedy


def test_nobody_there() -> None:
    with registry() as gone:
        access = gone.access
    with pytest.raises(SchemaRegistryUnreachable, match=r"127\.0\.0\.1"):
        SchemaRegistry(access, timeout=0.3).by_id(1)


@pytest.mark.parametrize(
    "answer",
    [
        {"hello": "world"},
        ["schema"],
        "schema",
        {"schema": '"int"', "references": [{"name": "a.B", "subject": "other"}]},
        {"schema": '"int"', "references": [{"name": "a.B", "subject": "other", "version": "first"}]},
    ],
    ids=str,
)
def test_something_that_is_no_registry(server: RegistryServer, answer: Any) -> None:
    server.schemas[1] = answer
    with pytest.raises(SchemaRegistryUnreachable, match="returned no valid schema"):
        SchemaRegistry(server.access).by_id(1)
    assert len(server.requests) == 1


def test_a_404_about_the_path_is_no_word_about_a_schema(server: RegistryServer) -> None:
    """A wrong path, or a proxy before a registry that is away: no reason to call a record bad."""
    server.register("in-value", '"int"')
    with pytest.raises(SchemaRegistryUnreachable, match="HTTP 404"):
        SchemaRegistry(RegistryAccess(url=f"{server.url}/elsewhere")).by_id(1)


def test_a_comma_does_not_make_two_registries(server: RegistryServer) -> None:
    server.register("in-value", '"int"')
    with registry() as gone:
        url = f"{gone.url}/a,{server.url}"
    with pytest.raises(SchemaRegistryUnreachable):
        SchemaRegistry(RegistryAccess(url=url), timeout=0.3).by_id(1)
    assert server.requests == []


def test_a_job_without_a_registry_does_not_pay_for_its_client() -> None:
    """The import is in the question: a Python worker that asks nothing does not load an HTTP client."""
    program = """
import sys
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.source.formats.reader_schema import decoder_of
from sparkapp.formats.schema_registry import SchemaRegistry
SchemaRegistry(RegistryAccess(url="http://registry"))
print(sorted({"confluent_kafka", "httpx2", "authlib", "cryptography"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_form_that_the_registry_does_not_give(server: RegistryServer) -> None:
    server.register("in-value", 'syntax = "proto3";', kind="PROTOBUF")
    with pytest.raises(SchemaUnusable, match="in this form") as caught:
        SchemaRegistry(server.access).by_id(1, compiled=True)
    assert "format=serialized" in caught.value.remedy


def test_a_descriptor_that_is_the_schemas_text_needs_no_compiler(server: RegistryServer) -> None:
    text = base64.b64encode(FileDescriptorProto(name="a.proto").SerializeToString()).decode()
    number = server.register("in-value", text, kind="PROTOBUF")
    asked = SchemaRegistry(server.access)
    reference = Reference("a.proto", "in-value", 1)
    with asked.session():
        for found in (
            asked.by_id(number, compiled=True),
            asked.latest("in-value", compiled=True),
            asked.version(reference, compiled=True),
        ):
            assert found.text == text
    compiled = server.register_protobuf("other", FileDescriptorProto(name="b.proto"))
    assert asked.by_id(compiled, compiled=True).text == server.schemas[compiled]["compiled"]
