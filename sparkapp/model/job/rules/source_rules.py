"""The rules within ``spec.source`` and within ``spec.transform``."""

from __future__ import annotations

from sparkapp.model.encoding.schema import ObjectRule

SOURCE_RULES = (
    ObjectRule(
        "[has(self.topics), has(self.topicPattern), has(self.partitions)].filter(x, x).size() == 1",
        "set exactly one of source.topics, source.topicPattern and source.partitions",
        ("source",),
    ),
    ObjectRule(
        "(self.format.key in ['avro', 'protobuf'] || self.format.value in ['avro', 'protobuf']) =="
        " has(self.schemaRegistry)",
        "source.schemaRegistry is needed with formats avro and protobuf, and only there, for instance"
        ' schemaRegistry: {url: "http://schema-registry:8081"}',
        ("source",),
    ),
    ObjectRule(
        "!(self.format.key == 'protobuf' || self.format.value == 'protobuf') || (has(self.topics) &&"
        " self.topics.size() == 1)",
        "format protobuf needs exactly one topic in source.topics, whose subject in the registry gives the columns",
        ("source",),
    ),
    ObjectRule(
        "self.format.key != 'avro' || has(self.format.keySchema) || (has(self.topics) && self.topics.size() == 1)",
        "source.format.keySchema is needed with key: avro and several topics: set an Avro schema that all"
        " topics can be read with",
        ("source",),
    ),
    ObjectRule(
        "self.format.value != 'avro' || has(self.format.valueSchema) || (has(self.topics) && self.topics.size() == 1)",
        "source.format.valueSchema is needed with value: avro and several topics: set an Avro schema that"
        " all topics can be read with",
        ("source",),
    ),
    ObjectRule(
        "self.groupMembership.mode != 'Subscribe' || self.startup.mode == 'GroupOffsets'",
        "source.groupMembership.mode Subscribe reads from the group's offsets only: set source.startup.mode"
        " GroupOffsets; startup.onMissingOffset is for partitions without a committed offset",
        ("source",),
    ),
    ObjectRule(
        "self.groupMembership.mode != 'Subscribe' || (self.stopping.mode == 'Unbounded' &&"
        " !has(self.stopping.predicate))",
        "source.groupMembership.mode Subscribe cannot be bounded: other members may read the remaining"
        " records; set source.stopping.mode Unbounded without a predicate, or mode Assign",
        ("source",),
    ),
    ObjectRule(
        "!has(self.stopping.predicate) || self.limits.maxRecordsPerSplit == 0",
        "source.limits.maxRecordsPerSplit cannot be set with source.stopping.predicate: several splits have"
        " no common first match; set limits.maxRecordsPerSplit 0, or remove the predicate",
        ("source",),
    ),
    ObjectRule(
        "self.groupMembership.mode != 'Subscribe' || !has(self.partitions)",
        "source.groupMembership.mode Subscribe leaves the choice of partitions to the group: name"
        " source.topics instead of source.partitions, or set mode Assign",
        ("source",),
    ),
    ObjectRule(
        "self.groupMembership.mode != 'Subscribe' || self.onDataLoss == 'Fail'",
        "source.groupMembership.mode Subscribe cannot skip for the whole group: set source.onDataLoss Fail;"
        " kafka-consumer-groups --reset-offsets moves the group",
        ("source",),
    ),
    ObjectRule(
        "self.groupMembership.mode != 'Subscribe' || self.offsetCommit != 'Disabled'",
        "source.groupMembership.mode Subscribe needs committed offsets, from which a partition's next owner"
        " resumes: set source.offsetCommit OnCheckpoint",
        ("source",),
    ),
    ObjectRule(
        "[has(self.timestamp), has(self.timestampMillis)].filter(x, x).size() == (self.mode == 'Timestamp' ? 1 : 0)",
        "timestamp or timestampMillis is needed with mode Timestamp, and only there: for instance timestamp:"
        " 2026-01-01T00:00:00Z",
        (
            "source.startup",
            "source.stopping",
        ),
    ),
    ObjectRule(
        "(self.mode == 'SpecificOffsets') == has(self.specificOffsets)",
        "specificOffsets is needed with mode SpecificOffsets, and only there, for instance [{topic: orders,"
        " partition: 0, offset: 42}]",
        (
            "source.startup",
            "source.stopping",
        ),
    ),
    ObjectRule(
        "self.key in ['avro', 'protobuf'] || (self.key == 'json') == has(self.keySchema)",
        "source.format.keySchema is needed with key: json and does not belong to raw and string, for"
        ' instance keySchema: "id BIGINT, name STRING"',
        ("source.format",),
    ),
    ObjectRule(
        "self.value in ['avro', 'protobuf'] || (self.value == 'json') == has(self.valueSchema)",
        "source.format.valueSchema is needed with value: json and does not belong to raw and string, for"
        ' instance valueSchema: "id BIGINT, name STRING"',
        ("source.format",),
    ),
    ObjectRule(
        "self.mode == 'Subscribe' || !has(self.groupInstanceId)",
        "source.groupMembership.groupInstanceId needs mode Subscribe: Assign joins no group",
        ("source.groupMembership",),
    ),
    ObjectRule(
        "self.heartbeatIntervalSeconds * 3 <= self.sessionTimeoutSeconds",
        "source.groupMembership.heartbeatIntervalSeconds must be at most a third of sessionTimeoutSeconds:"
        " two lost heartbeats must not end the session; lower it, or raise sessionTimeoutSeconds",
        ("source.groupMembership",),
    ),
    ObjectRule(
        "self.maxPollIntervalSeconds >= self.sessionTimeoutSeconds",
        "source.groupMembership.maxPollIntervalSeconds must be at least sessionTimeoutSeconds: raise it, or"
        " lower sessionTimeoutSeconds",
        ("source.groupMembership",),
    ),
    ObjectRule(
        "[has(self.python), has(self.arrow), has(self.sql)].filter(given, given).size() <= 1",
        "set at most one of transform.python, transform.arrow and transform.sql",
        ("transform",),
    ),
    ObjectRule(
        "has(self.function) != has(self.factory)",
        "set exactly one of arrow.function and arrow.factory",
        ("transform.arrow",),
    ),
)
