"""Records and schemas that are made to stop a job: each is an error of its record, in bounded time and memory.

A decoder that follows such a record ends its process or never returns. So each case runs in a process of its own, with
a limit of memory; a limit of time ends a case that would never return.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from sparkapp.source.formats.avro_bounds import check_of
from sparkapp.source.formats.registered_records import BadRecord
from tests.support.patience import PATIENCE

REPOSITORY = Path(__file__).parents[5]
MEMORY = 3 << 30
"""Address space of the process, most of it pyarrow's libraries."""
MEBIBYTE = 1 << 20

PROGRAM = """
import contextlib, json, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
import pyarrow as pa
from sparkapp.source.formats.avro import AvroDecoder
from sparkapp.formats.schema_registry import AVRO, RegisteredSchema

class Registry:
    def session(self):
        return contextlib.nullcontext()

    def by_id(self, schema_id):
        return RegisteredSchema(schemas[schema_id], AVRO, (), schema_id)

schemas = {1: Path(sys.argv[3]).read_text(), 2: sys.argv[2]}
decoder = AvroDecoder(Registry(), sys.argv[2], where="the reader schema")
good = b"\\0\\0\\0\\0\\2" + b"\\x0e"
bad = b"\\0\\0\\0\\0\\1" + Path(sys.argv[4]).read_bytes()
column, errors = decoder.decode(pa.array([good, bad, good], pa.binary()))
print(json.dumps([column.to_pylist(), errors], default=str))
"""

ID = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
"""The reader's schema, and that of the records around the poison."""


def with_field(kind: Any, *more: Any) -> Any:
    fields = [{"name": "poison", "type": kind}, *more, {"name": "id", "type": "int"}]
    return {"type": "record", "name": "R", "fields": fields}


def number(value: int) -> bytes:
    """A number of Avro."""
    value = (value << 1) ^ (value >> 63)
    digits = b""
    while value > 0x7F:
        digits += bytes([value & 0x7F | 0x80])
        value >>= 7
    return digits + bytes([value])


NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "below", "type": {"type": "array", "items": "Tree"}}]}


def doubling(levels: int) -> Any:
    """Nulls in records, twice as many with each level; a value has no byte."""
    fields: list[Any] = [
        {"name": "r0", "type": {"type": "record", "name": "D0", "fields": [{"name": "n", "type": "null"}]}}
    ]
    for level in range(1, levels):
        inner = [{"name": "a", "type": f"D{level - 1}"}, {"name": "b", "type": f"D{level - 1}"}]
        fields.append({"name": f"r{level}", "type": {"type": "record", "name": f"D{level}", "fields": inner}})
    return {"type": "record", "name": "R", "fields": [*fields, {"name": "id", "type": "int"}]}


def chain(levels: int) -> Any:
    """Records within records, without nesting in the schema's text."""
    kinds: list[Any] = [{"type": "record", "name": "C0", "fields": [{"name": "x", "type": "int"}]}]
    kinds += [
        {"type": "record", "name": f"C{level}", "fields": [{"name": "inner", "type": f"C{level - 1}"}]}
        for level in range(1, levels)
    ]
    maps = [{"name": f"m{index}", "type": {"type": "map", "values": kind}} for index, kind in enumerate(kinds)]
    return {"type": "record", "name": "R", "fields": [*maps, {"name": "id", "type": "int"}]}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 4}
HUGE = number((1 << 62) - 1)
CASES = {
    "nulls": (with_field({"type": "array", "items": "null"}), number(1 << 31) + number(0) + number(7)),
    "nulls in blocks with sizes": (with_field({"type": "array", "items": "null"}), number(-(1 << 62)) + number(0)),
    "nulls in many blocks": (with_field({"type": "array", "items": "null"}), number(1 << 20) * 100_000 + number(0)),
    "empty records": (with_field({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}), HUGE),
    "empty fixed": (with_field({"type": "array", "items": {**FIXED, "size": 0}}), HUGE),
    "records of nulls": (with_field({"type": "array", "items": {"type": "record", "name": "E", "fields": [
        {"name": "n", "type": "null"}]}}), HUGE),
    "a record of 2^40 nulls": (doubling(40), number(7)),
    "doubles that are left out": (with_field({"type": "array", "items": "double"}), HUGE),
    "booleans that are left out": (with_field({"type": "array", "items": "boolean"}), HUGE),
    "fixed values that are left out": (with_field({"type": "array", "items": FIXED}), HUGE),
    "a list of half a million nodes": (with_field(NODE), number(1) * (MEBIBYTE // 2)),
    "a list behind a number that has no end": (
        with_field("long", {"name": "list", "type": NODE}), b"\xff" * 30 + b"\0" + number(1) * (MEBIBYTE // 2)),
    "a list behind a length of 65 bits": (
        with_field("bytes", {"name": "list", "type": NODE}),
        b"\x80" * 9 + b"\x02" + number(1) * (MEBIBYTE // 2)),
    "a tree of half a million levels": (with_field(TREE), number(1) * (MEBIBYTE // 2)),
    "a decimal of a mebibyte": (with_field(DECIMAL), number(MEBIBYTE) + b"\x7f" * MEBIBYTE + number(7)),
    "bytes of 2^62": (with_field("bytes"), HUGE),
    "text of a negative length": (with_field("string"), number(-5) + b"xxxxx"),
    "a schema of 5,000 levels": (chain(5000), number(0) * 5000 + number(7)),
}  # fmt: skip


def outcome(folder: Path, schema: str, poison: bytes, reader: Any) -> tuple[list[Any], list[str | None]]:
    """What the decoder makes of a good record, the poison, and a good record."""
    for name, content in (("schema", schema.encode()), ("poison", poison)):
        (folder / name).write_bytes(content)
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        str(MEMORY),
        json.dumps(reader),
        str(folder / "schema"),
        str(folder / "poison"),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env={"PYTHONPATH": str(REPOSITORY)}
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    column, errors = json.loads(done.stdout)
    return column, errors


@pytest.mark.parametrize("case", CASES)
def test_poison_is_an_error_of_its_record(tmp_path: Path, case: str) -> None:
    schema, poison = CASES[case]
    column, errors = outcome(tmp_path, json.dumps(schema), poison, ID)
    if errors[1] is None:
        # Left out by the reader, and bounded: the record itself is valid.
        assert (case, column[1]) == ("a decimal of a mebibyte", {"id": 7})
    else:
        assert column[1] is None
    assert [column[0], column[2]] == [{"id": 7}] * 2
    assert [errors[0], errors[2]] == [None, None]


def test_a_decimal_that_is_read_is_limited(tmp_path: Path) -> None:
    reader = with_field(DECIMAL)
    reader["fields"][0]["default"] = ""
    _, poison = CASES["a decimal of a mebibyte"]
    _, errors = outcome(tmp_path, json.dumps(with_field(DECIMAL)), poison, reader)
    assert errors[1] is not None
    assert "a decimal of 1048576 bytes" in errors[1]


def test_a_schema_whose_text_is_nested_too_deeply_is_an_error_of_its_records(tmp_path: Path) -> None:
    text = '{"type": "array", "items": ' * 100_000 + '"int"' + "}" * 100_000
    _, errors = outcome(tmp_path, text, b"\0", ID)
    assert errors[1] is not None
    assert errors[0] is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (NODE, {"next": {"next": {"next": None}}}),
        (TREE, {"below": [{"below": []}, {"below": [{"below": []}]}]}),
        ({"type": "array", "items": "null"}, [None] * 500),
        ({"type": "array", "items": "double"}, [1.5, 2.5]),
        ({"type": "map", "values": ["null", {"type": "array", "items": FIXED}]}, {"a": [b"abcd"] * 3, "b": None}),
        ({"type": "enum", "name": "Color", "symbols": ["RED"]}, "RED"),
        (["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}], Decimal("12.5")),
    ],
)
def test_a_field_that_is_no_poison_is_passed_over(schema: Any, value: Any) -> None:
    writer = with_field(["string", schema] if isinstance(schema, dict) else schema, {"name": "list", "type": {
        "type": "array", "items": "boolean"}})  # fmt: skip
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(writer), {"poison": value, "list": [True], "id": 7})
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(writer, named)
    check = check_of(parsed, named, "the schema", skips=True)
    assert check is not None, "an array of booleans that is left out"
    check(data.getvalue(), 0)
    for end in range(len(data.getvalue())):
        with pytest.raises(BadRecord):
            check(data.getvalue()[:end], 0)


def test_a_schema_that_bounds_its_records_has_no_check() -> None:
    writer = with_field({"type": "array", "items": {"type": "map", "values": ["null", "double"]}})
    assert check_of(fastavro.parse_schema(writer), {}, "the schema", skips=True) is None
