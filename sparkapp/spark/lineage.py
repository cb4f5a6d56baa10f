"""Does each task write exactly what it read? And which columns of the source does the transform use?

Both are asked of Spark's own plans over Py4J, once a query or once a batch, never per record.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkapp.native.interface import ALL_COLUMNS

LOG = logging.getLogger(__name__)

_ONE_TO_ONE = "org.apache.spark.OneToOneDependency"
_SOURCE = "DataSourceRDD"
_STREAM = "StreamingRelationV2"


def partition_count(frame: DataFrame) -> int:
    """Tasks that the frame's last stage will have."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())


def is_aligned(frame: DataFrame, subtasks: int) -> bool:
    """True where partition i of the frame holds the records of the source's partition i and of nothing else.

    Walks the RDD's lineage: every step must be a one-to-one dependency down to one data source with as many partitions
    as there are subtasks with work. A shuffle, a union, a coalesce, a join or a second read of the source is not.
    """
    rdd = frame._jdf.queryExecution().toRdd()
    if rdd.getNumPartitions() != subtasks:
        return False
    while True:
        dependencies = rdd.dependencies()
        if dependencies.isEmpty():
            return str(rdd.getClass().getSimpleName()) == _SOURCE and rdd.getNumPartitions() == subtasks
        first = dependencies.head()
        if dependencies.size() != 1 or first.getClass().getName() != _ONE_TO_ONE:
            return False
        rdd = first.rdd()


def columns_used(result: DataFrame, spark: SparkSession) -> frozenset[str]:
    """The source's columns that the result depends on; the reader leaves the others out.

    Optimises the analysed plan by hand (Spark itself optimises a streaming plan only when a batch runs) and collects
    the references of every node above the source. Where that fails for any reason, all columns are read: slower, never
    wrong.
    """
    try:
        plan = spark._jsparkSession.sessionState().optimizer().execute(result._jdf.queryExecution().analyzed())
        # A transform may read the source several times, each with attributes of its own.
        attributes: dict[int, str] = {}
        for leaf in _sequence(plan.collectLeaves()):
            attributes |= _named(leaf.output())
        used: set[int] = set()
        stack = [plan]
        while stack:
            node = stack.pop()
            children = _sequence(node.children())
            if children:
                used |= set(_named(node.references().toSeq()))
                stack.extend(children)
        if not plan.children().isEmpty():
            return frozenset(attributes[number] for number in used if number in attributes) & ALL_COLUMNS
    except Exception as error:  # Py4J raises many kinds, and all mean "do not know"
        LOG.info("columns in use are not known, all are read: %s", error)
    return ALL_COLUMNS


def reads_of_source(result: DataFrame) -> int:
    """How often the transform reads the source: more than once where it joins it with itself, for instance."""
    leaves = _sequence(result._jdf.queryExecution().analyzed().collectLeaves())
    return sum(str(leaf.getClass().getSimpleName()) == _STREAM for leaf in leaves)


def _named(attributes: Any) -> dict[int, str]:
    return {int(one.exprId().id()): str(one.name()) for one in _sequence(attributes)}


def _sequence(scala: Any) -> list[Any]:
    return [scala.apply(index) for index in range(scala.size())]
