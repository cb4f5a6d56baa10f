"""Compiled Protobuf files with imports, and messages of them, as another program would write them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

File = descriptor_pb2.FileDescriptorProto
_ENUMS = frozenset({"google.type.DayOfWeek", "google.type.Month", "google.type.CalendarPeriod"})


def order_with(imported: str, type_: str = "") -> File:
    """A file with the message ``shop.Order``, its ``id``, and ``field`` of a type of the imported file."""
    file = File(name="default", package="shop", syntax="proto3", dependency=[imported])
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    if type_:
        order.field.add(name="field", number=2, type=14 if type_ in _ENUMS else 11, type_name=f".{type_}", label=1)
    return file


def message_class(file: File, name: str) -> Any:
    """The class of a message whose file imports only files of published packages."""
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(each: File) -> None:
        for imported in each.dependency:
            if imported not in added:
                add(_published(imported))
        pool.Add(each)
        added.add(each.name)

    add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _published(name: str) -> File:
    package = "confluent_kafka.schema_registry." if name.startswith("confluent/") else ""
    found = File()
    import_module(package + name.removesuffix(".proto").replace("/", ".") + "_pb2").DESCRIPTOR.CopyToProto(found)
    return found
