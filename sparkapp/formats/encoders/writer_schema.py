"""The writer schemas of a job: the driver fixes them when an attempt starts, and tasks ask no registry."""

from __future__ import annotations

import json
from dataclasses import replace

from sparkapp.formats.schema_registry import AVRO, RegisteredSchema, SchemaRegistry
from sparkapp.model.errors import SchemaNotFound, SchemaUnusable
from sparkapp.model.job.sections.sink import Sink
from sparkapp.model.job.sections.sink_format import SinkFormat, SubjectNameStrategy, WriterSchema
from sparkapp.model.job.spec import Job


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
            chosen = chosen.with_schema(side, _fixed(registry, sink, chosen, side))
    return replace(job, spec=replace(job.spec, sink=replace(sink, format=chosen)))


def _fixed(registry: SchemaRegistry, sink: Sink, chosen: SinkFormat, side: str) -> WriterSchema:
    given, number = chosen.given(side)
    subject = ""
    if number:
        found = registry.by_id(number)
        where = f"schema {number} of the registry"
    else:
        subject = _subject(sink, chosen, side, given)
        where = f"the schema of subject {subject!r}"
        found = _by_text(registry, chosen, side, subject) if given else _latest(registry, side, subject)
    if found.kind != AVRO:
        msg = f"{where} is of type {found.kind}, not {AVRO}"
        raise SchemaUnusable(msg, remedy=f"set spec.sink.format.{side} to another format, or another schema")
    from sparkapp.formats.avro_references import whole_schema
    from sparkapp.formats.avro_types import parse

    try:
        schema = whole_schema(registry, found, where)
        parse(schema, where)
    except SchemaUnusable as error:
        remedy = f"correct the schema, or set spec.sink.format.{side}SchemaId to another"
        raise SchemaUnusable(error.message, remedy=remedy) from error
    # Without white space, because every task receives the job's description.
    return WriterSchema(json.dumps(schema, separators=(",", ":")), found.id, subject)


def _latest(registry: SchemaRegistry, side: str, subject: str) -> RegisteredSchema:
    try:
        return registry.latest(subject)
    except SchemaNotFound as error:
        remedy = (
            f"register a schema for the subject, or set spec.sink.format.{side}Schema with autoRegister: true,"
            f" or spec.sink.format.{side}SchemaId"
        )
        raise SchemaNotFound(error.message, remedy=remedy) from error


def _by_text(registry: SchemaRegistry, chosen: SinkFormat, side: str, subject: str) -> RegisteredSchema:
    text, _ = chosen.given(side)
    try:
        return registry.registered(subject, text, AVRO, register=chosen.auto_register)
    except SchemaNotFound as error:
        remedy = (
            f"register spec.sink.format.{side}Schema for the subject, set autoRegister: true,"
            f" or remove {side}Schema to write with the latest schema"
        )
        raise SchemaNotFound(error.message, remedy=remedy) from error


def _subject(sink: Sink, chosen: SinkFormat, side: str, given: str) -> str:
    """The subject of a side; a strategy by name needs the given schema, which is a rule of the job."""
    if chosen.subject_name_strategy is SubjectNameStrategy.TOPIC_NAME:
        return f"{sink.topic}-{side}"
    from sparkapp.formats.avro_types import load
    from sparkapp.formats.encoders.avro_plan import record_name

    where = f"spec.sink.format.{side}Schema"
    name = record_name(load(given, where), where)
    is_by_topic = chosen.subject_name_strategy is SubjectNameStrategy.TOPIC_RECORD_NAME
    return f"{sink.topic}-{name}" if is_by_topic else name
