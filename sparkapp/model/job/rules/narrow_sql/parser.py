"""Reads ``transform.sql`` as a narrow query, or says what in it needs a plan of Spark.

A query is narrow where its meaning is certain without Spark's analyzer. So names have the case of the schema, and no
value is converted for a comparison but a literal. All else is Spark's to understand, and its errors are Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from sparkapp.model.encoding.json_columns import JsonType
from sparkapp.model.encoding.json_columns import Kind as Type
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.job.rules.narrow_sql.plan import (
    BOOLEAN,
    STRING,
    Among,
    AsJson,
    AsText,
    Compared,
    Condition,
    Field,
    Flag,
    IsNull,
    Joined,
    NarrowQuery,
    Negated,
    Operator,
    Output,
    Plain,
    SqlType,
    Struct,
)
from sparkapp.model.job.rules.narrow_sql.tokens import Kind, Token, tokens_of

INTEGERS = frozenset({Type.TINYINT, Type.SMALLINT, Type.INT, Type.BIGINT})
_VIEW = "source"
_MAX_DIGITS = 30
"""Of a literal; Spark has 38, and refuses more."""
_MAX_DEPTH = 50
_OPERATORS = {"=": Operator.EQUAL, "==": Operator.EQUAL, **{sign.value: sign for sign in Operator}}
_MIRRORED = {
    Operator.LESS: Operator.GREATER, Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS, Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}  # fmt: skip
_RESERVED = (
    "SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "IS", "IN", "BETWEEN", "AS", "NULL", "TRUE", "FALSE", "CASE",
    # Operators: FROM is a name behind them in Spark's grammar.
    "LIKE", "ILIKE", "RLIKE", "REGEXP", "COLLATE", "DIV",
)  # fmt: skip
_SHOWN = 100
_Value = Field | AsText
_Literal = str | int | float | bool


class _Number(str):
    """Digits of a literal, whose type is that of the field that it is compared with."""

    __slots__ = ()


def parse_narrow(query: str, columns: Mapping[str, SqlType]) -> NarrowQuery:
    """The meaning of a query; called through :func:`sparkapp.model.job.rules.narrow_sql.query.narrow_query`.

    :param columns: of the view ``source``, in its order.
    :raises InvalidArgument: with what the query has and a narrow query has not.
    """
    return _Parser(tokens_of(query), columns).query()


class _Parser:
    def __init__(self, tokens: list[Token], columns: Mapping[str, SqlType]) -> None:
        self._tokens = tokens
        self._columns = columns
        self._at = 0

    def query(self) -> NarrowQuery:
        self._keyword("SELECT")
        outputs: list[tuple[str, Output]] = []
        while True:
            outputs += self._item()
            if not self._takes(","):
                break
        self._keyword("FROM")
        view = self._next()
        if view.kind not in (Kind.NAME, Kind.QUOTED_NAME) or view.text.casefold() != _VIEW:
            _refuse(f"FROM {view.text}")
        condition = None
        if self._peek().is_keyword("WHERE"):
            self._next()
            condition = self._any_of(0)
        while self._takes(";"):
            pass
        if self._peek().kind is not Kind.END:
            _refuse(self._peek().text)
        names = [name.casefold() for name, _ in outputs if name]
        if len(set(names)) < len(names):
            _refuse("a name that is there twice")
        return NarrowQuery(tuple((name, output) for name, output in outputs if name), condition)

    # -- outputs --------------------------------------------------------------------------------------------------

    def _item(self) -> list[tuple[str, Output]]:
        if self._takes("*"):
            return [(name, Field(name, (), kind)) for name, kind in self._columns.items()]
        name, output = self._output()
        alias = self._alias()
        if not (alias or name):
            _refuse("a function without AS")
        return [(alias or name, output)]

    def _output(self) -> tuple[str, Output]:
        """An expression and its name, which only a field has."""
        if self._is_function("TO_JSON"):
            return "", self._to_json()
        if self._is_function("STRUCT"):
            return "", self._struct()
        return self._cast_or_field()

    def _alias(self) -> str:
        token = self._peek()
        if token.is_keyword("AS"):
            self._next()
            token = self._next()
            if token.kind not in (Kind.NAME, Kind.QUOTED_NAME):
                _refuse(f"AS {token.text}")
            return token.text
        if token.kind is Kind.QUOTED_NAME or (token.kind is Kind.NAME and not token.is_keyword(*_RESERVED)):
            return self._next().text
        return ""

    def _to_json(self) -> AsJson:
        self._open()
        if self._is_function("STRUCT"):
            found = AsJson(self._struct())
            self._close()
            return found
        _, field = self._field()
        self._close()
        if not (isinstance(field.type, JsonType) and field.type.kind in (Type.STRUCT, Type.ARRAY)):
            _refuse("to_json of a column that is no struct")
        return AsJson(field)

    def _struct(self) -> Struct:
        self._open()
        members: list[tuple[str, Field | AsText]] = []
        while True:
            name, output = self._cast_or_field()
            name = self._alias() or name
            if not name:
                _refuse("a function without AS")
            members.append((name, output))
            if not self._takes(","):
                break
        self._close()
        if len({name.casefold() for name, _ in members}) < len(members):
            _refuse("a name that is there twice")
        return Struct(tuple(members))

    def _cast_or_field(self) -> tuple[str, Field | AsText]:
        return ("", self._cast()) if self._is_function("CAST") else self._field()

    def _cast(self) -> AsText:
        self._open()
        _, field = self._field()
        self._keyword("AS")
        self._keyword("STRING")
        self._close()
        if not becomes_text(field.type):
            _refuse(f"CAST of {name_of(field.type)}")
        return AsText(field)

    def _field(self) -> tuple[str, Field]:
        token = self._next()
        if token.kind not in (Kind.NAME, Kind.QUOTED_NAME) or token.is_keyword(*_RESERVED) or self._peek().is_sign("("):
            _refuse(f"{token.text}()" if self._peek().is_sign("(") else token.text)
        kind = self._columns.get(token.text)
        if kind is None:
            _refuse(f"the name {token.text!r}")
        name, column = token.text, token.text
        places: list[int] = []
        while self._takes("."):
            token = self._next()
            if token.kind not in (Kind.NAME, Kind.QUOTED_NAME):
                _refuse(f"{name}.{token.text}")
            fields = [each for each, _ in kind.fields] if isinstance(kind, JsonType) else []
            if token.text not in fields:
                _refuse(f"the name '{name}.{token.text}'")
            places.append(fields.index(token.text))
            assert isinstance(kind, JsonType)
            name, kind = token.text, kind.fields[places[-1]][1]
        return name, Field(column, tuple(places), kind)

    # -- conditions -----------------------------------------------------------------------------------------------

    def _any_of(self, depth: int) -> Condition:
        if depth > _MAX_DEPTH:
            _refuse("a condition that is nested too deeply")
        parts = [self._all_of(depth)]
        while self._peek().is_keyword("OR"):
            self._next()
            parts.append(self._all_of(depth))
        return parts[0] if len(parts) == 1 else Joined(False, tuple(parts))

    def _all_of(self, depth: int) -> Condition:
        parts = [self._negated(depth)]
        while self._peek().is_keyword("AND"):
            self._next()
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else Joined(True, tuple(parts))

    def _negated(self, depth: int) -> Condition:
        is_negated = False
        while self._peek().is_keyword("NOT"):
            self._next()
            is_negated = not is_negated
        found = self._predicate(depth)
        return Negated(found) if is_negated else found

    def _predicate(self, depth: int) -> Condition:
        if self._takes("("):
            found = self._any_of(depth + 1)
            self._close()
            return found
        left = self._operand()
        token = self._peek()
        if token.kind is Kind.SIGN and token.text in (*_OPERATORS, "<>", "!="):
            self._next()
            if token.text in ("<>", "!="):
                return Negated(_compared(Operator.EQUAL, left, self._operand()))
            return _compared(_OPERATORS[token.text], left, self._operand())
        if not isinstance(left, _Value):
            _refuse("a condition without a column")
        if token.is_keyword("IS"):
            return self._is_null(left)
        is_negated = token.is_keyword("NOT")
        if is_negated:
            self._next()
            token = self._peek()
        if token.is_keyword("IN"):
            found = self._in(left)
        elif token.is_keyword("BETWEEN"):
            found = self._between(left)
        elif is_negated or isinstance(left, AsText) or left.type != BOOLEAN:
            _refuse(token.text or "a condition that is no comparison")
        else:
            return Flag(left)
        return Negated(found) if is_negated else found

    def _is_null(self, left: _Value) -> Condition:
        self._keyword("IS")
        is_negated = self._peek().is_keyword("NOT")
        if is_negated:
            self._next()
        self._keyword("NULL")
        found = IsNull(left.of if isinstance(left, AsText) else left)
        return Negated(found) if is_negated else found

    def _in(self, left: _Value) -> Condition:
        self._keyword("IN")
        self._open()
        literals = []
        while True:
            right = self._operand()
            if isinstance(right, _Value):
                _refuse("IN of columns")
            literals.append(_literal(_type_of(left), Operator.EQUAL, right))
            if not self._takes(","):
                break
        self._close()
        if len(literals) == 1:
            return Compared(Operator.EQUAL, left, literals[0])
        return Among(left, tuple(literals))

    def _between(self, left: _Value) -> Condition:
        self._keyword("BETWEEN")
        low = _compared(Operator.GREATER_OR_EQUAL, left, self._operand())
        self._keyword("AND")
        return Joined(True, (low, _compared(Operator.LESS_OR_EQUAL, left, self._operand())))

    def _operand(self) -> _Value | _Literal:
        token = self._peek()
        if token.kind is Kind.TEXT:
            return self._next().text
        if token.is_keyword("TRUE", "FALSE"):
            return self._next().text.upper() == "TRUE"
        sign = "-" if self._takes("-") else ""
        if sign or token.kind in (Kind.INTEGER, Kind.DECIMAL):
            token = self._next()
            if token.kind not in (Kind.INTEGER, Kind.DECIMAL) or len(token.text) > _MAX_DIGITS:
                _refuse(f"{sign}{token.text}")
            return _Number(sign + token.text)
        return self._cast_or_field()[1]

    # -- tokens ---------------------------------------------------------------------------------------------------

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _takes(self, sign: str) -> bool:
        found = self._peek().is_sign(sign)
        if found:
            self._next()
        return found

    def _is_function(self, name: str) -> bool:
        """Takes the name of a function, if it is the next token."""
        found = self._peek().is_keyword(name) and self._tokens[self._at + 1].is_sign("(")
        if found:
            self._next()
        return found

    def _keyword(self, name: str) -> None:
        token = self._next()
        if not token.is_keyword(name):
            _refuse(token.text)

    def _open(self) -> None:
        self._sign("(")

    def _close(self) -> None:
        self._sign(")")

    def _sign(self, sign: str) -> None:
        token = self._next()
        if not token.is_sign(sign):
            _refuse(token.text)


def becomes_text(kind: SqlType) -> bool:
    """Whether ``CAST(… AS STRING)`` of the type is the same whatever release of Java there is."""
    if isinstance(kind, JsonType):
        return kind.kind in INTEGERS or kind in (STRING, BOOLEAN)
    return kind is Plain.BINARY


def name_of(kind: SqlType) -> str:
    """The type in a message."""
    return str(kind.kind if isinstance(kind, JsonType) else kind)


def _compared(operator: Operator, left: _Value | _Literal, right: _Value | _Literal) -> Compared:
    if not isinstance(left, _Value):
        if not isinstance(right, _Value):
            _refuse("a comparison of two literals")
        return _compared(_MIRRORED.get(operator, operator), right, left)
    kind = _type_of(left)
    if isinstance(right, _Value):
        other = _type_of(right)
        if kind != other or not isinstance(kind, JsonType) or kind.kind in (Type.STRUCT, Type.ARRAY, Type.BOOLEAN):
            _refuse(f"a comparison of {name_of(kind)} with {name_of(other)}")
        return Compared(operator, left, right)
    return Compared(operator, left, _literal(kind, operator, right))


def _type_of(value: _Value) -> SqlType:
    return STRING if isinstance(value, AsText) else value.type


def _literal(kind: SqlType, operator: Operator, literal: _Literal) -> _Literal:
    """The literal in the type of the other side, where no digit is lost and Spark does the same."""
    json = kind.kind if isinstance(kind, JsonType) else None
    if isinstance(literal, _Number):
        if json is Type.DOUBLE:
            return float(literal) + 0.0
        if json in INTEGERS and "." not in literal and -(2**63) <= int(literal) < 2**63:
            return int(literal)
    elif isinstance(literal, bool):
        if json is Type.BOOLEAN and operator is Operator.EQUAL:
            return literal
    elif json is Type.STRING:
        return literal
    shown = literal if isinstance(literal, _Number) else repr(literal)
    return _refuse(f"a comparison of {name_of(kind)} with {shown}")


def _refuse(what: str) -> NoReturn:
    shown = what if len(what) <= _SHOWN else f"{what[:_SHOWN]}…"
    raise InvalidArgument(f"with {shown}" if what else "that ends early")
