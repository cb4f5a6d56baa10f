"""The file between the diverting and the writing stage of one task."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sparkapp.model.errors import TransformError
from sparkapp.sink.dead_letter import LETTER_SCHEMA
from sparkapp.spark.hand_over import HandOver


def hand_over(scratch: Path, *, partition: int = 1, task_attempt: int = 7, life: str = "uid-1") -> HandOver:
    return HandOver(life=life, partition=partition, task_attempt=task_attempt, scratch=scratch)


def batch(*values: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"key": None, "value": value, "headers": None} for value in values], schema=LETTER_SCHEMA
    )


def put(one: HandOver, *values: bytes) -> None:
    with one.writing() as stream:
        stream.write_batch(batch(*values))


def taken(one: HandOver) -> list[bytes]:
    return [value for found in one.take() for value in found.column("value").to_pylist()]


def files(scratch: Path) -> list[str]:
    return sorted(file.name for file in scratch.rglob("*") if file.is_file())


def test_what_is_put_is_taken_once(tmp_path: Path) -> None:
    put(hand_over(tmp_path), b"a", b"b")
    assert taken(hand_over(tmp_path)) == [b"a", b"b"]
    assert files(tmp_path) == []
    with pytest.raises(TransformError):
        taken(hand_over(tmp_path))


def test_nothing_put_is_not_the_same_as_nothing_there(tmp_path: Path) -> None:
    with hand_over(tmp_path).writing():
        pass
    assert taken(hand_over(tmp_path)) == []


def test_an_unfinished_file_is_not_taken(tmp_path: Path) -> None:
    with hand_over(tmp_path).writing() as stream:
        stream.write_batch(batch(b"a"))
        with pytest.raises(TransformError, match="before the end of its input"):
            taken(hand_over(tmp_path))


def test_a_failed_stage_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hand_over(tmp_path).writing():
        raise ZeroDivisionError
    assert files(tmp_path) == []


def test_a_retry_removes_what_the_failed_task_left_and_leaves_its_neighbours(tmp_path: Path) -> None:
    put(hand_over(tmp_path, task_attempt=7), b"old")
    put(hand_over(tmp_path, partition=11, task_attempt=8), b"neighbour")
    put(hand_over(tmp_path, task_attempt=9), b"new")
    assert taken(hand_over(tmp_path, task_attempt=9)) == [b"new"]
    assert taken(hand_over(tmp_path, partition=11, task_attempt=8)) == [b"neighbour"]
    assert files(tmp_path) == []


def test_two_attempts_of_a_job_do_not_meet(tmp_path: Path) -> None:
    put(hand_over(tmp_path, life="uid-1"), b"a")
    with pytest.raises(TransformError):
        taken(hand_over(tmp_path, life="uid-2"))
