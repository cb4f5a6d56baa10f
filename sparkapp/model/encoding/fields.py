"""Typed access to the camelCase fields of a resource, with errors that name the path."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from sparkapp.model.errors import ConfigurationError

Choice = TypeVar("Choice", bound=StrEnum)
Items = TypeVar("Items", bound=Sized)


class Fields:
    """One object of a resource; absent objects read as empty.

    :raises ConfigurationError: from every accessor, naming the path and what it takes.
    """

    def __init__(self, body: object, path: str) -> None:
        if body is None:
            body = {}
        if not isinstance(body, Mapping):
            msg = f"{path} must be an object, not {body!r}"
            raise ConfigurationError(msg)
        self._body: Mapping[str, Any] = body
        self.path = path

    @property
    def empty(self) -> bool:
        return not self._body

    def has(self, name: str) -> bool:
        """True where the object has the field, and not as null."""
        return self._body.get(name) is not None

    def child(self, name: str) -> Fields:
        return Fields(self._body.get(name), f"{self.path}.{name}")

    def string(self, name: str, default: str | None = None) -> str:
        """A string; without a default it is required and must not be empty."""
        value = self._body.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value):
            self._refuse(name, "a string that is not empty" if default is None else "a string", value)
        return value

    def integer(self, name: str, default: int | None = None, *, low: int | None = None, high: int | None = None) -> int:
        """A whole number; without a default it is required."""
        value = self._body.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not int or (low is not None and value < low):
            self._refuse(name, "a whole number" + (f" of at least {low}" if low is not None else ""), value)
        if high is not None and value > high:
            self._refuse(name, f"a whole number of at most {high}", value)
        return value

    def quantity(self, name: str, default: str) -> str:
        """A quantity of Kubernetes as text, which a resource may also write as a whole number."""
        value = self._body.get(name)
        if value is None:
            return default
        if type(value) is not int and not isinstance(value, str):
            self._refuse(name, "a quantity: a string or a whole number", value)
        return str(value)

    def int_or_string(self, name: str) -> str:
        """A whole number or a word, as text; empty where it is absent."""
        value = self._body.get(name)
        if value is None:
            return ""
        if type(value) is not int and not isinstance(value, str):
            self._refuse(name, "a word or a whole number", value)
        return str(value)

    def boolean(self, name: str, default: bool) -> bool:
        value = self._body.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._refuse(name, "true or false", value)
        return value

    def choice(self, name: str, kind: type[Choice], default: Choice | None = None) -> Choice:
        """A member of an enumeration; without a default it is required."""
        value = self._body.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or value not in list(kind):
            self._refuse(name, "one of " + ", ".join(kind), value)
        return kind(value)

    def strings(self, name: str) -> list[str]:
        value = self._body.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            self._refuse(name, "a list of strings", value)
        return list(value)

    def integers(self, name: str, *, low: int = 0) -> list[int]:
        """A list of whole numbers; it is required, and not empty."""
        value = self._body.get(name)
        if not isinstance(value, list) or not value or not all(type(item) is int and item >= low for item in value):
            self._refuse(name, f"a list of whole numbers of at least {low}, for instance [{low}, {low + 1}]", value)
        return list(value)

    def objects(self, name: str) -> list[Mapping[str, Any]]:
        value = self._body.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
            self._refuse(name, "a list of objects", value)
        return list(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object whose fields the caller checks itself; empty where it is absent."""
        value = self._body.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._refuse(name, "an object", value)
        return value

    def string_map(self, name: str) -> dict[str, str]:
        value = self._body.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(
            isinstance(key, str) and isinstance(item, str) for key, item in value.items()
        ):
            self._refuse(name, "an object of strings (write numbers and booleans in quotes)", value)
        return dict(value)

    def at_most(self, most: int | None, name: str, items: Items) -> Items:
        """The items of a list that has been read.

        :param most: None for no limit.
        """
        if most is not None and len(items) > most:
            self._refuse(name, f"a list of at most {most} items", f"{len(items)} items")
        return items

    def _refuse(self, name: str, wanted: str, value: object) -> NoReturn:
        if value is None:
            msg = f"{self.path}.{name} is missing: it must be {wanted}"
        else:
            msg = f"{self.path}.{name} must be {wanted}, not {value!r}"
        raise ConfigurationError(msg)
