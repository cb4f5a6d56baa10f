"""Columns of a job in Avro or Protobuf: the driver fixes them when an attempt starts.

The parsers of both formats are imported where they are used. Together they are a seventh of the imports of a driver or
worker, and most jobs use neither format.
"""

from __future__ import annotations

from dataclasses import replace

from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import Job
from sparkapp.source.formats.registered_records import RegisteredDecoder


def with_reader_schemas(job: Job) -> Job:
    """The job with the reader schema of each side in Avro or Protobuf, in place of the resource's value.

    Called by the driver at the start of an attempt, so that the columns stay the same during the attempt.

    :raises SchemaError: no registry, no schema, or a schema without a counterpart in columns.
    """
    source = job.spec.source
    access = source.schema_registry
    if access is None:
        return job
    if source.key_format.traits.registered:
        source = replace(source, key_schema=_fixed(source, access, "key", source.key_format, source.key_schema))
    if source.value_format.traits.registered:
        source = replace(source, value_schema=_fixed(source, access, "value", source.value_format, source.value_schema))
    return replace(job, spec=replace(job.spec, source=source))


def decoder_of(kind: Format, access: RegistryAccess, schema: str, side: str) -> RegisteredDecoder:
    """The decoder of a side, for workers, and for the driver, which needs its type.

    :param schema: result of :func:`with_reader_schemas`.
    :raises SchemaUnusable: the schema has no counterpart in columns.
    """
    registry, where = SchemaRegistry(access), f"the reader schema of the {side}"
    if kind is Format.PROTOBUF:
        from sparkapp.source.formats.protobuf import ProtobufDecoder

        return ProtobufDecoder(registry, schema, where=where)
    assert kind is Format.AVRO
    from sparkapp.source.formats.avro import AvroDecoder

    return AvroDecoder(registry, schema, where=where)


def _fixed(source: Source, access: RegistryAccess, side: str, kind: Format, given: str) -> str:
    registry = SchemaRegistry(access)
    topic = source.topics[0] if source.topics else ""
    if kind is Format.PROTOBUF:
        from sparkapp.source.formats.protobuf import protobuf_reader_schema as find
    else:
        assert kind is Format.AVRO
        from sparkapp.source.formats.avro import avro_reader_schema as find
    schema = find(registry, topic=topic, side=side, given=given)
    decoder_of(kind, access, schema, side)
    return schema
