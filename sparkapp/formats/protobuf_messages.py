"""A message of a Protobuf schema with all files that it needs, as text for the tasks of an attempt."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from sparkapp.formats.protobuf_imports import File, collect, pool_of
from sparkapp.formats.schema_registry import RegisteredSchema, SchemaRegistry
from sparkapp.model.errors import SchemaUnusable

Message: TypeAlias = Descriptor


def message_text(registry: SchemaRegistry, found: RegisteredSchema, *, wanted: str, field: str, where: str) -> str:
    """The text for :func:`message_of`.

    :param found: requested in its compiled form. :param wanted: full name; empty for the first message.
    :param field: of the resource, which names the message. :param where: name of the schema in messages.
    :raises SchemaUnusable: the schema has no such message, or is not compiled.
    :raises SchemaNotFound: an import has no subject or version; other errors as in :meth:`SchemaRegistry.by_id`.
    """
    files: dict[str, File] = {}
    # No other file has this name, under which nothing imports it.
    names = list(_names(collect(registry, found, f"schema-{found.id}.proto", files, where)))
    if not names:
        msg = f"{where} has no message"
        raise SchemaUnusable(msg)
    if wanted and wanted not in names:
        msg = f"{field} {wanted!r} is not a message of {where}"
        raise SchemaUnusable(msg, remedy=f"set it to one of {', '.join(names)}")
    compiled = [base64.b64encode(file.SerializeToString()).decode() for file in files.values()]
    # Without white space, because every task receives the job's description.
    return json.dumps({"message": wanted or names[0], "files": compiled}, separators=(",", ":"))


def message_of(text: str, where: str) -> Message:
    """The message of a text of :func:`message_text`.

    :raises SchemaUnusable: it is no such text.
    """
    try:
        body = json.loads(text)
        name = str(body["message"])
        files = [File.FromString(base64.b64decode(file)) for file in body["files"]]
    except (ValueError, KeyError, TypeError, DecodeError) as error:
        msg = f"{where} is invalid: {error}"
        raise SchemaUnusable(msg) from error
    return pool_of(files, where).FindMessageTypeByName(name)


def message_indexes_of(message: Message) -> tuple[int, ...]:
    """The place of a message in its file, as records name it: its number, behind those of the messages around it."""
    around = message.containing_type
    if around is None:
        return (list(message.file.message_types_by_name.values()).index(message),)
    return (*message_indexes_of(around), list(around.nested_types).index(message))


def _names(file: File) -> Iterable[str]:
    def below(prefix: str, messages: Any) -> Iterable[str]:
        for message in messages:
            if not message.options.map_entry:
                yield f"{prefix}{message.name}"
                yield from below(f"{prefix}{message.name}.", message.nested_type)

    return below(f"{file.package}." if file.package else "", file.message_type)
