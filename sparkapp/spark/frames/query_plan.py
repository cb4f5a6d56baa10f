"""What Spark's plans say about the transform and about the batch under way.

All of it is asked over Py4J once a query or once a batch, never for each record. Spark has no Python API for it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from enum import Enum, auto
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkapp.dataplane.interface import ALL_COLUMNS

LOG = logging.getLogger(__name__)

_DIRECT = "org.apache.spark.OneToOneDependency"
_SOURCE = "DataSourceRDD"
_STREAM = "StreamingRelationV2"
_SOURCES = frozenset({_STREAM, "StreamingRelation"})
"""Nodes of a stream; the second is that of files, on the user's machine."""
_TIME_MODES = {
    "TransformWithStateInPySpark": "timeMode",
    "FlatMapGroupsInPandasWithState": "timeout",
}
"""Operators of Python that may have timers, and the method that says by which time."""
_PROCESSING_TIME = "ProcessingTime"
_TRANSPARENT = frozenset(
    {"Project", "Filter", "CollectMetrics", "EventTimeWatermark", "Aggregate", "Deduplicate", "ArrowEvalPython",
     "DeduplicateWithinWatermark", "BatchEvalPython"}
)  # fmt: skip
"""Nodes whose expressions name all that they use of their child. Attributes of their output are its, or are new."""
_KEEPING = frozenset(
    {"Project", "Filter", "CollectMetrics", "EventTimeWatermark", "Generate", "Expand", "Sample", "ArrowEvalPython",
     "BatchEvalPython", "MapInArrow", "MapInPandas"}
)  # fmt: skip
"""Nodes that leave each row in the task of the row that it comes from."""
_BROADCAST = "broadcast"
_DELAY = "spark.watermarkDelayMs"
"""Metadata of a column with a watermark."""
_STATEFUL = "org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator"


# -- the transform's plan ---------------------------------------------------------------------------------------------


def partition_count(frame: DataFrame) -> int:
    """Number of tasks of the frame's last stage."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())


def is_aligned(frame: DataFrame, subtasks: int, *, source: str = _SOURCE) -> bool:
    """Whether partition i of the frame holds the records of the source's partition i and of nothing else.

    Called by the write stage. Every step of the RDD's lineage must be a one-to-one dependency, down to one data source
    with a partition for each subtask. A shuffle, union, coalesce, join or second read of the source is not aligned.

    :param subtasks: how many subtasks read something.
    :param source: class of the source's RDD.
    """
    rdd = frame._jdf.queryExecution().toRdd()
    if rdd.getNumPartitions() != subtasks:
        return False
    while True:
        dependencies = rdd.dependencies()
        if dependencies.isEmpty():
            return str(rdd.getClass().getSimpleName()) == source and rdd.getNumPartitions() == subtasks
        first = dependencies.head()
        if dependencies.size() != 1 or first.getClass().getName() != _DIRECT:
            return False
        rdd = first.rdd()


def columns_used(result: DataFrame, spark: SparkSession) -> frozenset[str]:
    """The source's columns that the result depends on; readers leave the others out. Called before the query starts.

    Spark optimises a streaming plan only when a batch runs. So the analysed plan is optimised here, and the references
    of every node above the source are collected. If that fails, all columns are read: slower, never wrong.
    """
    try:
        plan = spark._jsparkSession.sessionState().optimizer().execute(result._jdf.queryExecution().analyzed())
        # A transform may read the source several times, each time with its own attributes.
        attributes: dict[int, str] = {}
        for leaf in _sequence(plan.collectLeaves()):
            if str(leaf.getClass().getSimpleName()) == _STREAM:
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
            return frozenset(attributes[number] for number in used if number in attributes)
    except Exception as error:  # Py4J raises many kinds, and all mean that the columns are unknown
        LOG.info("columns in use are unknown, all columns are read: %s", error)
    return ALL_COLUMNS


def fields_used(result: DataFrame, spark: SparkSession, column: str) -> frozenset[int] | None:
    """The fields of a struct of the source that the result depends on, by their places; called before the query starts.

    What a field holds that is not among them has no effect on the result, however Spark plans a batch.

    :param column: of the source.
    :returns: None where the struct may be used as a whole, and where that is not known.
    """
    try:
        plan = spark._jsparkSession.sessionState().optimizer().execute(result._jdf.queryExecution().analyzed())
        return _FieldUse(column).of(plan)
    except Exception as error:  # Py4J raises many kinds, and all mean that the fields are unknown
        LOG.info("fields in use of %s are unknown, all are read: %s", column, error)
    return None


class _Taken(Enum):
    """What an expression takes of a struct."""

    WHOLE = auto()
    FIELD = auto()
    NULLNESS = auto()
    ALIAS = auto()
    """The struct gets another id."""


class _Whole(Exception):
    """A plan uses the struct as a whole, or in a way that is not known."""


class _FieldUse:
    """Follows a struct of the source through an optimised plan, from its leaves up to its root."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._followed: set[int] = set()
        """Ids of the attributes that hold the struct, or null."""
        self._fields: set[int] = set()

    def of(self, plan: Any) -> frozenset[int] | None:
        try:
            self._visit(plan)
            if self._followed & set(_named(plan.output())):
                raise _Whole
        except _Whole:
            return None
        return frozenset(self._fields)

    def _visit(self, node: Any) -> None:
        name = str(node.getClass().getSimpleName())
        if name == _STREAM:
            self._followed |= {number for number, each in _named(node.output()).items() if each == self._column}
            return
        children = _sequence(node.children())
        for child in children:
            self._visit(child)
        if not any(self._followed & set(_named(child.output())) for child in children):
            return
        if name not in _TRANSPARENT:
            raise _Whole
        for expression in _sequence(node.expressions()):
            kind = _kind(expression)
            if name == "Project" and kind == "AttributeReference":
                continue  # it keeps its id
            if name == "Project" and kind == "Alias":
                self._take(expression.child(), _Taken.ALIAS, int(expression.exprId().id()))
            else:
                self._take(expression, _Taken.WHOLE)

    def _take(self, expression: Any, taken: _Taken, number: int = 0) -> None:
        """
        :param taken: what is taken of the expression's value, and ``number``: which field, or the id of the alias.
        """
        if _kind(expression) != "AttributeReference":
            for child, of_child, its_number in _parts(expression, taken, number):
                self._take(child, of_child, its_number)
        elif int(expression.exprId().id()) in self._followed:
            if taken is _Taken.WHOLE:
                raise _Whole
            if taken is not _Taken.NULLNESS:
                (self._followed if taken is _Taken.ALIAS else self._fields).add(number)


def _parts(expression: Any, taken: _Taken, number: int) -> Iterator[tuple[Any, _Taken, int]]:
    """The children of an expression, each with what is taken of it."""
    kind = _kind(expression)
    if kind == "GetStructField":
        yield expression.child(), _Taken.FIELD, int(expression.ordinal())
    elif kind in ("IsNull", "IsNotNull"):
        yield expression.child(), _Taken.NULLNESS, 0
    elif kind in ("CaseWhen", "If"):
        branches = _sequence(expression.branches()) if kind == "CaseWhen" else []
        conditions = [each._1() for each in branches] or [expression.predicate()]
        for child in _sequence(expression.children()):
            is_condition = any(child.fastEquals(each) for each in conditions)
            yield (child, _Taken.WHOLE, 0) if is_condition else (child, taken, number)
    else:
        yield from ((child, _Taken.WHOLE, 0) for child in _sequence(expression.children()))


def _kind(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def reads_of_source(result: DataFrame) -> int:
    """How often the transform reads the source: more than once if it joins the source with itself, for instance."""
    leaves = _sequence(result._jdf.queryExecution().analyzed().collectLeaves())
    return sum(str(leaf.getClass().getSimpleName()) == _STREAM for leaf in leaves)


def keeps_records(result: DataFrame) -> bool:
    """Whether each row of the result is written by the task that reads its record, whatever Spark knows of a batch.

    Called before the query starts. Each node from the result down to one read of the source is known to keep rows in
    their tasks. So does a join with a table whose broadcast the transform asks for. Of another join Spark decides by
    sizes. If the plan is not known, the answer is no.
    """
    try:
        session = result.sparkSession._jsparkSession.sessionState()
        node = session.optimizer().execute(result._jdf.queryExecution().analyzed())
        while _kind(node) not in _SOURCES:
            below = node.child() if _kind(node) in _KEEPING else _streamed(node)
            if below is None:
                return False
            node = below
    except Exception as error:  # Py4J raises many kinds, and all mean that the plan is unknown
        LOG.info("whether tasks write what they read is unknown: %s", error)
        return False
    return True


def _streamed(node: Any) -> Any:
    """The side of a join that stays in its tasks, as the other side is broadcast; None for other nodes."""
    if _kind(node) != "Join":
        return None
    for side, other, hint in (
        (node.left(), node.right(), node.hint().rightHint()),
        (node.right(), node.left(), node.hint().leftHint()),
    ):
        if side.isStreaming() and not other.isStreaming() and hint.isDefined():
            strategy = hint.get().strategy()
            if strategy.isDefined() and str(strategy.get()) == _BROADCAST:
                return side
    return None


def has_processing_time(result: DataFrame) -> bool:
    """Whether an operator has timers or a time to live by processing time: Spark runs it again and again, for these.

    Called before the query starts.
    """
    for node in _nodes(result._jdf.queryExecution().analyzed()):
        mode = _TIME_MODES.get(_kind(node))
        if mode is not None and str(getattr(node, mode)()).startswith(_PROCESSING_TIME):
            return True
    return False


# -- the batch under way ----------------------------------------------------------------------------------------------


def observed(spark: SparkSession, query_name: str, name: str) -> dict[str, Any] | None:
    """The metrics of an observation, asked when the batch's tasks are done; None if the batch's plan lacks it.

    Spark publishes them with a query's progress, after the batch: too late for its checkpoint. The execution has them
    before.
    """
    metrics = _execution(spark, query_name).observedMetrics()
    return json.loads(metrics.apply(name).json()) if metrics.contains(name) else None


def observed_by_each(spark: SparkSession, query_name: str, name: str) -> list[dict[str, Any]]:
    """:func:`observed` of each read of the source, where a transform reads it several times."""
    return [
        json.loads(node.collectedMetrics().json())
        for node in _nodes(_execution(spark, query_name).executedPlan())
        if _kind(node) == "CollectMetricsExec" and node.name() == name
    ]


def observed_of(frame: DataFrame, name: str) -> dict[str, Any]:
    """The metrics of an observation of a frame whose own plan has run."""
    return dict(json.loads(frame._jdf.queryExecution().observedMetrics().apply(name).json()))


def late_rows(spark: SparkSession, query_name: str) -> int:
    """Rows that the batch dropped as later than the watermark; asked after its tasks.

    For an aggregation these are rows after the partial aggregation, as in Spark's ``numRowsDroppedByWatermark``.
    """
    return sum(_metric(node, "numRowsDroppedByWatermark") for node in stateful_nodes(spark, query_name))


def next_watermark(spark: SparkSession, query_name: str) -> int:
    """The event-time watermark after the batch, in ms since 1970, asked when its tasks are done; 0 if there is none.

    Spark does the same at the batch's end, which is too late for its checkpoint. The second time changes nothing.
    """
    query = _query(spark, query_name)
    tracker = query.watermarkTracker()
    tracker.updateWatermark(query.lastExecution().executedPlan())
    return int(tracker.currentWatermark())


def _metric(node: Any, name: str) -> int:
    metrics = node.metrics()
    return int(metrics.apply(name).value()) if metrics.contains(name) else 0


def stateful_nodes(spark: SparkSession, query_name: str) -> Iterator[Any]:
    """The operators of the batch's plan that keep state (an aggregation, deduplication, join …), of Spark's classes."""
    jvm: Any = spark._jvm
    kind = jvm.java.lang.Class.forName(_STATEFUL)
    return (node for node in _nodes(_execution(spark, query_name).executedPlan()) if kind.isInstance(node))


def _nodes(plan: Any) -> Iterator[Any]:
    stack = [plan]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(_sequence(node.children()))


def _execution(spark: SparkSession, query_name: str) -> Any:
    return _query(spark, query_name).lastExecution()


def _query(spark: SparkSession, query_name: str) -> Any:
    active: Any = next(query for query in spark.streams.active if query.name == query_name)
    return active._jsq.streamingQuery()


def _named(attributes: Any) -> dict[int, str]:
    return {int(attribute.exprId().id()): str(attribute.name()) for attribute in _sequence(attributes)}


def names_of(attributes: Any) -> list[str]:
    """Names of the columns of a sequence of Spark's."""
    return [str(attribute.name()) for attribute in _sequence(attributes)]


def has_watermark(attributes: Any) -> bool:
    """Whether a column of a sequence of Spark's is an event time with a watermark, or a window of it."""
    return any(attribute.metadata().contains(_DELAY) for attribute in _sequence(attributes))


def _sequence(scala: Any) -> list[Any]:
    return [scala.apply(index) for index in range(scala.size())]
