"""What the stage that ends partitions does to batches; Spark itself is in tests/integration/engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.errors import TransformError
from sparkapp.model.job.sections.source import Source
from sparkapp.model.job.spec import JobSpec
from sparkapp.model.job.startup import Stopping
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.frames import end_of_stream
from sparkapp.spark.frames.end_of_stream import MARK, end_partitions, stops_found, without_what_follows
from tests.support.jobs.plain_job import plain_spec

SCHEMA = pa.schema([*SOURCE_SCHEMA, pa.field(MARK, pa.bool_())])
Row = tuple[str, int, int, bool | None]


def batch(rows: Iterable[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"topic": topic, "partition": number, "offset": offset, MARK: mark} for topic, number, offset, mark in rows],
        schema=SCHEMA,
    )


def rows_of(found: pa.RecordBatch) -> list[Row]:
    columns: list[list[Any]] = [found.column(name).to_pylist() for name in ("topic", "partition", "offset", MARK)]
    return list(zip(*columns, strict=True))


def test_a_batch_without_an_end_passes_untouched() -> None:
    unmarked = batch([("a", 0, 5, None), ("a", 1, 5, None)])
    assert without_what_follows(unmarked, {}) is unmarked
    assert without_what_follows(unmarked, {"a-7": 3}) is unmarked, "another partition of the task has ended"


def test_a_partition_ends_at_its_first_mark_and_stays_ended() -> None:
    ends: dict[str, int] = {}
    first = without_what_follows(
        batch([("a", 0, 5, None), ("a", 1, 1, None), ("a", 0, 7, True), ("a", 0, 8, True), ("a", 1, 2, None)]), ends
    )
    assert rows_of(first) == [("a", 0, 5, None), ("a", 1, 1, None), ("a", 0, 7, True), ("a", 1, 2, None)]
    second = without_what_follows(batch([("a", 0, 9, True), ("a", 0, 10, None), ("a", 1, 3, None)]), ends)
    assert rows_of(second) == [("a", 1, 3, None)]
    assert ends == {"a-0": 7}


def test_names_with_dashes_are_not_mixed_up() -> None:
    ends: dict[str, int] = {}
    found = without_what_follows(batch([("a-1", 2, 0, True), ("a", 12, 5, None), ("a-1-2", 0, 5, None)]), ends)
    assert found.num_rows == 3
    assert ends == {"a-1-2": 0}


def test_the_last_row_shows_that_the_task_has_read_everything() -> None:
    out = list(end_partitions(SCHEMA, iter([batch([("a", 3, 1, None)])])))
    assert [rows_of(found) for found in out] == [[("a", 3, 1, None)], [(None, 0, None, True)]]
    assert [rows_of(found) for found in end_partitions(SCHEMA, iter([]))] == [[(None, 0, None, True)]]
    assert {found.schema for found in out} == {SCHEMA}


def spec(predicate: str) -> JobSpec:
    return plain_spec(source=Source(topics=("a",), group_id="g", stopping=Stopping(predicate=predicate)))


def found(marks: list[dict[str, Any]] | None, *, tasks: int, predicate: str = "true") -> dict[TopicPartition, int]:
    answer = None if marks is None else {"ends": marks}
    with patch.object(end_of_stream, "observed", return_value=answer):
        return stops_found(spec(predicate), cast("SparkSession", None), "query", tasks)


END = {"topic": "a", "partition": 3, "offset": 7}
FIRST, SECOND = {"topic": None, "partition": 0, "offset": None}, {"partition": 1}


def test_a_partition_stops_behind_its_end_on_each_report_of_it() -> None:
    assert found([END, FIRST, SECOND, END, FIRST], tasks=2) == {TopicPartition("a", 3): 8}
    assert found([FIRST], tasks=1) == {}
    assert found(None, tasks=0) == {}, "nothing was read"


@pytest.mark.parametrize("marks", [None, [], [END], [END, FIRST, FIRST]], ids=["unseen", "none", "end", "twice"])
def test_a_task_that_has_not_read_to_its_end_stops_the_job(marks: list[dict[str, Any]] | None) -> None:
    with pytest.raises(TransformError, match="before the end of its input") as caught:
        found(marks, tasks=2)
    assert "stopping.predicate" in caught.value.remedy
    assert found(marks, tasks=2, predicate="") == {}, "no predicate, nothing to miss"


partitions = st.tuples(st.sampled_from(["a", "a-1", "b"]), st.integers(0, 2))


@given(st.lists(st.tuples(partitions, st.sampled_from([None, None, None, True])), max_size=40), st.data())
def test_any_batches_come_to_what_one_record_after_the_other_would(
    records: list[tuple[tuple[str, int], bool | None]], data: st.DataObject
) -> None:
    given_rows: list[Row] = [(*partition, offset, mark) for offset, (partition, mark) in enumerate(records)]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(given_rows)), max_size=4)))
    bounds = [0, *cuts, len(given_rows)]
    batches = [batch(given_rows[start:stop]) for start, stop in itertools.pairwise(bounds)]
    expected, ended = [], set()
    for topic, partition, offset, mark in given_rows:
        if (topic, partition) not in ended:
            expected.append((topic, partition, offset, mark))
            if mark:
                ended.add((topic, partition))
    out = [row for found in end_partitions(SCHEMA, batches) for row in rows_of(found)]
    assert out == [*expected, (None, 0, None, True)]
