"""The judge itself is judged: each way in which a sink can be wrong is counted as what it is."""

from __future__ import annotations

import json

import pytest

from clusterjob.kafka.reading import ReadRecord
from clusterjob.oracle import Verdict, compare, longest_pause, same


def record(number: int, *, key: bytes = b"k", timestamp: int = 0, **more: object) -> ReadRecord:
    return ReadRecord(0, key, json.dumps({"id": number, **more}).encode(), timestamp)


SOURCE = [record(number) for number in range(4)]


def counts(verdict: Verdict) -> tuple[int, int, int]:
    return verdict.lost, verdict.duplicates, verdict.wrong


def test_equal_content_in_any_order_is_exactly_once() -> None:
    verdict = compare(SOURCE, reversed(SOURCE), expect=same)
    assert verdict.exactly_once
    assert (verdict.records_in, verdict.records_out) == (4, 4)


def test_missing_records_are_lost() -> None:
    verdict = compare(SOURCE, SOURCE[:1], expect=same)
    assert counts(verdict) == (3, 0, 0)
    assert not verdict.exactly_once
    assert "first lost: 1, 2, 3" in verdict.explain()


def test_each_further_copy_is_a_duplicate() -> None:
    assert counts(compare(SOURCE, [*SOURCE, SOURCE[0], SOURCE[0]], expect=same)) == (0, 2, 0)


def test_a_lost_record_and_a_duplicate_do_not_cancel_out() -> None:
    verdict = compare(SOURCE, [*SOURCE[:3], SOURCE[0]], expect=same)
    assert verdict.records_in == verdict.records_out
    assert counts(verdict) == (1, 1, 0)


@pytest.mark.parametrize(
    "bad",
    [record(3, more=1), record(3, key=b"other")],
    ids=["other content", "other key"],
)
def test_a_record_with_other_content_is_wrong_and_not_lost(bad: ReadRecord) -> None:
    assert counts(compare(SOURCE, [*SOURCE[:3], bad], expect=same)) == (0, 0, 1)


@pytest.mark.parametrize("value", [None, b"", b"not json", b"[1]", b'{"id": "x"}', b'{"id": 99}'])
def test_a_record_of_no_source_record_is_wrong(value: bytes | None) -> None:
    assert counts(compare(SOURCE, [*SOURCE, ReadRecord(1, b"k", value, 0)], expect=same)) == (0, 0, 1)


def test_content_is_compared_with_the_expectation() -> None:
    sink = [record(number, double=2 * number) for number in range(4)]
    assert compare(SOURCE, sink, expect=lambda body: {**body, "double": 2 * body["id"]}).exactly_once
    assert counts(compare(SOURCE, sink, expect=same)) == (0, 0, 4)


def test_only_a_few_examples_are_kept() -> None:
    verdict = compare(SOURCE, SOURCE * 100, expect=same)
    assert verdict.duplicates == 396
    assert len(verdict.examples) == 5


@pytest.mark.parametrize("bad", [record(0), ReadRecord(0, b"k", b"{}", 0)], ids=["a number twice", "no number"])
def test_a_source_that_proves_nothing_is_refused(bad: ReadRecord) -> None:
    with pytest.raises(ValueError, match="no unique number"):
        compare([*SOURCE, bad], [], expect=same)


def test_the_longest_pause_is_one_that_touches_the_window() -> None:
    seconds = [0.0, 1.0, 5.0, 6.0, 20.0]
    sink = [record(number, timestamp=int(at * 1000)) for number, at in enumerate(seconds)]
    assert longest_pause(sink, since=2.0, until=3.0) == 4.0
    assert longest_pause(sink, since=5.5, until=7.0) == 14.0
    assert longest_pause(sink[:1], since=0.0, until=1.0) == 0.0
