"""The chart's alerts, evaluated over the series that the operator exports for jobs of every kind.

Without Prometheus: ``tests.support.kubernetes.promql`` has the few operators of PromQL. An expression may name only
metrics, labels and states that exist.
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
from tests.support.kubernetes.promql import Evaluation

LABEL = re.compile(r"\$labels\.(\w+)")
SUMMARIES = dict(re.findall(r"- alert: (\w+)\n.*?summary: ([^\n]+)", TEMPLATE.read_text(encoding="utf-8"), re.DOTALL))


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
