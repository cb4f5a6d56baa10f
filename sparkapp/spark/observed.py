"""What ``DataFrame.observe`` counted in the batch under way."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def observed(spark: SparkSession, query_name: str, name: str) -> dict[str, Any] | None:
    """The metrics of an observation, asked when the batch's tasks are done; None where the batch's plan has it not.

    Spark publishes them with a query's progress, after the batch: too late for its checkpoint. The execution has them
    before.
    """
    query: Any = next(one for one in spark.streams.active if one.name == query_name)
    metrics = query._jsq.streamingQuery().lastExecution().observedMetrics()
    return json.loads(metrics.apply(name).json()) if metrics.contains(name) else None
