"""What the storm expects of readers, and what it says of them."""

from __future__ import annotations

import json

from clusterjob.kafka.reading import ReadRecord
from sparkapp.model.partition import TopicPartition
from tests.soak.storm.ledger import Ledger

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


def records(*numbers: int, partition: int = 0) -> list[ReadRecord]:
    return [ReadRecord(partition, None, json.dumps({"id": number}).encode(), 0) for number in numbers]


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
    ledger.restored({FIRST: 1, SECOND: 1}, {FIRST: 3, SECOND: 1})
    again = [2, 4]
    assert ledger.differences(SOURCE, records(*range(5), 6, *again)) == []
    assert ledger.differences(SOURCE, records(*range(5), 6, 2)) == ["1 records lost: 4 (due 2, seen 1)"]
    ledger.restored({FIRST: 0}, {FIRST: 2, SECOND: 2})
    assert [ledger.times(0, offset) for offset in range(4)] == [2, 3, 2, 1]
    assert [ledger.times(1, offset) for offset in range(2)] == [2, 2], "a partition without offsets begins at its first"
