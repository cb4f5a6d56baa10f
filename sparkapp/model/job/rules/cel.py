"""Rules in CEL, evaluated as the API server does: the operator and the driver check by the text of the definition.

This is the part of CEL that the rules between fields use. An expression with anything else is refused when it is read,
above all ``matches``: an expression of a user never reaches an engine that backtracks.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Scope = Mapping[str, Any]
"""The values of names: ``self``, and the variables of macros."""
Evaluated = Callable[[Scope], Any]

_TOKEN = re.compile(r"\s*(\d+|'[^']*'|[A-Za-z_]\w*|\|\||&&|[=!<>]=|[-+*!<>?:.,()\[\]])")
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "in": lambda item, items: item in items,
}  # fmt: skip
_MACROS: Mapping[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "all": lambda items, holds: all(map(holds, items)),
    "exists": lambda items, holds: any(map(holds, items)),
    "filter": lambda items, holds: [item for item in items if holds(item)],
}
_METHODS: Mapping[str, Callable[..., Any]] = {"size": len, "startsWith": str.startswith}


@cache
def compiled(expression: str) -> Evaluated:
    """Reads an expression once.

    :raises ValueError: it uses something that is not supported here.
    """
    parser = _Parser(expression)
    result = parser.ternary()
    parser.expect("")
    return result


def holds(expression: str, value: Any) -> bool:
    """Whether a rule holds for an object of a resource.

    :param value: with the defaults of all fields; a field that is absent has no key.
    """
    return compiled(expression)({"self": value}) is True


class _Parser:
    """Recursive descent, a method for each precedence."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = []
        end = 0
        while found := _TOKEN.match(text, end):
            self._tokens.append(found[1])
            end = found.end()
        if text[end:].strip():
            self._refuse(text[end:])
        self._tokens.append("")
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, part: str) -> bool:
        if self._next != part:
            return False
        self._at += 1
        return True

    def expect(self, part: str) -> None:
        """:raises ValueError: another part is next."""
        if not self._accept(part):
            self._refuse(self._next)

    def _refuse(self, part: str) -> None:
        msg = f"{part!r} is not supported in {self._text!r}"
        raise ValueError(msg)

    def ternary(self) -> Evaluated:
        """A whole expression."""
        condition = self._or()
        if not self._accept("?"):
            return condition
        first = self.ternary()
        self.expect(":")
        second = self.ternary()
        return lambda scope: first(scope) if condition(scope) else second(scope)

    def _or(self) -> Evaluated:
        parts = [self._and()]
        while self._accept("||"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda scope: any(part(scope) for part in parts)

    def _and(self) -> Evaluated:
        parts = [self._comparison()]
        while self._accept("&&"):
            parts.append(self._comparison())
        return parts[0] if len(parts) == 1 else lambda scope: all(part(scope) for part in parts)

    def _comparison(self) -> Evaluated:
        left = self._product()
        if self._next not in _COMPARISONS:
            return left
        compare, right = _COMPARISONS[self._take()], self._product()
        return lambda scope: compare(left(scope), right(scope))

    def _product(self) -> Evaluated:
        left = self._unary()
        if not self._accept("*"):
            return left
        right = self._unary()
        return lambda scope: left(scope) * right(scope)

    def _unary(self) -> Evaluated:
        if not self._accept("!"):
            return self._member()
        value = self._unary()
        return lambda scope: not value(scope)

    def _member(self) -> Evaluated:
        value = self._primary()
        while self._accept("."):
            name = self._take()
            value = self._call(value, name) if self._accept("(") else _field(value, name)
        return value

    def _call(self, value: Evaluated, name: str) -> Evaluated:
        """A macro or a method; the bracket is read."""
        if name in _MACROS:
            macro, variable = _MACROS[name], self._take()
            self.expect(",")
            body = self.ternary()
            self.expect(")")
            return lambda scope: macro(value(scope), lambda item: body({**scope, variable: item}))
        if name not in _METHODS:
            self._refuse(name)
        method, arguments = _METHODS[name], self._arguments(")")
        return lambda scope: method(value(scope), *(argument(scope) for argument in arguments))

    def _arguments(self, end: str) -> list[Evaluated]:
        found: list[Evaluated] = []
        while not self._accept(end):
            found.append(self.ternary())
            if self._next != end:
                self.expect(",")
        return found

    def _primary(self) -> Evaluated:
        part = self._take()
        if part.isdigit() or part.startswith("'"):
            literal: object = int(part) if part.isdigit() else part[1:-1]
            return lambda scope: literal
        if part == "(":
            inner = self.ternary()
            self.expect(")")
            return inner
        if part == "[":
            items = self._arguments("]")
            return lambda scope: [item(scope) for item in items]
        if part == "has" and self._accept("("):
            return self._has()
        if not part.isidentifier():
            self._refuse(part)
        return lambda scope: scope[part]

    def _has(self) -> Evaluated:
        """``has(a.b.c)``: whether the object ``a.b`` has a field ``c``."""
        steps = [self._take()]
        while self._accept("."):
            steps.append(self._take())
        self.expect(")")
        root, *parents, last = steps

        def has(scope: Scope) -> bool:
            value = scope[root]
            for parent in parents:
                value = value[parent]
            return last in value

        return has


def _field(value: Evaluated, name: str) -> Evaluated:
    return lambda scope: value(scope)[name]
