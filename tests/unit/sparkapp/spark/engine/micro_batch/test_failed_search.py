"""The search for all records for which a transform fails: which it finds, what it costs, and where it gives up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaSparkJobError, KafkaUnreachable, RecordFailed, TransformFailed
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.micro_batch import failed_search
from sparkapp.spark.engine.micro_batch.failed_search import MAX_RECORDS, FailedSearch
from sparkapp.spark.engine.micro_batch.record_search import Splits
from sparkapp.spark.frames.failed.left_out import FoundRecord

READ = tuple(
    KafkaPartitionSplit(TopicPartition("in", number), start, stop)
    for number, start, stop in ((0, 100, 600), (1, 7, 7), (2, 0, 1000), (3, 5, 6))
)
Position = tuple[int, int]


def sql_error(position: Position) -> TransformFailed:
    return TransformFailed(f"[CAST_INVALID_INPUT] {position} SQLSTATE: 22018")


@dataclass
class Batches:
    """A transform that fails for some records, by partition and offset."""

    bad: frozenset[Position]
    fails: Callable[[Position], Exception] = sql_error
    least: int = 1
    runs: list[int] = field(default_factory=list)
    cancelled: int = 0

    def run(self, splits: Splits) -> None:
        assert all(split.size for split in splits), "a batch has a task for each split"
        self.runs.append(sum(split.size for split in splits))
        found = [
            (number, offset)
            for number, offset in sorted(self.bad)
            if any(s.partition.partition == number and s.start <= offset < s.stop for s in splits)
        ]
        if found and self.runs[-1] >= self.least:
            raise self.fails(found[0])

    def cancel(self) -> None:
        self.cancelled += 1

    def find(self) -> tuple[FoundRecord, ...]:
        return FailedSearch(run=self.run, cancel=self.cancel).find(sql_error((0, 0)), READ)


@pytest.mark.parametrize(
    "bad",
    [{(0, 100)}, {(3, 5)}, {(0, 100), (0, 101), (2, 0), (2, 437), (2, 999), (3, 5)}, {(2, n) for n in range(100)}],
    ids=["first", "last", "several", "a run of them"],
)
def test_all_records_are_found_in_order(bad: set[Position]) -> None:
    batches = Batches(frozenset(bad))
    found = batches.find()
    assert [(each.partition.partition, each.offset) for each in found] == sorted(bad)
    assert [each.failure.kind for each in found] == ["CAST_INVALID_INPUT"] * len(bad)
    assert found[-1].failure.text == f"[CAST_INVALID_INPUT] {max(bad)} SQLSTATE: 22018"
    assert len(batches.runs) <= 13 * len(bad), "halves of 1,501 records, the record alone, and what is behind it"
    assert batches.cancelled == 0


def test_a_failure_over_no_record_alone_is_the_error_itself() -> None:
    with pytest.raises(TransformFailed, match=r"^\[CAST_INVALID_INPUT\] \(0, 0\) SQLSTATE: 22018$"):
        Batches(frozenset({(2, 5)}), least=50).find()


def test_more_records_than_the_limit_fail_with_the_first() -> None:
    with pytest.raises(RecordFailed) as failed:
        Batches(frozenset((2, n) for n in range(300, 302 + MAX_RECORDS))).find()
    assert failed.value.message.startswith("topic in, partition 2, offset 300: [CAST_INVALID_INPUT] (2, 300) SQLSTATE")
    assert "fails for 100 records, and for in-2 offset 400. spec.onTransformError leaves" in failed.value.message
    assert "lower spec.source.limits.maxOffsetsPerCheckpoint" in failed.value.remedy


def test_the_end_of_the_time_fails_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Batches(frozenset({(0, 100), (2, 7)}))
    expired: list[bool] = []

    class Clock:
        def __init__(self) -> None:
            expired.append(False)

        @property
        def expired(self) -> bool:
            return len(batches.runs) > 15

    monkeypatch.setattr(failed_search.Deadline, "after", lambda _: Clock())
    with pytest.raises(
        RecordFailed, match=r"^topic in, partition 0, offset 100: .*fails for 1 records, and for in-0 of"
    ):
        batches.find()


@pytest.mark.parametrize("failure", [KafkaUnreachable("no broker"), RuntimeError("Job 7 cancelled")])
def test_an_error_that_is_not_the_transforms_ends_the_search(failure: Exception) -> None:
    with pytest.raises(KafkaSparkJobError, match=str(failure)):
        Batches(frozenset({(2, 5)}), fails=lambda _: failure).find()


def test_an_error_that_no_record_causes_is_raised() -> None:
    detail = 'Traceback (most recent call last):\n  File "/code/risky.py", line 9, in f\nConnectionError: no service\n'
    offline = TransformFailed("ConnectionError: no service (risky.py:9 in f)", detail=detail)
    with pytest.raises(TransformFailed, match=r"^ConnectionError: no service") as failed:
        Batches(frozenset({(2, 5)}), fails=lambda _: offline).find()
    assert not isinstance(failed.value, RecordFailed)
