"""Which jobs divert, and what the diverting stage does to a batch; Spark itself is in tests/integration/engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark import TaskContext

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.errors import ConfigurationError
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.model.job.sections.source import Source
from sparkapp.sink.dead_letter import ERROR, LETTER_SCHEMA, RAW_KEY, RAW_VALUE, STAGE
from sparkapp.spark.frames import record_policy
from sparkapp.spark.frames.dead_letter_file import DeadLetterFile
from sparkapp.spark.frames.record_policy import dead_letters_of_task, divert, diverts, fallible_sides, require_aligned
from tests.support.jobs.plain_job import plain_spec

SPEC = plain_spec(
    source=Source(topics=("in",), group_id="g", value_format=Format.JSON, value_schema="n INT"),
    record_errors=RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dlq"),
)


def test_only_formats_that_can_refuse_a_record_have_a_policy() -> None:
    assert fallible_sides(SPEC) == ("value",)
    assert diverts(SPEC)
    text = replace(SPEC, source=replace(SPEC.source, value_format=Format.STRING, value_schema=""))
    assert fallible_sides(text) == ()
    assert not diverts(text)
    require_aligned(text, read_apart=False)


def test_tasks_that_write_other_records_have_no_letters_of_their_own() -> None:
    require_aligned(SPEC, read_apart=True)
    require_aligned(replace(SPEC, record_errors=RecordErrors(policy=OnRecordError.SKIP)), read_apart=False)
    with pytest.raises(ConfigurationError) as caught:
        require_aligned(SPEC, read_apart=False)
    assert "onRecordError: Skip" in caught.value.remedy
    both = replace(SPEC, record_errors=replace(SPEC.record_errors, transform_policy=OnRecordError.SKIP))
    with pytest.raises(ConfigurationError) as caught:
        require_aligned(both, read_apart=True)
    assert "onTransformError: Fail" in caught.value.remedy


def rows(*errors: str | None) -> pa.RecordBatch:
    fields = [*SOURCE_SCHEMA, pa.field(RAW_KEY, pa.binary()), pa.field(RAW_VALUE, pa.binary())]
    fields += [pa.field(STAGE, pa.string()), pa.field(ERROR, pa.string())]
    return pa.RecordBatch.from_pylist(
        [
            {"value": b"parsed", "topic": "in", "partition": 0, "offset": offset, RAW_VALUE: b"raw %d" % offset,
             STAGE: error and "value", ERROR: error}
            for offset, error in enumerate(errors)
        ],
        schema=pa.schema(fields),
    )  # fmt: skip


def test_bad_rows_leave_and_good_rows_stay_in_order(tmp_path: Path) -> None:
    file = DeadLetterFile(attempt_key="l", stage=0, partition=0, task_attempt=0, scratch=tmp_path)
    with patch.object(record_policy, "dead_letters_of_task", return_value=file):
        out = list(divert("ns.job", "l", iter([rows(None, "bad", None), rows(), rows(None), rows("x", "y")])))
    assert [found.schema.names for found in out] == [SOURCE_SCHEMA.names] * 4
    assert [found.column("offset").to_pylist() for found in out] == [[0, 2], [], [0], []]
    letters = [value for letter in file.take() for value in letter.column("value").to_pylist()]
    assert letters == [b"raw 1", b"raw 0", b"raw 1"]


def test_the_stage_that_is_not_read_to_its_end_hands_nothing_over(tmp_path: Path) -> None:
    file = DeadLetterFile(attempt_key="l", stage=0, partition=0, task_attempt=0, scratch=tmp_path)
    with patch.object(record_policy, "dead_letters_of_task", return_value=file):
        stage = divert("ns.job", "l", iter([rows("bad"), rows(None)]))
        next(stage)
        stage.close()
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_tasks_of_two_stages_on_one_executor_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Subtasks 0 and 2 after a rescale in place: each is the first task of its wave, and both write at once."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))

    def file(stage: int, task_attempt: int) -> DeadLetterFile:
        context = SimpleNamespace(stageId=lambda: stage, partitionId=lambda: 0, taskAttemptId=lambda: task_attempt)
        with patch.object(TaskContext, "get", return_value=context):
            return dead_letters_of_task("l")

    with file(0, 0).writing() as first, file(1, 2).writing() as second:
        for stream, value in ((first, b"a"), (second, b"b")):
            letter = {"key": None, "value": value, "headers": None}
            stream.write_batch(pa.RecordBatch.from_pylist([letter], schema=LETTER_SCHEMA))
    for each, value in ((file(0, 0), b"a"), (file(1, 2), b"b")):
        assert [row["value"] for letters in each.take() for row in letters.to_pylist()] == [value]
