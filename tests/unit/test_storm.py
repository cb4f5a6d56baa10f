"""What the storm expects of readers, and what it says of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from clusterjob.kafka.reading import ReadRecord
from sparkapp.model.checkpoint.document import CheckpointDocument, Counters
from sparkapp.model.checkpoint.retained import RetainedCheckpoint, retained
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from tests.soak.storm.ledger import Ledger
from tests.soak.storm.stateful import LAST, StatefulLedger, expected

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


def records(*numbers: int, partition: int = 0) -> list[ReadRecord]:
    return [ReadRecord(partition, None, json.dumps({"id": number}).encode(), 0) for number in numbers]


def document(
    offsets: Mapping[TopicPartition, int], *, checkpoint_id: int = 1, records_out: int = 0
) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid="uid", attempt=1, checkpoint_id=checkpoint_id, created_at="2026-11-21T09:00:00Z", parallelism=1,
        prefix="p", counters=Counters(records_out=records_out),
        splits=tuple(KafkaPartitionSplit(partition, 0, offset) for partition, offset in offsets.items()),
    )  # fmt: skip


def checkpoint(
    offsets: Mapping[TopicPartition, int], *, checkpoint_id: int = 1, records_out: int = 0
) -> RetainedCheckpoint:
    return retained(document(offsets, checkpoint_id=checkpoint_id, records_out=records_out))


SOURCE = [*records(0, 2, 4, 6), *records(1, 3, partition=1)]


def test_without_a_restore_each_record_is_due_once() -> None:
    ledger = Ledger()
    assert ledger.differences(SOURCE, records(*range(5), 6)) == []
    assert ledger.differences(SOURCE, records(0, 2, 2, 3, 4, 6, 9)) == [
        "1 records lost: 1 (due 1, seen 0)",
        "2 records repeated: 2 (due 1, seen 2), 9 (due 0, seen 1)",
    ]


def test_a_restore_repeats_what_is_between_its_offsets() -> None:
    ledger = Ledger()
    ledger.restored(checkpoint({FIRST: 1, SECOND: 1}), document({FIRST: 3, SECOND: 1}))
    again = [2, 4]
    assert ledger.differences(SOURCE, records(*range(5), 6, *again)) == []
    assert ledger.differences(SOURCE, records(*range(5), 6, 2)) == ["1 records lost: 4 (due 2, seen 1)"]
    ledger.restored(checkpoint({FIRST: 0}), document({FIRST: 2, SECOND: 2}))
    assert [ledger.times(0, offset) for offset in range(4)] == [2, 3, 2, 1]
    assert [ledger.times(1, offset) for offset in range(2)] == [2, 2], "a partition without offsets begins at its first"


def rows(texts: Iterable[str]) -> list[ReadRecord]:
    return [ReadRecord(0, None, text.encode(), 0) for text in texts]


NUMBERS = range(1500)
STREAM = records(*NUMBERS, *LAST)


def test_a_job_with_state_writes_each_window_pair_and_timer_once() -> None:
    wanted = expected(NUMBERS)
    assert wanted.total() == 2 + 751 + 751 + 14
    assert wanted["window 10000 500 624750"] == 1
    assert wanted["timer 6 0 142"] == 1
    ledger = StatefulLedger()
    assert ledger.differences(STREAM, rows(wanted)) == []
    assert ledger.differences(STREAM, rows([*wanted - Counter(["pair 3"]), "pair 4"])) == [
        "1 rows lost: pair 3", "1 rows too often: pair 4"
    ]  # fmt: skip
    assert ledger.differences(STREAM, rows([*wanted, "pair 9999"])) == [
        "1 rows foreign: pair 9999", "1519 rows of 1518"
    ]  # fmt: skip


def test_restores_of_a_job_with_state_repeat_the_rows_behind_them() -> None:
    """Back from 500 rows to 200; on to 1100, 800 of its history; back to the same checkpoint, and to a later one."""
    wanted = list(expected(NUMBERS))
    ledger = StatefulLedger()
    first = checkpoint({}, checkpoint_id=2, records_out=200)
    ledger.restored(first, document({}, checkpoint_id=5, records_out=500))
    assert ledger.differences(STREAM, rows(wanted + wanted[200:500])) == []
    assert ledger.differences(STREAM, rows(wanted + wanted[200:499])) == ["1817 rows of 1818"]
    later = checkpoint({}, checkpoint_id=8, records_out=900)
    had = document({}, checkpoint_id=9, records_out=1100)
    ledger.restored(first, had)
    seen = wanted + wanted[200:500] + wanted[200:800]
    assert ledger.differences(STREAM, rows(seen)) == []
    ledger.restored(later, document({}, checkpoint_id=12, records_out=1200))
    assert ledger.differences(STREAM, rows(wanted[:500] + wanted[200:800] + wanted[200:300] + wanted[600:])) == []
