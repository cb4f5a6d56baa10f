"""The tokens of a narrow query: names, literals and signs, as Spark's lexer has them."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

from sparkapp.model.errors import InvalidArgument


class Kind(Enum):
    """What a token is."""

    NAME = auto()
    QUOTED_NAME = auto()
    INTEGER = auto()
    DECIMAL = auto()
    TEXT = auto()
    SIGN = auto()
    END = auto()


class Token(NamedTuple):
    """A token.

    :param text: of a name without its quotes, of a literal without quotes.
    """

    kind: Kind
    text: str

    def is_keyword(self, *names: str) -> bool:
        """Whether it is one of the names, in any case and without quotes."""
        return self.kind is Kind.NAME and self.text.upper() in names

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of the signs."""
        return self.kind is Kind.SIGN and self.text in signs


# Not here: comments, escapes and doubled quotes, numbers with exponent or suffix, parameters, variables.
_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<DECIMAL>\d+\.\d+)(?![\w.])|(?P<INTEGER>\d+)(?![\w.])|(?P<NAME>[A-Za-z_]\w*)|`(?P<QUOTED_NAME>[^`$]+)`(?!`)"
    r"|'(?P<TEXT>[^'\\$\x00-\x1f]*)'(?!')|(?P<SIGN><=(?!>)|>=|<>|!=|==|[=<>(),.*;]|-(?!-))"
    r")",
    re.ASCII,
)
_SPACE = " \t\n\r\f\v"
_SPACES = re.compile(r"\s+", re.ASCII)
_SHOWN = 20


def tokens_of(query: str) -> list[Token]:
    """The tokens of a query, and behind them the end.

    :raises InvalidArgument: a narrow query has no such token.
    """
    found, at, end = [], 0, len(query.rstrip(_SPACE))
    while at < end:
        match = _TOKEN.match(query, at)
        if match is None or match.lastgroup is None:
            raise InvalidArgument(f"with {_SPACES.split(query[at:end].lstrip(_SPACE), maxsplit=1)[0][:_SHOWN]!r}")
        found.append(Token(Kind[match.lastgroup], match[match.lastgroup]))
        at = match.end()
    return [*found, Token(Kind.END, "")]
