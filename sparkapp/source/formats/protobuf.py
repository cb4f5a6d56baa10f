"""Protobuf records: the reader's message parses them, and finds its fields by number in every writer's schema.

The registry compiles schemas and returns descriptors (``format=serialized``), so no compiler is needed here.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import message_factory

from sparkapp.formats.protobuf_imports import File, file_of
from sparkapp.formats.protobuf_messages import message_of, message_text
from sparkapp.formats.schema_registry import SchemaRegistry
from sparkapp.source.formats.protobuf_types import arrow_type, converter
from sparkapp.source.formats.registered_records import HEAD, BadRecord, Read, RegisteredDecoder

_MAX_DEPTH = 32


class ProtobufDecoder(RegisteredDecoder):
    """See :class:`RegisteredDecoder`.

    :param reader: result of :func:`protobuf_reader_schema`.
    :raises SchemaUnusable: the message has no counterpart in columns.
    """

    def __init__(self, registry: SchemaRegistry, reader: str, *, where: str) -> None:
        descriptor = message_of(reader, where)
        self._name = descriptor.full_name
        super().__init__(registry, arrow_type(descriptor, where))
        self._message = message_factory.GetMessageClass(descriptor)
        self._convert = converter(descriptor)

    def _read_of(self, schema_id: int) -> Read:
        registered = self._registry.by_id(schema_id, compiled=True)
        file = file_of(registered, f"schema {schema_id} of the registry")
        message, convert, wanted = self._message, self._convert, self._name
        kinds: dict[tuple[int, ...], str] = {}

        def read(value: bytes) -> Any:
            indexes, start = message_indexes(value, HEAD)
            name = kinds.get(indexes)
            if name is None:
                name = kinds[indexes] = message_name(file, indexes)
            if name != wanted:
                msg = f"schema {schema_id}: the message is {name}, not {wanted} as the columns"
                raise BadRecord(msg)
            return convert(message.FromString(value[start:]))

        return read


def protobuf_reader_schema(registry: SchemaRegistry, *, topic: str, side: str, given: str) -> str:
    """The message that defines the columns, with its compiled files, as text.

    :param given: full name of a message in the latest schema of the topic's subject; default: the first message.
    :raises SchemaError: the registry has no schema, or the schema has no such message.
    """
    subject = f"{topic}-{side}"
    where = f"the latest schema of subject {subject!r}"
    found = registry.latest(subject, compiled=True)
    field = f"spec.source.format.{side}Schema"
    return message_text(registry, found, wanted=given, field=field, where=where)


def message_indexes(value: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Indexes of the record's message in the writer's file, and the position of the message behind them.

    They are zigzag varints after their number; a single zero is the first message.

    :raises BadRecord: the bytes end within the indexes, or their number is invalid.
    """
    count, start = _varint(value, start)
    if count == 0:
        return (0,), start
    if not 0 < count <= _MAX_DEPTH:
        msg = f"{count} message indexes"
        raise BadRecord(msg)
    indexes = []
    for _ in range(count):
        index, start = _varint(value, start)
        indexes.append(index)
    return tuple(indexes), start


def message_name(file: File, indexes: tuple[int, ...]) -> str:
    """Full name of a message by its indexes.

    :raises BadRecord: the file has no message there.
    """
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            msg = f"the schema has no message {list(indexes)}"
            raise BadRecord(msg)
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)


def _varint(value: bytes, start: int) -> tuple[int, int]:
    shift = number = 0
    for position in range(start, min(len(value), start + 10)):
        number |= (value[position] & 0x7F) << shift
        shift += 7
        if value[position] < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
    msg = "it ends within its message indexes"
    raise BadRecord(msg)
