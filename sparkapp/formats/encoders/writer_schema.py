"""The writer schemas of a job: the driver fixes them when an attempt starts, and tasks ask no registry."""

from __future__ import annotations

import json
from dataclasses import replace

from sparkapp.formats.schema_registry import AVRO, JSON, PROTOBUF, RegisteredSchema, SchemaRegistry
from sparkapp.model.errors import SchemaNotFound, SchemaUnusable
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkEncoding, SinkFormat, SubjectNameStrategy, WriterSchema
from sparkapp.model.job.spec import Job

_KINDS = {SinkEncoding.AVRO: AVRO, SinkEncoding.PROTOBUF: PROTOBUF, SinkEncoding.JSON_SCHEMA: JSON}
"""Types of schemas in the registry."""


def with_writer_schemas(job: Job) -> Job:
    """The job with schema, id and subject of each side in a registered format.

    Called by the driver at the start of an attempt, so that all records of an attempt have the same schema.

    :raises SchemaError: no registry, no such schema, or a schema that cannot be used.
    """
    sink = job.spec.sink
    if sink.format is None or sink.schema_registry is None:
        return job
    registry, chosen = SchemaRegistry(sink.schema_registry), sink.format
    for side, kind in (("key", chosen.key), ("value", chosen.value)):
        if kind.is_registered:
            chosen = chosen.with_schema(side, _fixed(registry, sink, chosen, side, _KINDS[kind]))
    return replace(job, spec=replace(job.spec, sink=replace(sink, format=chosen)))


def _fixed(registry: SchemaRegistry, sink: Sink, chosen: SinkFormat, side: str, kind: str) -> WriterSchema:
    try:
        return _found(registry, sink, chosen, side, kind)
    except (SchemaNotFound, SchemaUnusable) as error:
        if error.remedy != type(error).default_remedy:
            raise
        # The default remedy is that of a source.
        remedy = f"correct the schema, or set spec.sink.format.{side}SchemaId to another"
        raise type(error)(error.message, remedy=remedy) from error


def _found(registry: SchemaRegistry, sink: Sink, chosen: SinkFormat, side: str, kind: str) -> WriterSchema:
    given, number = chosen.given(side)
    compiled = kind == PROTOBUF
    subject = ""
    if number:
        found = registry.by_id(number, compiled=compiled)
        where = f"schema {number} of the registry"
    else:
        subject = _subject(sink, chosen, side, kind)
        if given:
            found = _by_text(registry, chosen, side, subject, kind)
            found = registry.by_id(found.id, compiled=True) if compiled else found
        else:
            found = _latest(registry, side, subject, compiled=compiled)
        where = f"schema {found.id} of subject {subject!r}"
    if found.kind != kind:
        msg = f"{where} is of type {found.kind}, not {kind}"
        raise SchemaUnusable(msg, remedy=f"set spec.sink.format.{side} to another format, or another schema")
    return WriterSchema(_TEXTS[kind](registry, found, chosen, side, where), found.id, subject)


def _avro_text(registry: SchemaRegistry, found: RegisteredSchema, _chosen: SinkFormat, _side: str, where: str) -> str:
    from sparkapp.formats.avro_references import whole_schema
    from sparkapp.formats.avro_types import parse

    schema = whole_schema(registry, found, where)
    parse(schema, where)
    # Without white space, because every task receives the job's description.
    return json.dumps(schema, separators=(",", ":"))


def _json_text(registry: SchemaRegistry, found: RegisteredSchema, _chosen: SinkFormat, _side: str, where: str) -> str:
    from sparkapp.formats.json_schemas import with_references

    return with_references(registry, found, where)


def _message_text(registry: SchemaRegistry, found: RegisteredSchema, chosen: SinkFormat, side: str, where: str) -> str:
    from sparkapp.formats.protobuf_messages import message_text

    field = f"spec.sink.format.{side}Message"
    return message_text(registry, found, wanted=chosen.message(side), field=field, where=where)


_TEXTS = {AVRO: _avro_text, PROTOBUF: _message_text, JSON: _json_text}
"""The schema as tasks get it."""


def _latest(registry: SchemaRegistry, side: str, subject: str, *, compiled: bool) -> RegisteredSchema:
    try:
        return registry.latest(subject, compiled=compiled)
    except SchemaNotFound as error:
        remedy = (
            f"register a schema for the subject, or set spec.sink.format.{side}Schema with autoRegister: true,"
            f" or spec.sink.format.{side}SchemaId"
        )
        raise SchemaNotFound(error.message, remedy=remedy) from error


def _by_text(registry: SchemaRegistry, chosen: SinkFormat, side: str, subject: str, kind: str) -> RegisteredSchema:
    text, _ = chosen.given(side)
    try:
        return registry.registered(subject, text, kind, register=chosen.auto_register)
    except SchemaNotFound as error:
        remedy = (
            f"register spec.sink.format.{side}Schema for the subject, set autoRegister: true,"
            f" or remove {side}Schema to write with the latest schema"
        )
        raise SchemaNotFound(error.message, remedy=remedy) from error


def _subject(sink: Sink, chosen: SinkFormat, side: str, kind: str) -> str:
    """The subject of a side; a strategy by name needs the given schema or message, which is a rule of the job."""
    if chosen.subject_name_strategy is SubjectNameStrategy.TOPIC_NAME:
        return f"{sink.topic}-{side}"
    name = _record_name(chosen, side, kind)
    is_by_topic = chosen.subject_name_strategy is SubjectNameStrategy.TOPIC_RECORD_NAME
    return f"{sink.topic}-{name}" if is_by_topic else name


def _record_name(chosen: SinkFormat, side: str, kind: str) -> str:
    given, _ = chosen.given(side)
    where = f"spec.sink.format.{side}Schema"
    if kind == PROTOBUF:
        return chosen.message(side)
    if kind == JSON:
        from sparkapp.formats.json_schemas import title

        return title(given, where)
    from sparkapp.formats.avro_types import load
    from sparkapp.formats.encoders.avro_plan import record_name

    return record_name(load(given, where), where)
