"""The file between the diverting and the writing stage of one task."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparkapp.model.errors import TransformError
from sparkapp.sink.dead_letter import LETTER_SCHEMA
from sparkapp.spark.frames.dead_letter_file import DeadLetterFile


def dead_letter_file(
    scratch: Path, *, partition: int = 1, task_attempt: int = 7, attempt_key: str = "uid-1"
) -> DeadLetterFile:
    return DeadLetterFile(
        attempt_key=attempt_key, stage=0, partition=partition, task_attempt=task_attempt, scratch=scratch
    )


def batch(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"key": None, "value": value, "headers": None} for value in values], schema=LETTER_SCHEMA
    )


def put(file: DeadLetterFile, *values: bytes) -> None:
    with file.writing() as stream:
        stream.write_batch(batch(*values))


def taken(file: DeadLetterFile) -> list[bytes]:
    return [value for found in file.take() for value in found.column("value").to_pylist()]


def files(scratch: Path) -> list[str]:
    return sorted(file.name for file in scratch.rglob("*") if file.is_file())


def test_what_is_put_is_taken_once(tmp_path: Path) -> None:
    put(dead_letter_file(tmp_path), b"a", b"b")
    assert taken(dead_letter_file(tmp_path)) == [b"a", b"b"]
    assert files(tmp_path) == []
    with pytest.raises(TransformError):
        taken(dead_letter_file(tmp_path))


def test_nothing_put_is_not_the_same_as_nothing_there(tmp_path: Path) -> None:
    with dead_letter_file(tmp_path).writing():
        pass
    assert taken(dead_letter_file(tmp_path)) == []


def test_an_unfinished_file_is_not_taken(tmp_path: Path) -> None:
    with dead_letter_file(tmp_path).writing() as stream:
        stream.write_batch(batch(b"a"))
        with pytest.raises(TransformError, match="before the end of its input"):
            taken(dead_letter_file(tmp_path))


def test_a_failed_stage_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), dead_letter_file(tmp_path).writing():
        raise ZeroDivisionError
    assert files(tmp_path) == []


def test_a_retry_removes_what_the_failed_task_left_and_leaves_its_neighbours(tmp_path: Path) -> None:
    put(dead_letter_file(tmp_path, task_attempt=7), b"old")
    put(dead_letter_file(tmp_path, partition=11, task_attempt=8), b"neighbour")
    put(dead_letter_file(tmp_path, task_attempt=9), b"new")
    assert taken(dead_letter_file(tmp_path, task_attempt=9)) == [b"new"]
    assert taken(dead_letter_file(tmp_path, partition=11, task_attempt=8)) == [b"neighbour"]
    assert files(tmp_path) == []


def test_two_attempts_of_a_job_do_not_meet(tmp_path: Path) -> None:
    put(dead_letter_file(tmp_path, attempt_key="uid-1"), b"a")
    with pytest.raises(TransformError):
        taken(dead_letter_file(tmp_path, attempt_key="uid-2"))
