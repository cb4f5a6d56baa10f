"""The rules within ``spec.sink``: formats, schemas and their registry."""

from __future__ import annotations

from sparkapp.model.encoding.schema import ObjectRule

SINK_RULES = (
    ObjectRule(
        "(has(self.format) &&"
        " [self.format.key, self.format.value].exists(f, f in ['avro', 'protobuf', 'json-schema'])) =="
        " has(self.schemaRegistry)",
        "sink.schemaRegistry is needed with formats avro, protobuf and json-schema, and only there, for instance"
        ' schemaRegistry: {url: "http://schema-registry:8081"}',
        ("sink",),
    ),
    ObjectRule(
        "self.topicFrom != 'Column' || !has(self.format) || self.format.subjectNameStrategy == 'RecordName' ||"
        " ((!(self.format.value in ['avro', 'protobuf', 'json-schema']) || has(self.format.valueSchemaId)) &&"
        " (!(self.format.key in ['avro', 'protobuf', 'json-schema']) || has(self.format.keySchemaId)))",
        "sink.topicFrom: Column has no topic that a subject could be named after: set"
        " sink.format.valueSchemaId (keySchemaId), or subjectNameStrategy: RecordName with valueSchema (valueMessage)",
        ("sink",),
    ),
    ObjectRule(
        "(self.key in ['avro', 'protobuf', 'json-schema'] || (!has(self.keySchema) && !has(self.keySchemaId))) &&"
        " (self.value in ['avro', 'protobuf', 'json-schema'] || (!has(self.valueSchema) && !has(self.valueSchemaId)))",
        "sink.format.keySchema and keySchemaId are for key: avro, protobuf and json-schema, valueSchema and"
        " valueSchemaId for value: remove them, or set such a format",
        ("sink.format",),
    ),
    ObjectRule(
        "!(has(self.keySchema) && has(self.keySchemaId)) && !(has(self.valueSchema) && has(self.valueSchemaId))",
        "sink.format takes a schema or its id: remove valueSchema or valueSchemaId (keySchema or keySchemaId)",
        ("sink.format",),
    ),
    ObjectRule(
        "(self.key == 'protobuf' || !has(self.keyMessage)) && (self.value == 'protobuf' || !has(self.valueMessage))",
        "sink.format.keyMessage is for key: protobuf, valueMessage for value: protobuf: remove it, or set that format",
        ("sink.format",),
    ),
    ObjectRule(
        "!self.autoRegister || has(self.keySchema) || has(self.valueSchema)",
        "sink.format.autoRegister registers what is given: set valueSchema or keySchema, or remove autoRegister",
        ("sink.format",),
    ),
    ObjectRule(
        "self.subjectNameStrategy == 'TopicName' ||"
        " ((!(self.value in ['avro', 'json-schema']) || has(self.valueSchema) || has(self.valueSchemaId)) &&"
        " (!(self.key in ['avro', 'json-schema']) || has(self.keySchema) || has(self.keySchemaId)) &&"
        " (self.value != 'protobuf' || has(self.valueMessage) || has(self.valueSchemaId)) &&"
        " (self.key != 'protobuf' || has(self.keyMessage) || has(self.keySchemaId)))",
        "sink.format.subjectNameStrategy RecordName and TopicRecordName need the record's name: set valueSchema or"
        " valueSchemaId (keySchema or keySchemaId), with protobuf valueMessage (keyMessage), or subjectNameStrategy:"
        " TopicName",
        ("sink.format",),
    ),
    ObjectRule(
        "!has(self.keyColumns) || !(self.key in ['raw', 'string']) || self.keyColumns.size() == 1",
        "sink.format.keyColumns has exactly one column with key: raw or string: set key: json, avro,"
        " protobuf or json-schema for a key of several columns",
        ("sink.format",),
    ),
)
