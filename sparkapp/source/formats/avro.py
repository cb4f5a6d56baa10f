"""Avro records: fastavro resolves each record from its writer's schema into the reader's."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro

from sparkapp.formats.avro_references import whole_schema
from sparkapp.formats.avro_types import AvroSchema, arrow_type, load, parse
from sparkapp.formats.schema_registry import AVRO, SchemaRegistry
from sparkapp.model.errors import SchemaUnusable
from sparkapp.source.formats.avro_bounds import check_of, limit_decimals
from sparkapp.source.formats.registered_records import HEAD, BadRecord, Read, RegisteredDecoder

limit_decimals()


class AvroDecoder(RegisteredDecoder):
    """See :class:`RegisteredDecoder`.

    :param reader: the reader schema in JSON, which defines the columns.
    :param where: name of the reader schema in messages.
    :raises SchemaUnusable: the reader schema has no counterpart in columns.
    """

    def __init__(self, registry: SchemaRegistry, reader: str, *, where: str) -> None:
        schema = load(reader, where)
        self._reader: AvroSchema = parse(schema, where)
        super().__init__(registry, arrow_type(schema, where))

    def _read_of(self, schema_id: int) -> Read:
        where = f"schema {schema_id} of the registry"
        named: dict[str, Any] = {}
        writer = parse(whole_schema(self._registry, self._registry.by_id(schema_id), where), where, named)
        reader = self._reader
        check = check_of(writer, named, where, skips=writer != reader)

        def read(value: bytes) -> Any:
            if check is not None:
                check(value, HEAD)
            stream = BytesIO(value)
            stream.seek(HEAD)
            record = fastavro.schemaless_reader(stream, writer, reader)
            left = len(value) - stream.tell()
            if left:
                msg = f"schema {schema_id}: {left} bytes follow the record"
                raise BadRecord(msg)
            return record

        return read


def avro_reader_schema(registry: SchemaRegistry, *, topic: str, side: str, given: str) -> str:
    """The reader schema of an attempt: the given one, or the latest of the topic's subject.

    :raises SchemaError: the registry has no schema, or a schema without a counterpart in columns.
    """
    where = f"the reader schema of the {side}"
    if given:
        schema = load(given, where)
    else:
        subject = f"{topic}-{side}"
        registered, where = registry.latest(subject), f"the latest schema of subject {subject!r}"
        if registered.kind != AVRO:
            msg = f"{where} is of type {registered.kind}, not {AVRO}"
            raise SchemaUnusable(msg, remedy=f"set spec.source.format.{side} to another format")
        schema = whole_schema(registry, registered, where)
    # Without white space, because every task receives the job's description.
    return json.dumps(schema, separators=(",", ":"))
