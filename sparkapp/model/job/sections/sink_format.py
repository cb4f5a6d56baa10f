"""``spec.sink.format``: how the columns of a result become keys and values."""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple

from sparkapp.model.encoding.schema import HIDDEN, at, items_of, part, text_of


class SinkEncoding(StrEnum):
    """The form in which a key or a value is written."""

    RAW = "raw"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json-schema"
    """The last three are in Confluent's wire format: a zero byte, the schema's id, the record."""

    @property
    def is_registered(self) -> bool:
        """Whether its schema is in a registry."""
        return self in REGISTERED


REGISTERED = (SinkEncoding.AVRO, SinkEncoding.PROTOBUF, SinkEncoding.JSON_SCHEMA)
"""The rules of ``sink`` in CEL name them, too."""


class SubjectNameStrategy(StrEnum):
    """The name of a schema's subject, as Confluent's serializers choose it."""

    TOPIC_NAME = "TopicName"
    """The topic and the side: ``orders-value``."""
    RECORD_NAME = "RecordName"
    """The record's full name."""
    TOPIC_RECORD_NAME = "TopicRecordName"
    """The topic, a hyphen and the record's full name."""


class WriterSchema(NamedTuple):
    """What the records of a side are written with.

    :param number: id in the registry. :param subject: for messages; empty where the resource names the id.
    """

    text: str
    number: int
    subject: str


_SCHEMA = (
    "Writer schema of the {side}. It is JSON with avro and json-schema. With protobuf it is the text of a proto file,"
    " or its descriptor in base64. Without it and {side}SchemaId it is the latest schema of the subject."
)
_SCHEMA_ID = "Id of the writer schema of the {side} in the registry, with avro, protobuf and json-schema."
_MESSAGE = "Full name of the message that the {side} is, with protobuf. The default is the first of the schema."


@part
class SinkFormat:
    """The formats of both sides, and the schemas that they are written with.

    :param key_fixed: what the driver has found when the attempt started: text, id and subject as
        :class:`WriterSchema`. Empty before, and for other formats. :param value_fixed: the same.
    """

    key: SinkEncoding = at(
        "Format of the key. raw takes bytes or text unchanged. string takes text, whole numbers, decimals, dates and"
        " booleans. json writes the column as JSON. avro, protobuf and json-schema write"
        " it with a schema of the registry.",
        default=SinkEncoding.RAW,
    )
    value: SinkEncoding = at(
        "Format of the value: of column value, or without it of all columns that have no other meaning.",
        default=SinkEncoding.RAW,
    )
    key_columns: tuple[str, ...] = at(
        "Columns of the result that make the key, instead of column key. They are the fields of a record. raw and"
        " string take exactly one.",
        default=(),
        form=items_of(1, 64, is_set=True),
        each=text_of(1, 256),
    )
    key_schema: str = at(_SCHEMA.format(side="key"), default="", form=text_of(1, 65536))
    value_schema: str = at(_SCHEMA.format(side="value"), default="", form=text_of(1, 65536))
    key_schema_id: int = at(_SCHEMA_ID.format(side="key"), default=0, low=1, high=2147483647)
    value_schema_id: int = at(_SCHEMA_ID.format(side="value"), default=0, low=1, high=2147483647)
    key_message: str = at(_MESSAGE.format(side="key"), default="", form=text_of(1, 1024))
    value_message: str = at(_MESSAGE.format(side="value"), default="", form=text_of(1, 1024))
    subject_name_strategy: SubjectNameStrategy = at(
        "Name of a schema's subject. TopicName is TOPIC-value or TOPIC-key. RecordName is the full name of the"
        " schema's record, the title of a JSON Schema, or the message with protobuf. TopicRecordName is the topic, a"
        " hyphen and that name.",
        default=SubjectNameStrategy.TOPIC_NAME,
    )
    auto_register: bool = at(
        "Registration of keySchema and valueSchema where their subject does not have them. Without it such a schema"
        " stops the job.",
        default=False,
    )
    key_fixed: tuple[str, ...] = field(default=(), metadata=HIDDEN)
    value_fixed: tuple[str, ...] = field(default=(), metadata=HIDDEN)

    def given(self, side: str) -> tuple[str, int]:
        """Schema and id that the resource gives for a side; empty and 0 where it gives none."""
        if side == "key":
            return self.key_schema, self.key_schema_id
        return self.value_schema, self.value_schema_id

    def message(self, side: str) -> str:
        """The message that the resource names for a side; empty for the first."""
        return self.key_message if side == "key" else self.value_message

    def schema_of(self, side: str) -> WriterSchema:
        """The writer schema of a side, behind :meth:`with_schema`; called by the encoder."""
        text, number, subject = self.key_fixed if side == "key" else self.value_fixed
        return WriterSchema(text, int(number), subject)

    def with_schema(self, side: str, schema: WriterSchema) -> SinkFormat:
        """A copy with the writer schema of a side; the driver calls it."""
        fixed = (schema.text, str(schema.number), schema.subject)
        return replace(self, key_fixed=fixed) if side == "key" else replace(self, value_fixed=fixed)
