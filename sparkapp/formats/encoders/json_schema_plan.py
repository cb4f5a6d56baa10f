"""JSON of a column by a JSON Schema: names, types and nulls are judged by the schema, the text is that of JSON.

The plan is :func:`.json_plan.json_plan`'s, with what the schema says about nulls and symbols. Keywords about a value
alone, as ``minimum`` and ``pattern``, are not judged: no type of a column can promise them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sparkapp.formats.encoders.json_plan import json_plan
from sparkapp.formats.encoders.plan import MAX_DEPTH, Node, Unfit, inner_path, spark_name
from sparkapp.formats.json_schemas import CHOICES, JsonSchema, Schemas, Shown

_LEFT_OUT, _WRITTEN, _REFUSED = -1, 0, -2
"""What becomes of a null, as ``ext/encode/json.c`` reads it."""
_FINITE = 0
_TEXTS = (pa.string(), pa.large_string())
_CASTS = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_FORMS = {"date": "DATE", "date-time": "TIMESTAMP"}
_SYMBOLS: Mapping[type, str] = {
    str: "string", bool: "boolean", int: "number", float: "number", type(None): "null", dict: "object", list: "array",
}  # fmt: skip
"""The type of a value of an ``enum``. A whole number is one of a column with a fraction, too."""


def json_schema_plan(schemas: Schemas, kind: pa.DataType, path: str) -> Node:
    """The plan of a column.

    :param path: of the column; empty for a record of several columns.
    :raises Unfit: the column does not fit the schema.
    :raises SchemaUnusable: the schema has a combination of schemas that columns cannot be judged by.
    """
    return _Planner(schemas).of(schemas.main, json_plan(kind, path), kind, path, 0)


class _Planner:
    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas

    def of(self, at: Shown, node: Node, kind: pa.DataType, path: str, depth: int) -> Node:
        """The node with what the schema says; ``node`` is of the column alone."""
        if depth > MAX_DEPTH:
            raise Unfit(f"column {path} is nested more than {MAX_DEPTH} times", "return a column with fewer levels")
        at = self._schemas.resolved(at)
        if at.schema is True:
            return node
        if at.schema is False:
            raise Unfit(f"column {path or 'value'} is there, and the schema allows none", "leave it out of the result")
        # The type comes first, also next to a choice: what no value of the column can meet is not judged.
        types = _types(at.schema)
        name = "null" if kind == pa.null() else self._type_of(kind, types, at.schema)
        if name is None or (types and name not in types):
            raise self._unfit(at.schema, types, kind, path)
        branches = self._schemas.branches(at)
        if branches:
            return self._of_branches(branches, node, kind, path, depth)
        if name == "object":
            return self._object(at, node, kind, path, depth)
        if isinstance(kind, pa.ListType | pa.LargeListType):
            return node._replace(children=(self._item(at, node.children[0], kind.value_type, path, depth),))
        if name == "number" and node.write in ("float", "double"):
            return node._replace(number=_FINITE)
        return _with_symbols(at.schema, node) if node.write == "text" else node

    def takes_null(self, at: Shown) -> bool:
        """Whether a null is valid."""
        at = self._schemas.resolved(at)
        if isinstance(at.schema, bool):
            return at.schema
        types, symbols = _types(at.schema), _symbols(at.schema)
        if (types and "null" not in types) or (symbols is not None and None not in symbols):
            return False
        branches = self._schemas.branches(at)
        return not branches or any(self.takes_null(branch) for branch in branches)

    def _of_branches(self, branches: list[Shown], node: Node, kind: pa.DataType, path: str, depth: int) -> Node:
        """The plan of what any branch takes. A ``oneOf`` is judged as an ``anyOf``: what two branches share depends on
        keywords about the value, which are not judged."""
        refusals: list[Unfit] = []
        plans: list[Node] = []
        for branch in branches:
            try:
                plans.append(self.of(branch, node, kind, path, depth))
            except Unfit as unfit:
                if _types(self._schemas.resolved(branch).schema) != ("null",):
                    refusals.append(unfit)
                continue
            if plans[-1] == node:
                return node
        if plans:
            return self._united(plans, path)
        if len(refusals) == 1:
            raise refusals[0]
        text = f"column {path or 'value'} is {spark_name(kind)}, and the schema has a choice of other types"
        raise Unfit(text, "cast the column to a type of the choice")

    def _united(self, plans: list[Node], path: str) -> Node:
        first = plans[0]
        if all(plan.write == "symbol" for plan in plans):
            symbols = dict.fromkeys(symbol for plan in plans for symbol in plan.children)
            return first._replace(children=tuple(symbols))
        if any(plan != first for plan in plans):
            what = f"has a choice with several branches for column {path or 'value'}, which take different values"
            raise self._schemas.refused(what)
        return first

    @staticmethod
    def _type_of(kind: pa.DataType, types: tuple[str, ...], schema: Mapping[str, Any]) -> str | None:
        """The type of JSON that a column becomes; None where its text is not in the schema's form."""
        if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
            return "number" if types and "integer" not in types else "integer"
        for is_kind, name in (
            (pa.types.is_boolean, "boolean"), (pa.types.is_floating, "number"), (pa.types.is_decimal, "number"),
            (pa.types.is_struct, "object"), (pa.types.is_map, "object"), (pa.types.is_list, "array"),
            (pa.types.is_large_list, "array"),
        ):  # fmt: skip
            if is_kind(kind):
                return name
        form = schema.get("format")
        written = "date" if pa.types.is_date(kind) else None
        if pa.types.is_timestamp(kind) and kind.tz:
            written = "date-time"
        return "string" if kind in _TEXTS or form is None or form == written else None

    def _object(self, at: Shown, node: Node, kind: pa.DataType, path: str, depth: int) -> Node:
        required = frozenset(at.schema.get("required", ()))
        if pa.types.is_map(kind):
            if required or at.schema.get("properties"):
                text = f"column {path or 'value'} is {spark_name(kind)}, and the schema names properties"
                raise Unfit(text, "return a struct with these properties as its fields")
            key, value = node.children
            return node._replace(children=(key, self._other(at, value, kind.item_type, f"{path}{{}}", depth)))
        fields = list(kind) if isinstance(kind, pa.StructType) else []
        names = [field.name for field in fields]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise Unfit(f"column {inner_path(path, min(twice))} is there more than once", "return each column once")
        missing = required - set(names)
        if missing:
            text = f"no column {inner_path(path, min(missing))}, which the schema requires"
            raise Unfit(text, "return the column, or take it out of required in the schema")
        children = []
        for field, child in zip(fields, node.children, strict=True):
            inside = inner_path(path, field.name)
            found = self._property(at, field.name)
            made = (
                self.of(found, child, field.type, inside, depth + 1) if found is not None
                else self._other(at, child, field.type, inside, depth)
            )  # fmt: skip
            if field.name in required:
                takes_null = self.takes_null(found) if found is not None else made.null_branch != _REFUSED
                made = made._replace(null_branch=_WRITTEN if takes_null else _REFUSED)
            else:
                made = made._replace(null_branch=_LEFT_OUT)
            children.append(made)
        return node._replace(children=tuple(children))

    def _property(self, at: Shown, name: str) -> Shown | None:
        properties = at.schema.get("properties", {})
        if name in properties:
            return at.inner(properties[name])
        for pattern, schema in at.schema.get("patternProperties", {}).items():
            if re.search(pattern, name):
                return at.inner(schema)
        return None

    def _other(self, at: Shown, node: Node, kind: pa.DataType, path: str, depth: int) -> Node:
        """A property that the schema does not name: a key of a map, or a column."""
        is_named = bool(at.schema.get("properties") or at.schema.get("patternProperties"))
        others = at.schema.get("additionalProperties", not is_named)
        if others is False:
            raise Unfit(
                f"column {path} has no property in the schema",
                "leave the column out of the result, or add the property to the schema, or additionalProperties: true",
            )
        inner = at.inner(others)
        made = self.of(inner, node, kind, path, depth + 1)
        return made._replace(null_branch=_LEFT_OUT if self.takes_null(inner) else _REFUSED)

    def _item(self, at: Shown, node: Node, kind: pa.DataType, path: str, depth: int) -> Node:
        inner = at.inner(at.schema.get("items", True))
        made = self.of(inner, node, kind, f"{path}[]", depth + 1)
        return made._replace(null_branch=_LEFT_OUT if self.takes_null(inner) else _REFUSED)

    @staticmethod
    def _unfit(schema: Mapping[str, Any], types: tuple[str, ...], kind: pa.DataType, path: str) -> Unfit:
        form = schema.get("format")
        wanted = [name for name in types if name != "null"] or ["string"]
        shown = f"{' or '.join(wanted)}{f' ({form})' if form else ''}"
        target = _FORMS.get(str(form), _CASTS.get(wanted[0], ""))
        remedy = (
            f"cast it in the transform: CAST({path or 'value'} AS {target}), or write with another schema"
            if target and not pa.types.is_nested(kind)
            else f"return a column of the schema's type {wanted[0]}, or write with another schema"
        )
        return Unfit(f"column {path or 'value'} is {spark_name(kind)}, and the schema has {shown}", remedy)


def _types(schema: JsonSchema) -> tuple[str, ...]:
    """The types that a schema names; none where it takes all."""
    if isinstance(schema, bool):
        return ()
    given = schema.get("type")
    if given is not None:
        return (given,) if isinstance(given, str) else tuple(given)
    symbols = _symbols(schema)
    if symbols is not None:
        return tuple(dict.fromkeys(_SYMBOLS[type(symbol)] for symbol in symbols))
    is_object = ("properties" in schema or "required" in schema) and not CHOICES & set(schema)
    return ("object",) if is_object else ()


def _symbols(schema: Mapping[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    found = schema.get("enum")
    return list(found) if isinstance(found, list) else None


def _with_symbols(schema: Mapping[str, Any], node: Node) -> Node:
    """Only texts of an ``enum`` are judged for each value."""
    symbols = _symbols(schema)
    if symbols is None:
        return node
    texts = [symbol.encode() for symbol in symbols if isinstance(symbol, str)]
    return node._replace(write="symbol", children=tuple(Node("constant", "none", text=text) for text in texts))
