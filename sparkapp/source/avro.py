"""Records in Confluent's wire format, a batch at a time: each by its writer's schema, all into the reader's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from sparkapp.model.errors import SchemaNotFound, SchemaUnusable
from sparkapp.model.job import Format, Job, Source
from sparkapp.source.avro_types import AvroSchema, arrow_type, load, parse
from sparkapp.source.schema_registry import RegisteredSchema, SchemaRegistry

_HEAD = 5
"""A zero byte and the schema's id, big-endian."""
_MAX_ERROR = 500
Read = Callable[[bytes], Any]


class AvroDecoder:
    """Decodes one side of a topic; lives in a Python worker and keeps the writers' schemas that it has met.

    :param reader: the reader schema in JSON: the columns.
    :param where: what the reader schema is called in messages.
    :raises SchemaUnusable: the reader schema cannot be columns.
    """

    def __init__(self, registry: SchemaRegistry, reader: str, *, where: str) -> None:
        self._registry = registry
        schema = load(reader, where)
        self._reader: AvroSchema = parse(schema, where)
        self._raw_type = arrow_type(schema, where)
        self.type = _for_spark(self._raw_type)
        """Arrow type of the decoded column."""
        self._reads: dict[int, Read] = {}

    def decode(self, values: pa.Array[Any]) -> tuple[pa.Array[Any], list[str | None]]:
        """The decoded column, and an error text for each value that could not be; null is null and no error.

        :raises SchemaRegistryUnreachable: a writer's schema could not be asked for; that is no fault of the record.
        """
        # Ids that the registry does not know are asked for again with the next batch: they may be registered by then.
        reads = dict(self._reads)
        records: list[Any] = []
        errors: list[str | None] = []
        for value in values.to_pylist():
            record, error = None, None
            if value is not None:
                try:
                    record = self._read(value, reads)
                except _BadRecord as bad:
                    error = str(bad)
            records.append(record)
            errors.append(error)
        return self._column(records, errors), errors

    def _read(self, value: bytes, reads: dict[int, Read]) -> Any:
        if len(value) < _HEAD or value[0] != 0:
            msg = f"it does not begin with a zero byte and a schema id, but with {value[:_HEAD].hex() or 'nothing'}"
            raise _BadRecord(msg)
        schema_id = int.from_bytes(value[1:_HEAD], "big")
        read = reads.get(schema_id)
        if read is None:
            read = reads[schema_id] = self._read_of(schema_id)
        try:
            return read(value)
        except _BadRecord:
            raise
        except Exception as error:  # whatever fastavro meets in bytes that are no datum of the schema
            msg = f"schema {schema_id}: {type(error).__name__}: {error}"
            raise _BadRecord(msg) from error

    def _read_of(self, schema_id: int) -> Read:
        try:
            writer = self._writer(self._registry.by_id(schema_id), f"schema {schema_id} of the registry")
        except (SchemaNotFound, SchemaUnusable) as error:
            return _refusing(error.message)
        reader = self._reader

        def read(value: bytes) -> Any:
            stream = BytesIO(value)
            stream.seek(_HEAD)
            record = fastavro.schemaless_reader(stream, writer, reader)
            left = len(value) - stream.tell()
            if left:
                msg = f"schema {schema_id}: {left} bytes are left behind the record"
                raise _BadRecord(msg)
            return record

        self._reads[schema_id] = read
        return read

    def _writer(self, registered: RegisteredSchema, where: str, named: dict[str, Any] | None = None) -> AvroSchema:
        if registered.kind != "AVRO":
            msg = f"{where} is of type {registered.kind}, not AVRO"
            raise SchemaUnusable(msg)
        named = {} if named is None else named
        for reference in registered.references:
            if reference.name not in named:
                self._writer(self._registry.version(reference), f"{where}, reference {reference.name}", named)
        return parse(load(registered.text, where), where, named)

    def _column(self, records: list[Any], errors: list[str | None]) -> pa.Array[Any]:
        try:
            return pa.array(records, self._raw_type).cast(self.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            # One value at least is outside its column's range, a timestamp for instance: find which.
            for index, record in enumerate(records):
                try:
                    pa.array([record], self._raw_type).cast(self.type)
                except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                    records[index] = None
                    errors[index] = _one_line(f"it does not fit its column: {error}")
            return pa.array(records, self._raw_type).cast(self.type)


def with_reader_schemas(job: Job) -> Job:
    """The job with a reader schema for each side in Avro: the given one, or the latest of the topic's subject.

    Called by the driver at the start of an attempt: the columns stay the same for its life.

    :raises SchemaError: no registry, no schema, or none that can be columns.
    """
    source = job.spec.source
    if source.key_format is Format.AVRO:
        source = replace(source, key_schema=_reader_schema(source, "key", source.key_schema))
    if source.value_format is Format.AVRO:
        source = replace(source, value_schema=_reader_schema(source, "value", source.value_schema))
    return replace(job, spec=replace(job.spec, source=source))


def decoder_of(url: str, reader: str, side: str) -> AvroDecoder:
    """The decoder of a side, for the driver, which asks for its type, and for workers."""
    return AvroDecoder(SchemaRegistry(url), reader, where=f"the reader schema of the {side}")


def _reader_schema(source: Source, side: str, given: str) -> str:
    text = given
    if not given:
        subject = f"{source.topics[0]}-{side}"
        registered = SchemaRegistry(source.schema_registry).latest(subject)
        if registered.kind != "AVRO":
            msg = f"the latest schema of subject {subject!r} is of type {registered.kind}, not AVRO"
            raise SchemaUnusable(msg, remedy=f"set spec.source.format.{side} to another format")
        if registered.references:
            msg = f"the latest schema of subject {subject!r} refers to other subjects"
            raise SchemaUnusable(msg, remedy=f"give the whole schema in spec.source.format.{side}Schema")
        text = registered.text
    # Without what only people read: the job's description goes to every task.
    text = json.dumps(load(text, f"the reader schema of the {side}"), separators=(",", ":"))
    decoder_of(source.schema_registry, text, side)
    return text


class _BadRecord(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(_one_line(text))


def _refusing(text: str) -> Read:
    def read(_: bytes) -> Any:
        raise _BadRecord(text)

    return read


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_ERROR]


def _for_spark(kind: pa.DataType) -> pa.DataType:
    """Spark counts time in microseconds."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _for_spark(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_for_spark(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _for_spark(kind.item_type))
    return kind
