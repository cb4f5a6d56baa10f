"""Operators of a transform whose state only grows: Spark has no watermark by which to remove it.

Spark derives from the watermark a predicate for the rows or keys that an operator may forget. An operator without that
predicate keeps all of them. Spark says nothing about it, as the state of few keys may be kept for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sparkapp.spark.frames.query_plan import has_watermark, names_of

_JOIN_REMEDY = "declare withWatermark on both sides, and join on a range of their times"
_KEYS_REMEDY = "group by a window of a column with withWatermark, if there are ever new keys"
_DUPLICATES_REMEDY = "use dropDuplicatesWithinWatermark, or name the column of withWatermark, too"


def growing_state(nodes: Iterable[Any]) -> tuple[str, ...]:
    """What operators of a plan never forget, with a remedy each; empty where all state is removed.

    Operators of user code, such as ``transformWithState``, remove their state by themselves, and a total without keys
    has one row. Neither is among them.

    :param nodes: of :func:`sparkapp.spark.frames.query_plan.stateful_nodes`, of a query's first batch.
    """
    found: dict[str, None] = {}
    for node in nodes:
        judge = _JUDGES.get(str(node.getClass().getSimpleName()))
        message = judge(node) if judge is not None else ""
        if message:
            found[message] = None
    return tuple(found)


def _join(node: Any) -> str:
    predicates = node.stateWatermarkPredicates()
    sides = [side for side in ("left", "right") if getattr(predicates, side)().isEmpty()]
    if not sides:
        return ""
    which = "both sides" if len(sides) > 1 else f"its {sides[0]} side"
    return f"the join of two streams keeps each row of {which} for ever: {_JOIN_REMEDY}"


def _forgets_keys(node: Any) -> bool:
    """Whether Spark has a predicate for the keys that the operator may forget, by Spark's own rule.

    The predicate is not asked for: tasks carry the operator with it, and no task can carry a generated class.
    """
    return bool(node.watermarkExpressionForEviction().isDefined()) and has_watermark(node.keyExpressions())


def _aggregation(node: Any) -> str:
    keys = names_of(node.keyExpressions())
    if not keys or _forgets_keys(node):
        return ""
    return f"the aggregation by {', '.join(keys)} keeps each key for ever: {_KEYS_REMEDY}"


def _deduplication(node: Any) -> str:
    if _forgets_keys(node):
        return ""
    keys = ", ".join(names_of(node.keyExpressions()))
    return f"dropDuplicates by {keys} keeps each key for ever: {_DUPLICATES_REMEDY}"


_JUDGES: Mapping[str, Callable[[Any], str]] = {
    "StreamingSymmetricHashJoinExec": _join,
    "StateStoreSaveExec": _aggregation,
    "StreamingDeduplicateExec": _deduplication,
}
"""By the class of Spark's operator. A session has its window's end, and Spark refuses it without a watermark."""
