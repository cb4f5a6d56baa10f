"""What a narrow query means: columns of each record, and the condition of the records that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sparkapp.model.encoding.json_columns import JsonType, Kind


class Plain(StrEnum):
    """Types of the source's columns that JSON does not have."""

    BINARY = "BINARY"
    TIMESTAMP = "TIMESTAMP"
    HEADERS = "HEADERS"


SqlType: TypeAlias = JsonType | Plain
STRING, BOOLEAN = JsonType(Kind.STRING), JsonType(Kind.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the source, or a field within it.

    :param column: of the source.
    :param places: of the field in its struct, from the column on.
    """

    column: str
    places: tuple[int, ...]
    type: SqlType


@dataclass(frozen=True, slots=True)
class AsText:
    """``CAST(… AS STRING)`` of bytes, text, whole numbers and booleans; bytes stay as they are."""

    of: Field


@dataclass(frozen=True, slots=True)
class Struct:
    """``struct(…)``: never null.

    :param members: by name, in order.
    """

    members: tuple[tuple[str, Field | AsText], ...]


@dataclass(frozen=True, slots=True)
class AsJson:
    """``to_json(…)``; null of null."""

    of: Field | Struct


Output: TypeAlias = Field | AsText | Struct | AsJson


class Operator(StrEnum):
    """How two values are compared; another of Spark's is a negation of one of these."""

    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Compared:
    """Two values of the same type: null if one of them is null.

    :param right: a literal has the type of the field.
    """

    operator: Operator
    left: Field | AsText
    right: Field | AsText | str | int | float | bool


@dataclass(frozen=True, slots=True)
class Among:
    """``IN`` of literals: null if the value is null.

    :param literals: at least two, in the type of the value.
    """

    of: Field | AsText
    literals: tuple[str | int | float | bool, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Never null."""

    of: Field


@dataclass(frozen=True, slots=True)
class Flag:
    """A field of BOOLEAN."""

    of: Field


@dataclass(frozen=True, slots=True)
class Negated:
    """Null if the condition is null."""

    of: Condition


@dataclass(frozen=True, slots=True)
class Joined:
    """AND or OR of conditions, in SQL's logic of three values."""

    is_and: bool
    of: tuple[Condition, ...]


Condition: TypeAlias = Compared | Among | IsNull | Flag | Negated | Joined


@dataclass(frozen=True, slots=True)
class NarrowQuery:
    """A query whose rows each are of a single record.

    :param outputs: by name, in order.
    :param condition: None where all records are kept.
    """

    outputs: tuple[tuple[str, Output], ...]
    condition: Condition | None

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the source that it uses."""
        found = {field.column for _, output in self.outputs for field in _fields_of(output)}
        if self.condition is not None:
            found |= {field.column for field in _fields_in(self.condition)}
        return frozenset(found)


def _fields_of(output: Output | str | float | bool) -> Iterator[Field]:
    if isinstance(output, Field):
        yield output
    elif isinstance(output, AsText):
        yield output.of
    elif isinstance(output, AsJson):
        yield from _fields_of(output.of)
    elif isinstance(output, Struct):
        for _, member in output.members:
            yield from _fields_of(member)


def _fields_in(condition: Condition) -> Iterator[Field]:
    if isinstance(condition, Joined):
        for part in condition.of:
            yield from _fields_in(part)
    elif isinstance(condition, Negated):
        yield from _fields_in(condition.of)
    elif isinstance(condition, Compared):
        yield from _fields_of(condition.left)
        yield from _fields_of(condition.right)
    elif isinstance(condition, Among):
        yield from _fields_of(condition.of)
    else:
        yield condition.of
