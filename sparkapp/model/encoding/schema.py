"""What a dataclass says about its fields in a custom resource: where a field is, what it takes, and what it is for.

The dataclasses are the only description of the resource. :mod:`sparkapp.model.encoding.resource` reads a resource by
them. The CustomResourceDefinition and the field reference are generated from them (``make generate``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from enum import Enum, auto
from typing import Any, NewType, TypeVar, dataclass_transform

from sparkapp.model.encoding.fields import Fields

Reader = Callable[[Fields, str], Any]
"""Reads one field by itself: the object that has the field, and the field's name in the resource."""
Part = TypeVar("Part")
Form = Mapping[str, Any]
"""Keywords of an OpenAPI schema, which the API server enforces."""
Quantity = NewType("Quantity", str)
"""The type of a quantity of Kubernetes, which a resource may also write as a whole number."""
IntOrString = NewType("IntOrString", str)
"""The type of a whole number that a resource may replace by a word; a reader of its own says which."""

KEY = "resource"
"""Key of a field's metadata."""
NO_DEFAULT: Any = object()
VALIDATIONS = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in CEL.

    :param expression: over ``self``; true where the rule holds.
    :param message: of the API server where it does not hold.
    """

    expression: str
    message: str


@dataclass(frozen=True, slots=True)
class ObjectRule(Rule):
    """A rule between the fields of an object.

    :param where: paths of the objects below ``spec``, with ``[]`` for the items of a list; empty for ``spec`` itself.
    :param by_server: only the API server evaluates the expression. It compares with the previous object, or matches an
        expression of the user, or a module of the operator says more.
    """

    where: tuple[str, ...] = ("",)
    by_server: bool = False


class ObjectDefault(Enum):
    """The default of an object in the definition. No required object and no optional dataclass has a default."""

    EMPTY = auto()
    """An empty object, which the API server fills with the defaults of its fields."""
    SPELLED = auto()
    """All defaults of its fields. The API server judges the rules of an object before it fills an empty default."""
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Described:
    """An object of the resource that has no dataclass of its own: its fields have paths below it."""

    text: str
    default: ObjectDefault = ObjectDefault.EMPTY


@dataclass(frozen=True, slots=True)
class Metadata:
    """Metadata of a dataclass field; :func:`metadata` has the parameters."""

    text: str = ""
    path: str = ""
    low: int | None = None
    high: int | None = None
    is_long: bool = False
    absent: Any = NO_DEFAULT
    required: bool = False
    is_shown: bool = True
    is_hidden: bool = False
    reader: Reader | None = None
    kind: Any = None
    form: Form = field(default_factory=dict)
    each: Form = field(default_factory=dict)
    object_default: ObjectDefault = ObjectDefault.EMPTY


def metadata(
    text: str = "",
    *,
    path: str = "",
    low: int | None = None,
    high: int | None = None,
    is_long: bool = False,
    absent: Any = NO_DEFAULT,
    required: bool = False,
    is_shown: bool = True,
    reader: Reader | None = None,
    kind: Any = None,
    form: Form | None = None,
    each: Form | None = None,
    object_default: ObjectDefault = ObjectDefault.EMPTY,
) -> Mapping[str, Any]:
    """Metadata of fields; :func:`at` is for a field that has it alone.

    :param text: description of the field, with its unit.
    :param path: below the object of the dataclass, with dots; by default the field's name in camelCase. ``"."`` reads
        a nested dataclass from the same object.
    :param low: the smallest whole number. :param high: the largest.
    :param is_long: the number may need 64 bits.
    :param absent: the resource's default, where it is not the field's. The field's own default is the
        meaning of a description that another release's operator wrote. None for an object that need not be there.
    :param required: the last object of the path needs the field, wherever the resource has that object.
    :param is_shown: False where another field decides the default, so that the definition has none.
    :param reader: replaces the rule for the field's type.
    :param kind: the type in the resource, where ``reader`` returns another.
    :param form: further keywords of the schema. :param each: keywords of the items of a list, or the values of a map.
    """
    return {
        KEY: Metadata(
            text=text, path=path, low=low, high=high, is_long=is_long, absent=absent, required=required,
            is_shown=is_shown, reader=reader, kind=kind, form=form or {}, each=each or {},
            object_default=object_default,
        )
    }  # fmt: skip


def at(text: str = "", *, default: Any = MISSING, default_factory: Any = MISSING, **keywords: Any) -> Any:
    """A field of a part: ``retries: int = at("Number of retries.", default=5, low=2)``.

    :param default: what a description that does not name the field means. Without it the resource needs the field.
    :param keywords: of :func:`metadata`.
    """
    about = metadata(text, **keywords)
    if default_factory is not MISSING:
        return field(default_factory=default_factory, metadata=about)
    return field(metadata=about) if default is MISSING else field(default=default, metadata=about)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(at, field))
def part(kind: type[Part]) -> type[Part]:
    """Makes a class a dataclass whose fields are described by :func:`at`."""
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)


HIDDEN: Mapping[str, Any] = {KEY: Metadata(is_hidden=True)}
"""Metadata of a field that no resource has."""


def text_of(least: int, most: int, *rules: Rule, pattern: str = "") -> Form:
    """The form of a text: characters, a regular expression in RE2, and rules of its own."""
    bounds = {"minLength": least} if least else {}
    return {**bounds, "maxLength": most, **({"pattern": pattern} if pattern else {}), **held_by(*rules)}


def items_of(least: int, most: int, *, keys: tuple[str, ...] = (), is_set: bool = False) -> Form:
    """The form of a list: how many items, and the fields that identify an item (``keys``), or the item itself."""
    bounds = {"minItems": least} if least else {}
    kind = {"x-kubernetes-list-type": "set"} if is_set else {}
    named = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)} if keys else {}
    return {**bounds, "maxItems": most, **kind, **named}


def entries_of(most: int) -> Form:
    """The form of a map: how many entries."""
    return {"maxProperties": most}


def held_by(*rules: Rule) -> Form:
    """The form of a value that rules in CEL hold."""
    return {VALIDATIONS: [{"rule": rule.expression, "message": rule.message} for rule in rules]} if rules else {}


def metadata_of(of_field: Mapping[str, Any]) -> Metadata:
    """The metadata of a field; called by the reader and by the generator."""
    found = of_field.get(KEY)
    return found if isinstance(found, Metadata) else Metadata()


def resource_name(name: str) -> str:
    """The name of a field in the resource: ``on_data_loss`` is ``onDataLoss``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
