"""Rules in CEL: the part of the language that the rules between fields use, and nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.model.job.rules.cel import compiled, holds

JOB = {"mode": "Subscribe", "count": 3, "topics": ["a", "b"], "inner": {"name": "x"}, "parts": [{"topic": "p"}]}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("self.count == 3", True),
        ("self.count * 2 <= 6 && self.count * 2 > 5", True),
        ("self.count != 3 || self.count < 2 || self.count >= 4", False),
        ("self.mode in ['Assign', 'Subscribe']", True),
        ("!(self.mode in ['Assign'])", True),
        ("has(self.inner.name) == has(self.mode)", True),
        ("has(self.inner.other)", False),
        ("has(self.inner) && self.inner.name.startsWith('y')", False),
        ("self.topics.size() == (self.mode == 'Subscribe' ? 2 : 1)", True),
        ("[has(self.mode), has(self.nothing)].filter(x, x).size() == 1", True),
        ("self.topics.all(t, t in ['a', 'b']) && self.parts.exists(p, p.topic == 'p')", True),
        ("false_is_no_name == 1 || self.count == 3", None),
        ("self.inner.exists(key, key == 'name')", True),
        ("self.topics.exists(t, self.parts.exists(p, p.topic == t))", False),
        ("self.mode == 'a b || c' || self.count == 1 ? self.count == 9 : self.count == 3", True),
    ],
)
def test_an_expression_has_the_value_that_cel_gives_it(expression: str, value: Any) -> None:
    if value is None:
        with pytest.raises(KeyError):
            holds(expression, JOB)
    else:
        assert holds(expression, JOB) is value


def test_what_is_behind_a_decision_is_not_evaluated() -> None:
    assert holds("!has(self.nothing) || self.nothing.count == 1", JOB)
    assert not holds("has(self.nothing) && self.nothing.count == 1", JOB)


@pytest.mark.parametrize(
    "expression",
    [
        "self.matches('(a+)+b')",
        "self.count +",
        "self.count / 2",
        "(self.count",
        "self == 'a",
        "self.size(",
        "self[0]",
        "",
    ],
)
def test_what_is_not_supported_is_refused_when_it_is_read(expression: str) -> None:
    with pytest.raises(ValueError, match="is not supported in"):
        compiled(expression)
