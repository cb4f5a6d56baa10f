"""The chart's alerts, evaluated over the series that the operator exports for jobs of every kind.

Without Prometheus: the few operators of PromQL that the expressions use are below. An expression may name only metrics,
labels and states that exist. A function over a range has the present value: what it makes of a history is Prometheus'.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.controller.cache import Cache
from kafkasparkjob_operator.controller.metrics import OperatorMetrics
from kafkasparkjob_operator.status.status import JobState
from tests.support.kubernetes.chart_alerts import TEMPLATE, rules
from tests.support.kubernetes.operator_fixture import job_body

TOKEN = re.compile(r"\s*(>|==|[(),]|\[\w+\]|\w+(?:\{[^}]*\})?)")
RANGE_FUNCTIONS = {"deriv", "increase", "min_over_time"}
MATCHER = re.compile(r'(\w+)(=~?)"([^"]*)"')
LABEL = re.compile(r"\$labels\.(\w+)")
Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]


SUMMARIES = dict(re.findall(r"- alert: (\w+)\n.*?summary: ([^\n]+)", TEMPLATE.read_text(encoding="utf-8"), re.DOTALL))


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


def firing(state: str, *, ready: bool = False, leader: int = 1, refused_watch: bool = False, **status: Any) -> set[str]:
    """The alerts of an operator with one job, apart from their durations."""
    cache = Cache()
    body = job_body()
    conditions = [{"type": "Ready", "status": str(ready)}]
    cache.put_job({**body, "status": {"state": state, "conditions": conditions, **status}})
    metrics = OperatorMetrics(cache)
    metrics.leader.set(leader)
    if refused_watch:
        metrics.watch_refused.labels(resource="pods", namespace="shop").set(1)
    found = {name: Evaluation(rule["expr"], metrics).result() for name, rule in rules().items()}
    for name, vector in found.items():
        for label in LABEL.findall(SUMMARIES[name]):
            assert all(label in dict(labels) for labels in vector), f"{name} names {label}"
    return {name.removeprefix("KafkaSpark") for name, vector in found.items() if vector}


def checkpoint(seconds: int) -> dict[str, Any]:
    return {"id": 7, "time": format_time(datetime.now(UTC) - timedelta(seconds=seconds))}


@pytest.mark.parametrize("state", JobState)
def test_a_job_that_is_not_ready_alerts_unless_it_rests_as_asked(state: JobState) -> None:
    at_rest = state in {JobState.SUSPENDED, JobState.FINISHED}
    assert firing(state) == (set() if at_rest else {"JobNotReady"})
    assert firing(state, ready=True) == set()


@pytest.mark.parametrize("state", JobState)
def test_an_old_checkpoint_alerts_only_where_records_wait_for_the_next(state: JobState) -> None:
    def stopped(lag: int | None, *, seconds: int = 3600) -> bool:
        source = {} if lag is None else {"lagRecords": lag}
        alerts = firing(state, ready=True, checkpoint=checkpoint(seconds), source=source)
        return "JobCheckpointsStopped" in alerts

    assert stopped(10) is (state == JobState.RUNNING)
    assert not stopped(0), "an idle job completes no checkpoint"
    assert not stopped(None), "the lag is unknown"
    assert not stopped(10, seconds=30)


def test_a_lag_alerts_where_it_is_not_0() -> None:
    for lag, alerts in ((0, set()), (5, {"JobLagGrows"})):
        assert firing("Running", ready=True, source={"lagRecords": lag}) == alerts


def test_a_transaction_that_is_open_for_long_alerts() -> None:
    for age, alerts in ((30, set()), (3600, {"JobTransactionOpenLong"})):
        since = format_time(datetime.now(UTC) - timedelta(seconds=age))
        assert firing("Running", ready=True, transactions={"open": 1, "oldestOpenTime": since}) == alerts


def test_restarts_alert_where_there_are_more_than_three() -> None:
    for total, alerts in ((3, set()), (4, {"JobRestartsOften"})):
        assert firing("Running", ready=True, restarts={"total": total}) == alerts


def test_a_refused_watch_alerts() -> None:
    assert firing("Running", ready=True, refused_watch=True) == {"OperatorWatchRefused"}


def test_records_after_a_long_pause_have_time_for_a_checkpoint() -> None:
    assert rules()["KafkaSparkJobCheckpointsStopped"]["for"] == "5m"


@pytest.mark.parametrize("leader", [0, 1])
def test_an_operator_without_a_leader_alerts(leader: int) -> None:
    assert firing("Running", ready=True, leader=leader) == (set() if leader else {"OperatorHasNoLeader"})


@pytest.mark.parametrize("expression", ["no_such_metric > 1", 'kafkaspark_job_state{phase="x"} == 1'])
def test_a_name_that_is_not_exported_is_found(expression: str) -> None:
    cache = Cache()
    cache.put_job({**job_body(), "status": {"state": "Running"}})
    with pytest.raises(AssertionError, match=r"no metric|no label"):
        Evaluation(expression, OperatorMetrics(cache)).result()


def test_the_document_has_the_charts_expressions() -> None:
    document = (TEMPLATE.parents[3] / "docs/operations.md").read_text(encoding="utf-8")
    for name in rules():
        assert " ".join(rules()[name]["expr"].split()) in " ".join(document.split())
