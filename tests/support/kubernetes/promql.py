"""The few operators of PromQL that the chart's alerts use, over the present series of an operator.

A function over a range has the present value: what it makes of a history is Prometheus'.
"""

from __future__ import annotations

import re

from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.status.status import JobState

TOKEN = re.compile(r"\s*(>|==|[(),]|\[\w+\]|\w+(?:\{[^}]*\})?)")
RANGE_FUNCTIONS = {"deriv", "increase", "min_over_time"}
MATCHER = re.compile(r'(\w+)(=~?)"([^"]*)"')
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]


class Evaluation:
    """One expression over the present series of a registry."""

    def __init__(self, expression: str, metrics: OperatorMetrics) -> None:
        self.series: dict[str, Vector] = {}
        for family in metrics.registry.collect():
            self.series.setdefault(family.name, {})
            for sample in family.samples:
                self.series.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        self.tokens: list[str] = []
        while expression.strip():
            token = TOKEN.match(expression)
            assert token is not None, expression
            self.tokens.append(token[1])
            expression = expression[token.end() :]

    def result(self) -> Vector:
        found = self._both()
        assert not self.tokens
        return found

    def _next(self, expected: str = "") -> str:
        token = self.tokens.pop(0)
        assert not expected or token == expected, token
        return token

    def _both(self) -> Vector:
        left = self._compared()
        while self.tokens[:1] in (["and"], ["unless"]):
            keeps = self._next() == "and"
            self._next("on")
            self._next("(")
            names = [self._next()]
            while self._next() == ",":
                names.append(self._next())
            right = {shared(labels, names) for labels in self._compared()}
            left = {labels: value for labels, value in left.items() if (shared(labels, names) in right) is keeps}
        return left

    def _compared(self) -> Vector:
        found = self._vector()
        if self.tokens[:1] in ([">"], ["=="]):
            above, number = self._next() == ">", float(self._next())
            found = {labels: value for labels, value in found.items() if (value > number if above else value == number)}
        return found

    def _vector(self) -> Vector:
        token = self._next()
        if token == "absent":
            self._next("(")
            found = self._both()
            self._next(")")
            return {} if found else {frozenset(): 1.0}
        if token in RANGE_FUNCTIONS:
            self._next("(")
            found = self._vector()
            assert self._next().startswith("["), "a range"
            self._next(")")
            return found
        name, _, matchers = token.partition("{")
        assert name in self.series, f"no metric {name}"
        found = self.series[name]
        for label, operator, wanted in MATCHER.findall(matchers):
            assert not found or all(label in dict(labels) for labels in found), f"{name} has no label {label}"
            assert label != "state" or {*wanted.split("|")} <= {*map(str, JobState)}, wanted
            choices = wanted.split("|") if operator == "=~" else [wanted]
            found = {labels: value for labels, value in found.items() if dict(labels).get(label) in choices}
        return found


def shared(labels: Labels, names: list[str]) -> tuple[str, ...]:
    return tuple(dict(labels)[name] for name in names)
