"""The DDL that the continuous engine understands."""

from __future__ import annotations

import pytest

from sparkapp.model.encoding.json_columns import JsonType, Kind, columns_of
from sparkapp.model.errors import InvalidArgument

INT, STRING = JsonType(Kind.INT), JsonType(Kind.STRING)


@pytest.mark.parametrize(
    ("schema", "fields"),
    [
        ("a INT", (("a", INT),)),
        (" a:int ,b\tString ", (("a", INT), ("b", STRING))),
        ("a Long, b SHORT, c byte, d integer", (
            ("a", JsonType(Kind.BIGINT)), ("b", JsonType(Kind.SMALLINT)), ("c", JsonType(Kind.TINYINT)), ("d", INT),
        )),
        ("`a b` INT, `int` STRING", (("a b", INT), ("int", STRING))),
        ("s STRUCT<x: INT, y STRING>, l ARRAY<ARRAY<INT>>", (
            ("s", JsonType(Kind.STRUCT, (("x", INT), ("y", STRING)))),
            ("l", JsonType(Kind.ARRAY, element=JsonType(Kind.ARRAY, element=INT))),
        )),
    ],
)  # fmt: skip
def test_columns(schema: str, fields: tuple[tuple[str, JsonType], ...]) -> None:
    assert columns_of(schema) == JsonType(Kind.STRUCT, fields)


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("a TIMESTAMP", "TIMESTAMP"), ("a DECIMAL(10, 2)", "DECIMAL"), ("a MAP<STRING, INT>", "MAP"),
        ("a FLOAT", "FLOAT"), ("a INT NOT NULL", "'NOT NULL'"), ("a INT, A STRING", "a name that is there twice"),
        ("ARRAY<INT>", "<"), ("STRUCT<a: INT>", "<"), ("", "its end"), ("a", "its end"), ("a INT,", "its end"),
        ("a ARRAY<INT", "''"), ("1a INT", "'1a INT'"), ('{"type": "struct"}', "'{"), ("a STRUCT<>", ">"),
        ("a " + "ARRAY<" * 60 + "INT" + ">" * 60, "ARRAY"),
    ],
)  # fmt: skip
def test_what_only_spark_reads_is_named(schema: str, what: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        columns_of(schema)
    assert str(caught.value).startswith(f"with {what}")
