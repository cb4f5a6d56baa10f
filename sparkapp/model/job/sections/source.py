"""``spec.source``: the records that a job reads."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from sparkapp.model.delivery_guarantee import OffsetCommit
from sparkapp.model.encoding.schema import Described, ObjectDefault, Rule, at, entries_of, items_of, part, text_of
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.forms import LISTED_TOPIC
from sparkapp.model.job.group_membership import MembershipOptions
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.startup import (
    SourcePartitions,
    Startup,
    Stopping,
    partitions_from,
    startup_from,
)
from sparkapp.model.partition import TopicPartition


class OnTopicDeleted(StrEnum):
    """The reaction to a deleted topic or partition that the job reads."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class OnDataLoss(StrEnum):
    """The reaction to deleted records that the job has not read: by retention, or with a recreated topic (S40)."""

    FAIL = "Fail"
    SKIP_TO_AVAILABLE = "SkipToAvailable"


class IsolationLevel(StrEnum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


DEFAULT_MAX_OFFSETS = 1_000_000
"""Offsets that a checkpoint covers where the resource sets no limit."""

_EXPRESSION = Rule(
    "[''.matches(self)].size() == 1",
    "source.topicPattern must be an RE2 expression: RE2 has no look-around and no back-references; write it without"
    " them, or name source.topics",
)


@part
class Source:
    """The records that are read. Exactly one of ``topics``, ``topic_pattern`` and ``partitions`` is set.

    :param max_out_of_orderness_seconds: None for a job without watermarks.
    :param schema_registry: set with registered formats, and only there.
    """

    OBJECTS: ClassVar[Mapping[str, Described]] = {
        "limits": Described("Limits of a checkpoint and of a split."),
        "watermarks": Described(
            "Watermarks by partition, subtask and job, in record time, for the function of"
            " transform.arrow and for metrics. They need the continuous engine. By default there are none."
        ),
        "watermarkAlignment": Described(
            "Alignment of partitions in record time, so that a fast partition does not make records of"
            " slow partitions late for a watermark."
        ),
        "format": Described("Formats in which the transform gets key and value.", ObjectDefault.SPELLED),
    }

    topics: tuple[str, ...] = at(
        "Names of the source topics.", default=(), form=items_of(1, 64, is_set=True), each=LISTED_TOPIC
    )
    topic_pattern: str = at(
        "Regular expression in RE2 syntax for the whole name of a topic. Discovery finds new topics.",
        default="",
        form=text_of(1, 512, _EXPRESSION),
    )
    partitions: tuple[TopicPartition, ...] = at(
        "List of the partitions that the job reads. It never reads other partitions of their topics.",
        default=(),
        form=items_of(1, 64),
        kind=tuple[SourcePartitions, ...],
        reader=partitions_from,
    )
    group_id: str = at(
        "Consumer group that holds the committed offsets, of this job alone. By default namespace.name of"
        " the job, followed by status.clusterId. Two Kubernetes clusters on one Kafka cluster need this field or"
        " operator.clusterId of the chart. Cannot change.",
        form=text_of(1, 249),
        absent="",
    )
    startup: Startup = at(
        "First offsets of a job without a checkpoint.",
        default_factory=Startup,
        reader=startup_from,
        object_default=ObjectDefault.SPELLED,
    )
    stopping: Stopping = at(
        "Last offsets of a bounded job. The job reads exactly to them, completes a last checkpoint"
        " and is Finished. A bounded job discovers partitions at its first start only.",
        default_factory=Stopping,
        object_default=ObjectDefault.SPELLED,
    )
    discovery_interval_seconds: int = at(
        "Time between searches for new topics and partitions, in seconds. 0 and less search only at"
        " a start. The job reads new partitions from their beginning.",
        default=300,
        low=-1,
        high=86400,
    )
    on_topic_deleted: OnTopicDeleted = at(
        "Reaction to a deleted topic or partition that the job reads. Fail fails the job. Ignore"
        " continues without it and writes an event.",
        default=OnTopicDeleted.FAIL,
    )
    on_data_loss: OnDataLoss = at(
        "Reaction to deleted records that the job has not read, by retention or with a recreated"
        " topic. Fail fails the job. SkipToAvailable resumes at the first record that exists and"
        " writes an event.",
        default=OnDataLoss.FAIL,
    )
    offset_commit: OffsetCommit = at(
        "Commit of offsets to the group. InTransaction commits them in the transaction of their"
        " records, as the evidence of its commit. OnCheckpoint commits them after each checkpoint."
        " Disabled commits none. With the delivery guarantees AtLeastOnce and None, and with sink.kafka,"
        " InTransaction is the same as OnCheckpoint.",
        default=OffsetCommit.IN_TRANSACTION,
    )
    isolation_level: IsolationLevel = at(
        "Visibility of transactional records. read_committed reads records of committed transactions"
        " only. read_uncommitted also reads those of open and aborted transactions.",
        default=IsolationLevel.READ_COMMITTED,
    )
    max_offsets_per_checkpoint: int = at(
        "Maximum number of offsets that a checkpoint covers.",
        default=DEFAULT_MAX_OFFSETS,
        low=1,
        high=1000000000,
        is_long=True,
        path="limits.maxOffsetsPerCheckpoint",
    )
    max_rate_per_partition: int = at(
        "Maximum average rate of a partition, in records per second. 0 is no limit.",
        default=0,
        low=0,
        high=1000000000,
        is_long=True,
        path="limits.maxRatePerPartition",
    )
    max_records_per_split: int = at(
        "Maximum number of records of a split. Several subtasks read a partition with more records"
        " in a checkpoint, which does not keep their order. 0 is no limit.",
        default=0,
        low=0,
        high=1000000000,
        is_long=True,
        path="limits.maxRecordsPerSplit",
    )
    max_out_of_orderness_seconds: int | None = at(
        "Bound of the disorder in a partition, in seconds. The watermark of a partition is its"
        " latest record time, less this bound. 0 is for records in the order of their time.",
        default=None,
        low=0,
        high=604800,
        path="watermarks.maxOutOfOrdernessSeconds",
        required=True,
    )
    idle_timeout_seconds: int = at(
        "Time without records after which a partition is idle, in seconds. An idle partition does"
        " not hold back the watermark of its subtask. A partition with unread records is never idle."
        " 0 is no timeout.",
        default=0,
        low=0,
        high=604800,
        path="watermarks.idleTimeoutSeconds",
    )
    max_drift_seconds: int = at(
        "Maximum lead of a partition over another in record time, in seconds. 0 is no limit. Add it"
        " to the delay of the transform's watermark.",
        default=0,
        low=0,
        high=604800,
        path="watermarkAlignment.maxDriftSeconds",
    )
    key_format: Format = at(
        "Format of the key. raw is bytes, string is UTF-8 text, json is columns of a JSON object."
        " avro and protobuf are columns of a record with a schema of the registry.",
        default=Format.RAW,
        path="format.key",
    )
    value_format: Format = at(
        "Format of the value. raw is bytes, string is UTF-8 text, json is columns of a JSON object."
        " avro and protobuf are columns of a record with a schema of the registry.",
        default=Format.RAW,
        path="format.value",
    )
    key_schema: str = at(
        'Schema of the key. With json: its columns as Spark writes them, for instance "id BIGINT".'
        " With avro: the reader schema in JSON, by default the latest of subject TOPIC-key. With"
        " protobuf: the full name of the message, by default the first message of the latest schema.",
        default="",
        form=text_of(1, 16384),
        path="format.keySchema",
    )
    value_schema: str = at(
        'Schema of the value. With json: its columns as Spark writes them, for instance "id BIGINT,'
        ' name STRING". With avro: the reader schema in JSON, by default the latest of subject'
        " TOPIC-value. With protobuf: the full name of the message, by default the first message of"
        " the latest schema.",
        default="",
        form=text_of(1, 16384),
        path="format.valueSchema",
    )
    schema_registry: RegistryAccess | None = at("Schema registry of records in Avro or Protobuf.", default=None)
    group_membership: MembershipOptions = at(
        "Assignment of partitions, by the job itself or by its consumer group.",
        default_factory=MembershipOptions,
        object_default=ObjectDefault.SPELLED,
    )
    properties: Mapping[str, str] = at(
        "Additional properties of the Kafka client by librdkafka's names, for instance fetch.max.bytes or client.rack.",
        default_factory=dict,
        form=entries_of(64),
        each=text_of(0, 1024),
    )

    @property
    def sides(self) -> tuple[tuple[str, Format, str], ...]:
        """``key`` and ``value``, each with its format and its schema."""
        return ("key", self.key_format, self.key_schema), ("value", self.value_format, self.value_schema)
