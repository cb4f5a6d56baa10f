"""The rules within ``spec.sink``: formats, schemas and their registry."""

from __future__ import annotations

from sparkapp.model.encoding.schema import ObjectRule

SINK_RULES = (
    ObjectRule(
        "(has(self.format) && [self.format.key, self.format.value].exists(f, f in ['avro'])) =="
        " has(self.schemaRegistry)",
        "sink.schemaRegistry is needed with format avro, and only there, for instance"
        ' schemaRegistry: {url: "http://schema-registry:8081"}',
        ("sink",),
    ),
    ObjectRule(
        "self.topicFrom != 'Column' || !has(self.format) || self.format.subjectNameStrategy == 'RecordName' ||"
        " ((!(self.format.value in ['avro']) || has(self.format.valueSchemaId)) &&"
        " (!(self.format.key in ['avro']) || has(self.format.keySchemaId)))",
        "sink.topicFrom: Column has no topic that a subject could be named after: set"
        " sink.format.valueSchemaId (keySchemaId), or subjectNameStrategy: RecordName with valueSchema",
        ("sink",),
    ),
    ObjectRule(
        "(self.key in ['avro'] || (!has(self.keySchema) && !has(self.keySchemaId))) &&"
        " (self.value in ['avro'] || (!has(self.valueSchema) && !has(self.valueSchemaId)))",
        "sink.format.keySchema and keySchemaId are for key: avro, valueSchema and valueSchemaId for value: avro:"
        " remove them, or set that format",
        ("sink.format",),
    ),
    ObjectRule(
        "!(has(self.keySchema) && has(self.keySchemaId)) && !(has(self.valueSchema) && has(self.valueSchemaId))",
        "sink.format takes a schema or its id: remove valueSchema or valueSchemaId (keySchema or keySchemaId)",
        ("sink.format",),
    ),
    ObjectRule(
        "!self.autoRegister || has(self.keySchema) || has(self.valueSchema)",
        "sink.format.autoRegister registers what is given: set valueSchema or keySchema, or remove autoRegister",
        ("sink.format",),
    ),
    ObjectRule(
        "self.subjectNameStrategy == 'TopicName' ||"
        " ((!(self.value in ['avro']) || has(self.valueSchema) || has(self.valueSchemaId)) &&"
        " (!(self.key in ['avro']) || has(self.keySchema) || has(self.keySchemaId)))",
        "sink.format.subjectNameStrategy RecordName and TopicRecordName need the record's name: set valueSchema or"
        " valueSchemaId (keySchema or keySchemaId), or subjectNameStrategy: TopicName",
        ("sink.format",),
    ),
    ObjectRule(
        "!has(self.keyColumns) || !(self.key in ['raw', 'string']) || self.keyColumns.size() == 1",
        "sink.format.keyColumns has exactly one column with key: raw or string: set key: json or avro for a key of"
        " several columns",
        ("sink.format",),
    ),
)
