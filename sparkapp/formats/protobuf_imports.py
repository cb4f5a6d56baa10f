"""The files that a Protobuf schema imports: those of its references, and those that every registry has built in."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from sparkapp.formats.schema_registry import COMPILES, PROTOBUF, RegisteredSchema, SchemaRegistry
from sparkapp.model.errors import SchemaUnusable

File: TypeAlias = descriptor_pb2.FileDescriptorProto
_CONFLUENT = "confluent_kafka.schema_registry.confluent"
_PACKAGES: Mapping[str, str] = {
    "google/protobuf": "google.protobuf",
    "google/protobuf/compiler": "google.protobuf.compiler",
    "google/type": "google.type",
    "confluent": _CONFLUENT,
    "confluent/type": f"{_CONFLUENT}.type",
    "confluent/types": f"{_CONFLUENT}.types",
}
"""Packages with the compiled files of a folder. A registry does not list these files as references."""
_FILE = re.compile(r"([a-z_]+)\.proto")


def built_in(name: str) -> File | None:
    """The file of that name, if every registry knows it without a reference."""
    folder, _, file = name.rpartition("/")
    package, stem = _PACKAGES.get(folder), _FILE.fullmatch(file)
    if package is None or stem is None:
        return None
    try:
        module = import_module(f"{package}.{stem[1]}_pb2")
    except ModuleNotFoundError:
        return None
    found = File()
    module.DESCRIPTOR.CopyToProto(found)
    return found


def file_of(registered: RegisteredSchema, where: str) -> File:
    """The file of a schema that was requested in its compiled form.

    :param where: name of the schema in messages.
    :raises SchemaUnusable: it is not a compiled Protobuf schema.
    """
    if registered.kind != PROTOBUF:
        msg = f"{where} is of type {registered.kind}, not {PROTOBUF}"
        raise SchemaUnusable(msg)
    try:
        return File.FromString(base64.b64decode(registered.text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        msg = f"{where} is not a compiled descriptor"
        raise SchemaUnusable(msg, remedy=COMPILES) from error


def collect(
    registry: SchemaRegistry, registered: RegisteredSchema, name: str, files: dict[str, File], where: str
) -> File:
    """Adds a file to ``files`` with the files of its references, each under the name by which others import it.

    :raises SchemaUnusable: an import has no reference and is not built in.
    :raises SchemaNotFound: a reference has no subject or version.
    """
    file = files[name] = file_of(registered, where)
    file.name = name
    for reference in registered.references:
        if reference.name not in files:
            found = registry.version(reference, compiled=True)
            collect(registry, found, reference.name, files, f"{where}, import {reference.name}")
    for imported in file.dependency:
        if imported not in files and built_in(imported) is None:
            msg = f"{where} imports {imported!r}, and has no reference of that name"
            remedy = f"register {imported} in a subject of its own, and the schema again with a reference whose name is"
            raise SchemaUnusable(msg, remedy=f"{remedy} {imported}")
    return file


def pool_of(files: Iterable[File], where: str) -> descriptor_pool.DescriptorPool:
    """A pool of files and of all built-in files that they import.

    :raises SchemaUnusable: the files do not fit together.
    """
    given = {file.name: file for file in files}
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str) -> None:
        file = given.get(name) or built_in(name)
        if name in added or file is None:
            return
        added.add(name)
        for imported in file.dependency:
            add(imported)
        pool.Add(file)

    try:
        for name in given:
            add(name)
            pool.FindFileByName(name)
    except (TypeError, KeyError, RecursionError) as error:
        msg = f"{where} is inconsistent: {error}"
        raise SchemaUnusable(msg) from error
    return pool
