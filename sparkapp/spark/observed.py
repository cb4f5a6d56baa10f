"""What Spark knows of the batch under way: what was counted, whether operators keep state, where the watermark is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

_STATEFUL = "org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator"


def observed(spark: SparkSession, query_name: str, name: str) -> dict[str, Any] | None:
    """The metrics of an observation, asked when the batch's tasks are done; None where the batch's plan has it not.

    Spark publishes them with a query's progress, after the batch: too late for its checkpoint. The execution has them
    before.
    """
    metrics = _execution(spark, query_name).observedMetrics()
    return json.loads(metrics.apply(name).json()) if metrics.contains(name) else None


def keeps_state(spark: SparkSession, query_name: str) -> bool:
    """Whether the batch's plan has an operator that keeps state (an aggregation, deduplication, join …)."""
    return next(_stateful_nodes(spark, query_name), None) is not None


def late_rows(spark: SparkSession, query_name: str) -> int:
    """Rows that the batch's operators with state have dropped as later than the watermark; asked after its tasks.

    Of an aggregation these are rows after its partial aggregation, as in Spark's ``numRowsDroppedByWatermark``.
    """
    return sum(_metric(node, "numRowsDroppedByWatermark") for node in _stateful_nodes(spark, query_name))


def _metric(node: Any, name: str) -> int:
    metrics = node.metrics()
    return int(metrics.apply(name).value()) if metrics.contains(name) else 0


def _stateful_nodes(spark: SparkSession, query_name: str) -> Iterator[Any]:
    jvm: Any = spark._jvm
    kind = jvm.java.lang.Class.forName(_STATEFUL)
    stack = [_execution(spark, query_name).executedPlan()]
    while stack:
        node = stack.pop()
        if kind.isInstance(node):
            yield node
        children = node.children()
        stack.extend(children.apply(index) for index in range(children.size()))


def next_watermark(spark: SparkSession, query_name: str) -> int:
    """The event-time watermark after the batch, in ms since 1970, asked when its tasks are done; 0 where there is none.

    Spark does the same at the batch's end, which is too late for its checkpoint; to do it twice changes nothing.
    """
    query = _query(spark, query_name)
    tracker = query.watermarkTracker()
    tracker.updateWatermark(query.lastExecution().executedPlan())
    return int(tracker.currentWatermark())


def _execution(spark: SparkSession, query_name: str) -> Any:
    return _query(spark, query_name).lastExecution()


def _query(spark: SparkSession, query_name: str) -> Any:
    query: Any = next(one for one in spark.streams.active if one.name == query_name)
    return query._jsq.streamingQuery()
