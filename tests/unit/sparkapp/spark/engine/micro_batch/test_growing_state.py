"""Operators whose state only grows are found without a change of Spark's plan."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.spark.engine.micro_batch.growing_state import growing_state


class _Scala:
    """A sequence, an option or the metadata of a column."""

    def __init__(self, *found: Any) -> None:
        self.found = found

    def size(self) -> int:
        return len(self.found)

    def apply(self, index: int) -> Any:
        return self.found[index]

    def contains(self, name: str) -> bool:
        return name in self.found

    def isDefined(self) -> bool:
        return bool(self.found)


class _Column:
    def __init__(self, name: str, *metadata: str) -> None:
        self._name, self._metadata = name, _Scala(*metadata)

    def name(self) -> str:
        return self._name

    def metadata(self) -> _Scala:
        return self._metadata


class _Operator:
    """Of the plan that Spark runs next."""

    def __init__(self, kind: str, *keys: _Column, watermark: bool = True) -> None:
        self._kind, self._keys, self._watermark = kind, keys, watermark

    def getClass(self) -> _Operator:
        return self

    def getSimpleName(self) -> str:
        return self._kind

    def keyExpressions(self) -> _Scala:
        return _Scala(*self._keys)

    def watermarkExpressionForEviction(self) -> _Scala:
        return _Scala(*(["expression"] if self._watermark else []))

    def watermarkPredicateForKeysForEviction(self) -> None:
        msg = "Spark would generate a class, keep it in the operator, and fail to send the operator to tasks"
        raise AssertionError(msg)


WINDOW, KEY = _Column("window", "spark.watermarkDelayMs"), _Column("k")


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (_Operator("StateStoreSaveExec", WINDOW, KEY), ""),
        (_Operator("StateStoreSaveExec", KEY), "the aggregation by k keeps each key for ever"),
        (_Operator("StateStoreSaveExec", WINDOW, watermark=False), "the aggregation by window keeps each key"),
        (_Operator("StateStoreSaveExec"), ""),
        (_Operator("StreamingDeduplicateExec", WINDOW), ""),
        (_Operator("StreamingDeduplicateExec", KEY), "dropDuplicates by k keeps each key for ever"),
    ],
)  # fmt: skip
def test_a_predicate_that_tasks_cannot_carry_is_not_made(operator: _Operator, says: str) -> None:
    found = growing_state([operator])
    assert [text.startswith(says) for text in found] == ([True] if says else [])
