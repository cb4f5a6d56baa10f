"""JSON of Arrow columns by a JSON Schema: what the extension writes, a validator of its own accepts."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkapp.dataplane.native import _kafka_arrow
from sparkapp.formats.encoders.json_schema_plan import json_schema_plan
from sparkapp.formats.encoders.plan import Unfit
from sparkapp.formats.json_schemas import Schemas
from sparkapp.model.errors import SchemaUnusable


def schemas(schema: Any, **references: Any) -> Schemas:
    return Schemas(json.dumps({"schema": schema, "references": references}), "the schema")


def encoded(schema: Any, values: pa.Array[Any], **references: Any) -> list[Any]:
    """The rows as JSON, each accepted by the validator."""
    encoder = _kafka_arrow.Encoder("json", json_schema_plan(schemas(schema, **references), values.type, ""), b"\0")
    values._export_to_c(encoder.slot())
    texts = pa.Array._import_from_c(encoder.encode(), pa.large_binary()).to_pylist()
    rows = [json.loads(text[1:]) for text in texts if text is not None]
    for row in rows:
        if not references:
            jsonschema.validate(row, schema)
    return rows


def properties(*required: str, **named: Any) -> dict[str, Any]:
    return {"type": "object", "properties": named, "required": list(required)}


LEAVES: list[tuple[dict[str, Any], pa.DataType, st.SearchStrategy[Any]]] = [
    ({"type": "boolean"}, pa.bool_(), st.booleans()),
    ({"type": "integer"}, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ({"type": "number"}, pa.int16(), st.integers(-9, 9)),
    ({"type": "number"}, pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    ({"type": "number"}, pa.decimal128(9, 2), st.decimals(-999, 999, places=2, allow_nan=False)),
    ({"type": "integer"}, pa.decimal128(9, 0), st.integers(-999, 999).map(Decimal)),
    ({"type": "string"}, pa.string(), st.text(max_size=5)),
    ({"type": "string", "enum": ["a", 'b"', "ü"]}, pa.large_string(), st.sampled_from(["a", 'b"', "ü"])),
    ({"const": "a"}, pa.string(), st.just("a")),
    ({"type": "string", "format": "date"}, pa.date32(), st.dates()),
    ({"type": "string"}, pa.binary(), st.binary(max_size=5)),
    ({}, pa.list_(pa.int32()), st.lists(st.integers(-9, 9) | st.none(), max_size=2)),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, pa.map_(pa.string(), pa.int8()),
     st.dictionaries(st.text(max_size=2), st.integers(-9, 9), max_size=2).map(lambda found: list(found.items()))),
]  # fmt: skip
Pair = tuple[dict[str, Any], pa.DataType, st.SearchStrategy[Any]]


@st.composite
def pairs(draw: st.DrawFn, depth: int = 3) -> Pair:
    shape = draw(st.sampled_from(["leaf", "array", "nullable", "object"][: 4 if depth else 1]))
    if shape == "leaf":
        return draw(st.sampled_from(LEAVES))
    if shape == "object":
        fields = {f"f{index}": draw(pairs(depth - 1)) for index in range(draw(st.integers(1, 3)))}
        required = draw(st.sets(st.sampled_from(sorted(fields))))
        schema = properties(*sorted(required), **{name: pair[0] for name, pair in fields.items()})
        values = {name: pair[2] if name in required else st.none() | pair[2] for name, pair in fields.items()}
        kind = pa.struct([(name, pair[1]) for name, pair in fields.items()])
        return schema, kind, st.fixed_dictionaries(values)
    schema, kind, values = draw(pairs(depth - 1))
    if shape == "array":
        return {"type": "array", "items": schema}, draw(st.sampled_from([pa.list_, pa.large_list]))(kind), st.lists(
            values, max_size=3
        )  # fmt: skip
    return {draw(st.sampled_from(["oneOf", "anyOf"])): [{"type": "null"}, schema]}, kind, values


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_every_row_is_valid(data: st.DataObject) -> None:
    schema, kind, values = data.draw(pairs())
    rows = data.draw(st.lists(values, min_size=1, max_size=5))
    assert len(encoded(schema, pa.array(rows, kind))) == sum(row is not None for row in rows)


def test_a_null_is_left_out_unless_the_schema_requires_the_property() -> None:
    schema = properties("both", both={"type": ["null", "string"]}, some={"type": "string"})
    kind = pa.struct([("both", pa.string()), ("some", pa.string())])
    rows = encoded(schema, pa.array([{"both": None, "some": None}, {"both": "a", "some": "b"}], kind))
    assert rows == [{"both": None}, {"both": "a", "some": "b"}]


def test_types_that_json_lacks_become_texts() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    kind = pa.struct([("d", pa.date32()), ("t", pa.timestamp("us", "UTC")), ("b", pa.binary())])
    schema = properties(d={"format": "date"}, t={"type": "string", "format": "date-time"}, b={"type": "string"})
    rows = encoded(schema, pa.array([{"d": date(2026, 1, 2), "t": moment, "b": b"a"}], kind))
    assert rows == [{"d": "2026-01-02", "t": "2026-01-02T03:04:05.000Z", "b": "YQ=="}]


def test_references_lead_within_the_schema_and_to_others() -> None:
    tree = {"$ref": "#/$defs/t", "$defs": {"t": properties("n", n={"type": "integer"}, t={"$ref": "#/$defs/t"})}}
    kind = pa.struct([("n", pa.int32()), ("t", pa.struct([("n", pa.int32())]))])
    assert encoded(tree, pa.array([{"n": 1, "t": {"n": 2}}], kind)) == [{"n": 1, "t": {"n": 2}}]
    other = {"definitions": {"a/b": {"type": "array", "items": {"$ref": "#/definitions/s"}}, "s": {"type": "string"}}}
    schema = {"allOf": [properties("x", x={"$ref": "other.json#/definitions/a~1b"})], "title": "X"}
    assert encoded(schema, pa.array([{"x": ["a"]}]), **{"other.json": other}) == [{"x": ["a"]}]
    with pytest.raises(Unfit, match=r"column x\[\] is BIGINT, and the schema has string"):
        json_schema_plan(schemas(schema, **{"other.json": other}), pa.struct([("x", pa.list_(pa.int64()))]), "")


def test_a_property_may_have_a_pattern_or_any_name() -> None:
    schema = {**properties(a={"type": "integer"}), "patternProperties": {"^x_": {"type": "string"}}}
    assert encoded(schema, pa.array([{"a": 1, "x_1": "b"}])) == [{"a": 1, "x_1": "b"}]
    assert encoded({**schema, "additionalProperties": True}, pa.array([{"c": 1}])) == [{"c": 1}]
    assert encoded({"type": "object"}, pa.array([{"c": 1}])) == [{"c": 1}]


A, B, C = {"const": "A", "title": "first"}, {"enum": ["B"], "title": "second"}, {"const": "C"}


@pytest.mark.parametrize("choice", ["oneOf", "anyOf"])
@pytest.mark.parametrize(
    ("branches", "values"),
    [
        ([A, B], ["B", "A"]),
        ([{"type": "null"}, A, B], ["A", None, "B"]),
        ([{"type": "integer"}, {"anyOf": [A, C]}, B], ["A", "B", "C"]),
        ([{"type": "string", "format": "uuid"}, A], ["x"]),
        ([A, {"type": "string", "format": "uuid"}], ["x"]),
    ],
)
def test_a_text_may_be_of_any_branch(choice: str, branches: list[Any], values: list[Any]) -> None:
    schema = properties(n={choice: branches})
    rows = encoded(schema, pa.array([{"n": value} for value in values]))
    assert rows == [{} if value is None else {"n": value} for value in values]
    if "uuid" not in str(branches):
        with pytest.raises(_kafka_arrow.Unencodable) as caught:
            encoded(schema, pa.array([{"n": "A"}, {"n": "D"}]))
        assert caught.value.args == (1, "n", "symbol")


@pytest.mark.parametrize(
    ("branches", "value"),
    [
        ([properties("x", x=A), properties("x", x=B)], {"x": "B"}),
        ([properties("x", x={"type": "string"}), properties(x=A)], {"x": "B"}),
        ([{"type": "array", "items": A}, {"type": "array", "items": B}], ["B"]),
    ],
)
def test_a_choice_whose_branches_judge_a_column_differently_is_refused(branches: list[Any], value: Any) -> None:
    kind = pa.struct([("n", pa.infer_type([value]))])
    with pytest.raises(SchemaUnusable, match=r"the schema has a choice .* column n") as caught:
        json_schema_plan(schemas(properties(n={"anyOf": branches})), kind, "")
    assert "value: json" in caught.value.remedy


def test_a_choice_with_a_branch_that_takes_all_takes_all() -> None:
    inner = properties("x", x=A)
    for branches in ([inner, True], [{"type": "object"}, inner], [inner, {"type": "integer"}, inner]):
        assert encoded(properties(n={"anyOf": branches}), pa.array([{"n": {"x": "A"}}])) == [{"n": {"x": "A"}}]
    assert encoded(properties(n={"anyOf": [inner, {"type": "object"}]}), pa.array([{"n": {"x": "D"}}]))
    numbers = properties(n={"anyOf": [{"type": "integer"}, {"type": "number"}]})
    assert encoded(numbers, pa.array([{"n": 1}])) == [{"n": 1}]


INTEGER, TEXT, NULLABLE = {"type": "integer"}, {"type": "string"}, {"type": ["string", "null"]}


@pytest.mark.parametrize(
    ("schema", "rows", "kind", "says"),
    [
        (properties("n", n=INTEGER), [{"n": 1}, {"n": None}], pa.int32(), (1, "n", "null")),
        (properties(n={"type": "array", "items": TEXT}), [{"n": ["a", None]}], pa.list_(pa.string()),
         (0, "n[]", "null")),
        (properties(n={"type": "object", "additionalProperties": TEXT}), [{"n": [("a", None)]}],
         pa.map_(pa.string(), pa.string()), (0, "n{}", "null")),
        (properties(n={"enum": ["A", None]}), [{"n": "B"}], pa.string(), (0, "n", "symbol")),
        (properties(n={"type": "number"}), [{"n": float("inf")}], pa.float64(), (0, "n", "finite")),
        (properties(n={"type": "number"}), [{"n": float("nan")}], pa.float32(), (0, "n", "finite")),
    ],
)  # fmt: skip
def test_a_value_that_the_schema_cannot_have_is_named(
    schema: Any, rows: list[Any], kind: pa.DataType, says: tuple[int, str, str]
) -> None:
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(schema, pa.array(rows, pa.struct([("n", kind)])))
    assert caught.value.args == says


@pytest.mark.parametrize(
    ("schema", "kind", "text", "remedy"),
    [
        (properties(n=INTEGER), pa.string(), "column n is STRING, and the schema has integer", "CAST(n AS BIGINT)"),
        (properties(n=INTEGER), pa.float64(), "column n is DOUBLE, and the schema has integer", "CAST(n AS BIGINT)"),
        (properties(n=NULLABLE), pa.int32(), "column n is INT, and the schema has string", "CAST(n AS STRING)"),
        (properties(n={"type": "boolean"}), pa.null(), "column n is VOID, and the schema has boolean", "AS BOOLEAN)"),
        (properties(n={**TEXT, "format": "date-time"}), pa.timestamp("us"), "is TIMESTAMP_NTZ, and", "AS TIMESTAMP)"),
        (properties(n={"format": "date"}), pa.binary(), "column n is BINARY, and the schema has string (date)", "DATE"),
        (properties(n=TEXT), pa.struct([("x", pa.int8())]), "column n is STRUCT<x>, and the schema has", "a column of"),
        (properties(m=INTEGER), pa.int32(), "column n has no property in the schema", "additionalProperties: true"),
        (properties("m", n=INTEGER), pa.int32(), "no column m, which the schema requires", "out of required"),
        (properties(n={"anyOf": [INTEGER, {"type": "boolean"}]}), pa.string(), "the schema has a choice", "cast"),
        (properties(n={"oneOf": [{"type": "null"}, INTEGER]}), pa.string(), "and the schema has integer", "AS BIGINT)"),
        (properties(n=False), pa.int32(), "column n is there, and the schema allows none", "leave it out"),
        (properties(n=properties(a=TEXT)), pa.map_(pa.string(), pa.string()), "schema names properties", "a struct"),
        ({"additionalProperties": False}, pa.int32(), "column n has no property in the schema", "leave the column"),
    ],
)  # fmt: skip
def test_a_column_that_does_not_fit_is_refused_with_what_to_do(
    schema: Any, kind: pa.DataType, text: str, remedy: str
) -> None:
    with pytest.raises(Unfit) as caught:
        json_schema_plan(schemas(schema), pa.struct([("n", kind)]), "")
    assert text in caught.value.text
    assert remedy in caught.value.remedy


def test_two_columns_of_a_name_are_refused() -> None:
    with pytest.raises(Unfit, match="column n is there more than once"):
        json_schema_plan(schemas({"type": "object"}), pa.struct([("n", pa.int8()), ("n", pa.int8())]), "")


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"$ref": "other.json"}, r"\$ref 'other.json', and no reference of that name"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"$ref": "#"}, "references in a circle"),
        ({"properties": 7, "allOf": [{}, {}]}, "combines allOf with properties"),
        ({"allOf": [{}, {}]}, "combines allOf with several schemas"),
        ({"anyOf": [7]}, "7 in the place of a schema"),
        ({"type": "array", "items": [{}]}, "a schema for each place"),
    ],
)
def test_what_columns_cannot_be_judged_by_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(SchemaUnusable, match=says) as caught:
        json_schema_plan(schemas(schema), pa.list_(pa.int32()), "")
    assert "value: json" in caught.value.remedy


def test_a_schema_within_itself_takes_columns_of_any_depth() -> None:
    tree = properties(t={"$ref": "#"})
    kind = pa.struct([("t", pa.int32())])
    for _ in range(150):
        kind = pa.struct([("t", kind)])
    with pytest.raises(Unfit, match="which JSON cannot have"):
        json_schema_plan(schemas(tree), kind, "")


@pytest.mark.parametrize(
    "inner",
    [
        {"oneOf": [A, B]},
        {"type": "string", "oneOf": [A, B]},
        {"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^a"}]},
        {"enum": ["A", "B"]},
        A,
    ],
)
def test_a_column_of_another_type_than_the_texts_of_a_choice_is_refused(inner: Any) -> None:
    with pytest.raises(Unfit, match="column n is BIGINT, and the schema has"):
        encoded(properties(n=inner), pa.array([{"n": 5}]))


def test_a_type_beside_a_choice_takes_no_null_that_it_does_not_name() -> None:
    schema = properties("n", n={"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^a"}]})
    with pytest.raises(_kafka_arrow.Unencodable) as caught:
        encoded(schema, pa.array([{"n": "abc"}, {"n": None}]))
    assert caught.value.args == (1, "n", "null")


@pytest.mark.parametrize("other", [
    {"type": "array", "prefixItems": [{"type": "number"}]},
    {"type": "object", "allOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}, {}]},
])  # fmt: skip
def test_a_branch_of_another_type_is_not_judged(other: Any) -> None:
    choice = properties(n={"anyOf": [{"enum": ["A"]}, other]})
    assert encoded(choice, pa.array([{"n": "A"}])) == [{"n": "A"}]
    required = properties("n", n={"anyOf": [{"enum": ["A", None]}, other]})
    assert encoded(required, pa.array([{"n": "A"}, {"n": None}])) == [{"n": "A"}, {"n": None}]


def test_numbers_of_an_enum_are_numbers_of_every_column() -> None:
    for kind in (pa.int8(), pa.float64(), pa.decimal128(3, 0)):
        assert encoded(properties(n={"enum": [1, None]}), pa.array([{"n": 1}], pa.struct([("n", kind)]))) == [{"n": 1}]
