"""What the columns of a job in Avro or Protobuf are: fixed by the driver when an attempt starts.

The parsers of both are imported where they are needed: together they take a seventh of what a driver or a worker
imports, and most jobs have neither.
"""

from __future__ import annotations

from dataclasses import replace

from sparkapp.model.job import Format, Job, Source
from sparkapp.model.registry_access import RegistryAccess
from sparkapp.source.registered_records import RegisteredDecoder
from sparkapp.source.schema_registry import SchemaRegistry

REGISTERED = frozenset({Format.AVRO, Format.PROTOBUF})


def with_reader_schemas(job: Job) -> Job:
    """The job with the reader schema of each side in Avro or Protobuf in the place of what the resource says.

    Called by the driver at the start of an attempt: the columns stay the same for its life.

    :raises SchemaError: no registry, no schema, or none that can be columns.
    """
    source = job.spec.source
    access = source.schema_registry
    if access is None:
        return job
    if source.key_format in REGISTERED:
        source = replace(source, key_schema=_fixed(source, access, "key", source.key_format, source.key_schema))
    if source.value_format in REGISTERED:
        source = replace(source, value_schema=_fixed(source, access, "value", source.value_format, source.value_schema))
    return replace(job, spec=replace(job.spec, source=source))


def decoder_of(kind: Format, access: RegistryAccess, schema: str, side: str) -> RegisteredDecoder:
    """The decoder of a side, for the driver, which asks for its type, and for workers.

    :param schema: of :func:`with_reader_schemas`.
    :raises SchemaUnusable: it cannot be columns.
    """
    registry, where = SchemaRegistry(access), f"the reader schema of the {side}"
    if kind is Format.PROTOBUF:
        from sparkapp.source.protobuf import ProtobufDecoder

        return ProtobufDecoder(registry, schema, where=where)
    from sparkapp.source.avro import AvroDecoder

    return AvroDecoder(registry, schema, where=where)


def _fixed(source: Source, access: RegistryAccess, side: str, kind: Format, given: str) -> str:
    registry = SchemaRegistry(access)
    topic = source.topics[0] if source.topics else ""
    if kind is Format.PROTOBUF:
        from sparkapp.source.protobuf import protobuf_reader_schema as find
    else:
        from sparkapp.source.avro import avro_reader_schema as find
    schema = find(registry, topic=topic, side=side, given=given)
    decoder_of(kind, access, schema, side)
    return schema
