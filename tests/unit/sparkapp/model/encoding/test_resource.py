"""Dataclasses read from a resource: each type of field, and each thing that metadata can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

import pytest

from sparkapp.model.encoding.fields import Fields
from sparkapp.model.encoding.resource import read_part
from sparkapp.model.encoding.schema import HIDDEN, Quantity, at, part
from sparkapp.model.errors import ConfigurationError


class Colour(StrEnum):
    RED = "Red"
    BLUE = "Blue"


@part
class Inner:
    count: int = at(path="deep.count", default=3, low=1, required=True)
    colour: Colour = at(absent=Colour.BLUE)


@part
class Item:
    numbers: tuple[int, ...]
    size: Quantity = Quantity("1Gi")


@part
class Whole:
    needed_name: str
    max_rate: int = at(default=0, low=0, high=9)
    enabled: bool = False
    names: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    time: int | None = at(default=None, low=0)
    inner: Inner
    flat: Inner = at(path=".")
    maybe: Inner | None = None
    twice: int = at(path="max.twice", default=0, reader=lambda body, name: 2 * body.integer(name, 0))
    items: tuple[Item, ...] = ()
    rest: Mapping[str, Any] = field(default_factory=dict)
    directory: str = field(default="/mounted", metadata=HIDDEN)


def read(**body: Any) -> Whole:
    return read_part(Whole, Fields({"neededName": "a", **body}, "spec"))


def test_what_is_absent_has_its_default() -> None:
    default = Inner(colour=Colour.BLUE)
    assert read() == Whole(needed_name="a", inner=default, flat=default)


def test_every_type_is_read_from_its_place() -> None:
    found = read(
        maxRate=7, enabled=True, names=["x"], properties={"a": "b"}, time=0, colour="Red", deep={"count": 4},
        inner={"deep": {"count": 5}}, maybe={"colour": "Red"}, max={"twice": 4},
        items=[{"numbers": [0, 1], "size": 5}], rest={"any": {"thing": 1}}, directory="/elsewhere",
    )  # fmt: skip
    assert found == Whole(
        needed_name="a", max_rate=7, enabled=True, names=("x",), properties={"a": "b"}, time=0,
        inner=Inner(count=5, colour=Colour.BLUE), flat=Inner(count=4, colour=Colour.RED),
        maybe=Inner(colour=Colour.RED), twice=8, items=(Item(numbers=(0, 1), size=Quantity("5")),),
        rest={"any": {"thing": 1}},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"neededName": None}, "spec.neededName is missing"),
        ({"maxRate": -1}, "spec.maxRate must be a whole number of at least 0"),
        ({"maxRate": 10}, "spec.maxRate must be a whole number of at most 9, not 10"),
        ({"items": [{"numbers": [1]}, {"numbers": [True]}]}, "spec.items[1].numbers must be a list of whole numbers"),
        ({"items": [{"numbers": []}]}, "spec.items[0].numbers must be a list of whole numbers of at least 0"),
        ({"time": -1}, "spec.time must be a whole number of at least 0"),
        ({"inner": {"colour": "Green"}}, "spec.inner.colour must be one of Red, Blue, not 'Green'"),
        ({"inner": {"deep": {"cuont": 1}}}, "spec.inner.deep.count is missing"),
        ({"maybe": 7}, "spec.maybe must be an object"),
        ({"names": "x"}, "spec.names must be a list of strings"),
    ],
)
def test_a_refusal_names_the_field(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(**body)
    assert message in caught.value.message
