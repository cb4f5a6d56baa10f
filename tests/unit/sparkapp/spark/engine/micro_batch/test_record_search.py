"""The search for the record for which a transform fails: batches over halves of what a checkpoint has read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.errors import KafkaSparkJobError, KafkaUnreachable, RecordFailed, TransformFailed
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.engine.micro_batch import record_search
from sparkapp.spark.engine.micro_batch.record_search import RecordSearch, Splits, halves

READ = tuple(
    KafkaPartitionSplit(TopicPartition("in", number), start, stop)
    for number, start, stop in ((0, 100, 600), (1, 7, 7), (2, 0, 1000), (3, 5, 6))
)
RANGES = "in-0 offsets 100 to 599, in-2 offsets 0 to 999, in-3 offset 5"
ERROR = TransformFailed("ValueError: of the batch (risky.py:1 in f)", detail="its traceback")
Position = tuple[int, int]


@dataclass
class Batches:
    """A transform that fails for some records, by partition and offset."""

    bad: frozenset[Position]
    fails: Callable[[Position], Exception] = field(
        default=lambda position: TransformFailed(f"ValueError: {position} (risky.py:1 in f)", detail="t")
    )
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
        if found:
            raise self.fails(found[0])

    def cancel(self) -> None:
        self.cancelled += 1


def searched(batches: Batches, *, wanted: Callable[[], bool] = lambda: True) -> KafkaSparkJobError:
    return RecordSearch(
        run=batches.run, key_of=lambda split: b"k%d" % split.start, cancel=batches.cancel, wanted=wanted
    ).with_record(ERROR, READ)


@pytest.mark.parametrize("position", [(0, 100), (0, 599), (2, 0), (2, 437), (2, 999), (3, 5)])
def test_a_single_record_is_named(position: Position) -> None:
    batches = Batches(frozenset({position}))
    found = searched(batches)
    assert type(found) is RecordFailed
    number, offset = position
    assert found.message == (
        f"topic in, partition {number}, offset {offset}, key b'k{offset}': ValueError: {position} (risky.py:1 in f)"
    )
    assert found.detail == "t"
    assert len(batches.runs) <= 12, "halves of 1,501 records, and the record alone"
    assert batches.cancelled == 0


def test_the_first_of_several_is_named() -> None:
    found = searched(Batches(frozenset({(2, 999), (2, 400), (0, 300)})))
    assert "partition 0, offset 300, " in found.message


def test_a_batch_without_such_a_record_keeps_its_range() -> None:
    found = searched(Batches(frozenset()))
    assert type(found) is TransformFailed
    assert found.message == f"{ERROR.message}, while it read {RANGES}; no record of them fails alone"
    assert found.detail == ERROR.detail


@pytest.mark.parametrize(
    "failure", [KafkaUnreachable("no broker"), RuntimeError("Job 7 cancelled")], ids=["Kafka", "cancelled"]
)
def test_an_error_that_is_not_the_transforms_ends_the_search(failure: Exception) -> None:
    batches = Batches(frozenset({(2, 5)}), fails=lambda _: failure)
    assert searched(batches).message == f"{ERROR.message}, while it read {RANGES}"


def test_a_stop_ends_the_search_with_what_is_known() -> None:
    asked = iter([True, True, False])
    found = searched(Batches(frozenset({(0, 120)})), wanted=lambda: next(asked))
    assert found.message == "ValueError: (0, 120) (risky.py:1 in f), while it read in-0 offsets 100 to 474"


def test_the_time_ends_the_search_and_the_batch_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_search, "SECONDS", 0.0)
    batches = Batches(frozenset({(0, 120)}))
    assert searched(batches).message == f"{ERROR.message}, while it read {RANGES}"
    assert batches.runs == []


def test_halves_are_the_splits_in_order() -> None:
    first, second = halves(READ)
    assert sum(split.size for split in first) == sum(split.size for split in READ) // 2
    assert [str(split.partition) for split in first] == ["in-0", "in-2"]
    assert [str(split.partition) for split in second] == ["in-2", "in-3"]
    assert first[-1].stop == second[0].start
