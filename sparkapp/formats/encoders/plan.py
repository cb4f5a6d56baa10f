"""Plans of the extension's encoder: a node for each value, from the Arrow type and what is to be written.

The names of ``write`` and ``layout`` are those of ``ext/encode/node.c``.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

MAX_DEPTH = 100
"""Containers within each other that a result may have."""


class Unfit(Exception):
    """A column cannot be written; :mod:`.record_encoder` adds side and schema.

    :param text: begins with the column.
    :param remedy: what to change.
    """

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(text)
        self.text = text
        self.remedy = remedy


class Node(NamedTuple):
    """A value of the plan, as the extension reads it.

    :param column: number of the array among the children of the node above; -1 for the array of the node above.
    :param number: size of a fixed value, factor of an integer, scale of a decimal, or units a second of a timestamp.
        In Protobuf also the bits of an unsigned number, and the number of a symbol.
    :param null_branch: branch of a union for null, and ``value_branch`` for a value; -1 without a union. In JSON and
        Protobuf what becomes of a null. ``value_branch`` is the oneof of a field of Protobuf.
    :param text: a constant, a symbol, a field's name as JSON has it, or the tag of a field of Protobuf.
    :param path: of the column, for errors.
    """

    write: str
    layout: str
    column: int = 0
    number: int = 1
    null_branch: int = -1
    value_branch: int = -1
    text: bytes = b""
    path: str = ""
    children: tuple[Node, ...] = ()


LAYOUTS = {
    pa.null(): "null", pa.bool_(): "bool", pa.int8(): "int8", pa.int16(): "int16", pa.int32(): "int32",
    pa.int64(): "int64", pa.uint8(): "uint8", pa.uint16(): "uint16", pa.uint32(): "uint32", pa.uint64(): "uint64",
    pa.float32(): "float", pa.float64(): "double", pa.date32(): "int32", pa.string(): "bytes", pa.binary(): "bytes",
    pa.large_string(): "large_bytes", pa.large_binary(): "large_bytes", pa.time32("s"): "int32",
    pa.time32("ms"): "int32", pa.time64("us"): "int64", pa.time64("ns"): "int64",
}  # fmt: skip
"""Layouts of types without parameters that matter here; :func:`layout_of` has the others."""
_SPARK_NAMES = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.date32(): "DATE", pa.string(): "STRING", pa.binary(): "BINARY",
    pa.large_string(): "STRING", pa.large_binary(): "BINARY", pa.null(): "VOID",
}  # fmt: skip
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def layout_of(kind: pa.DataType) -> str | None:
    """How Arrow has values of a type; None for a type that no format takes."""
    if kind in LAYOUTS:
        return LAYOUTS[kind]
    for is_kind, layout in (
        (pa.types.is_timestamp, "int64"),
        (pa.types.is_decimal128, "decimal"),
        (pa.types.is_fixed_size_binary, "fixed"),
        (pa.types.is_struct, "struct"),
        (pa.types.is_map, "map"),
        (pa.types.is_list, "list"),
        (pa.types.is_large_list, "large_list"),
    ):
        if is_kind(kind):
            return layout
    return None


def spark_name(kind: pa.DataType) -> str:
    """The type as a query names it, for messages."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    if pa.types.is_decimal128(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(field.name for field in kind)}>"
    if pa.types.is_map(kind):
        return f"MAP<{spark_name(kind.key_type)}, {spark_name(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"ARRAY<{spark_name(kind.value_type)}>"
    return _SPARK_NAMES.get(kind, str(kind))


def inner_path(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name
