"""JSON of a column, with the text that Spark's ``to_json`` gives.

Fields of records that are null are left out. Bytes are base64. Dates and timestamps are texts of ISO 8601, timestamps
in UTC and with milliseconds. Digits of FLOAT and DOUBLE are the shortest that are read as the same number.
"""

from __future__ import annotations

import pyarrow as pa

from sparkapp.formats.encoders.plan import MAX_DEPTH, UNITS, Node, Unfit, inner_path, layout_of, spark_name

_WRITES = {"bool": "boolean", "float": "float", "double": "double", "decimal": "decimal", "null": "constant"}
_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)
"""Those of Jackson, whose digits are upper case; the extension has the same for values."""


def json_plan(kind: pa.DataType, path: str, *, column: int = 0, name: str | None = None, depth: int = 0) -> Node:
    """The plan of a column.

    :param path: of the column.
    :param column: its number in the record that has it. :param name: its name there.
    :raises Unfit: JSON has no counterpart of a type.
    """
    layout = layout_of(kind)
    text = b"" if name is None else f"{_quoted(name)}:".encode()
    if layout is None or depth > MAX_DEPTH or pa.types.is_time(kind):
        raise Unfit(f"column {path or 'value'} is {spark_name(kind)}, which JSON cannot have", _cast(path))
    shown = path.replace("\0", "\\0")  # C ends a text there
    node = Node(_write_of(kind, layout), layout, column, text=text, path=shown)
    if pa.types.is_timestamp(kind):
        return node._replace(number=UNITS[kind.unit])
    if pa.types.is_decimal(kind):
        return node._replace(number=kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return node._replace(number=kind.byte_width)
    return node._replace(children=_children(kind, path, depth))


def _children(kind: pa.DataType, path: str, depth: int) -> tuple[Node, ...]:
    if isinstance(kind, pa.StructType):
        return tuple(
            json_plan(field.type, inner_path(path, field.name), column=index, name=field.name, depth=depth + 1)
            for index, field in enumerate(kind)
        )
    if isinstance(kind, pa.MapType):
        if kind.key_type not in (pa.string(), pa.large_string()):
            raise Unfit(f"column {path} is {spark_name(kind)}, and JSON has texts as keys", _cast(path))
        key = json_plan(kind.key_type, path, depth=depth + 1)
        return key, json_plan(kind.item_type, f"{path}{{}}", column=1, depth=depth + 1)
    if isinstance(kind, pa.ListType | pa.LargeListType):
        return (json_plan(kind.value_type, f"{path}[]", depth=depth + 1),)
    return ()


def _write_of(kind: pa.DataType, layout: str) -> str:
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "local_timestamp"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if layout in ("bytes", "large_bytes", "fixed"):
        return "bytes"
    containers = {"struct": "record", "map": "map", "list": "list", "large_list": "list"}
    return _WRITES.get(layout) or containers.get(layout, "integer")


def _quoted(name: str) -> str:
    return f'"{name.translate(_ESCAPES)}"'


def _cast(path: str) -> str:
    return f"write it as text: CAST({path or 'value'} AS STRING)"
