"""All records of a job, a topic or a schema are dropped, many are, or a few are: the last is no finding."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from sparkapp.model.job.sections.record_errors import OnRecordError, RecordErrors
from sparkapp.source import record_tally
from sparkapp.source.record_tally import SCHEMA, TOPIC, TRANSFORM, Example, Group, Tally, tallies
from sparkapp.spark.reporting.dropped_records import DroppedRecords
from tests.support.clock import FakeClock

SKIP = RecordErrors(policy=OnRecordError.SKIP)
LETTERS = RecordErrors(policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dlq")
EXAMPLE = Example("in", 1, 77, "the value is not JSON")
IN, OTHER, SEVEN = Group(TOPIC, "in"), Group(TOPIC, "other"), Group(SCHEMA, "7")


def bad(count: int, parsed: int = 0) -> Tally:
    return Tally(parsed, count, EXAMPLE)


@pytest.fixture(autouse=True)
def of_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_tally, "_known", set())
    monkeypatch.setattr(record_tally, "_shown", set())


def test_all_records_of_a_job() -> None:
    judge = DroppedRecords(SKIP)
    assert judge.judge({}) == ""
    assert not judge.judged
    text = judge.judge({IN: bad(12)})
    assert text == (
        "all of the last 12 records were skipped, for example topic in, partition 1, offset 77: the value is not JSON"
    )
    assert judge.judged
    assert judge.judge({IN: bad(13)}) == text, "the text is stable"
    assert "the last 24 records" in judge.judge({IN: bad(24)})
    assert judge.judge({IN: bad(24)}) != ""
    assert judge.judge({IN: bad(24, parsed=1)}) == ""
    assert judge.judge({IN: bad(26, parsed=1)}) == ""
    assert "the last 5 records" in judge.judge({IN: bad(29, parsed=1)})


def test_the_dead_letter_topic_is_named() -> None:
    assert "all of the last 3 records were written to topic dlq" in DroppedRecords(LETTERS).judge({IN: bad(3)})


def test_a_large_share_of_a_minute_is_a_finding_until_it_is_half_of_that() -> None:
    clock = FakeClock()
    judge = DroppedRecords(LETTERS, clock=clock)
    assert judge.judge({IN: bad(12, parsed=87)}) == "", "99 records are too few"
    text = judge.judge({IN: bad(12, parsed=88)})
    assert text == (
        "12 % of the last 100 records were written to topic dlq, for example topic in, partition 1, offset 77: the"
        " value is not JSON"
    )
    assert judge.judge({IN: bad(24, parsed=170)}) == text, "the text is stable"
    clock.now += 30
    assert judge.judge({IN: bad(24, parsed=300)}) == text, "7 % is not over yet"
    assert judge.judge({IN: bad(24, parsed=700)}) == ""
    assert judge.judge({IN: bad(54, parsed=701)}) == "", "again, and it is below a tenth"
    clock.now += 65
    assert "16 % of the last 831 " in judge.judge({IN: bad(24 + 130, parsed=300 + 701)}), "of the last minute"


def test_failures_of_the_transform_are_a_finding_of_their_own() -> None:
    errors = RecordErrors(
        policy=OnRecordError.SKIP, transform_policy=OnRecordError.DEAD_LETTER, dead_letter_topic="dlq"
    )
    failed, example = Group(TRANSFORM, "in"), Example("in", 0, 5, "ValueError: bad (risky.py:3 in f)")
    judge = DroppedRecords(errors)
    text = judge.judge({IN: Tally(50, 0), failed: Tally(0, 4, example)})
    assert text == (
        "the transform fails for all of the last 4 records, which were written to topic dlq, for example topic in,"
        " partition 0, offset 5: ValueError: bad (risky.py:3 in f)"
    )
    assert judge.judge({IN: Tally(50, 0), failed: Tally(46, 4, example)}) == ""
    assert "were skipped" in judge.judge({IN: bad(3, parsed=50), failed: Tally(46, 4, example)})


def test_a_rare_bad_record_is_no_finding() -> None:
    judge = DroppedRecords(SKIP)
    for number in range(1, 50):
        assert judge.judge({IN: bad(number, parsed=100 * number)}) == ""
    assert judge.judge({IN: bad(50, parsed=4900)}) == "", "a quiet checkpoint with a bad record alone"
    assert judge.judge({IN: bad(50, parsed=4901)}) == ""


@pytest.mark.parametrize(
    ("first", "of"),
    [({IN: bad(5), OTHER: Tally(9, 0)}, "of topic in"), ({IN: bad(5, 9), SEVEN: bad(5)}, "of schema 7")],
)
def test_all_records_of_a_topic_or_schema(first: dict[Group, Tally], of: str) -> None:
    judge = DroppedRecords(SKIP)
    assert f"all of the last 5 records {of} were skipped" in judge.judge(first)
    later = {group: Tally(tally.parsed + 1, tally.bad, tally.example) for group, tally in first.items()}
    assert judge.judge(later) == ""


def batch(*rows: tuple[str, bytes | None, str | None]) -> tuple[pa.RecordBatch, pa.Array, pa.Array]:
    places = pa.RecordBatch.from_pydict({
        "topic": [topic for topic, _, _ in rows], "partition": pa.array([3] * len(rows), pa.int32()),
        "offset": pa.array(range(len(rows)), pa.int64()),
    })  # fmt: skip
    return (
        places,
        pa.array([error for *_, error in rows], pa.string()),
        pa.array([raw for _, raw, _ in rows], pa.binary()),
    )


def framed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"x"


def test_workers_count_by_topic_and_schema() -> None:
    totals: Counter[str] = Counter()
    places, errors, raw = batch(
        ("in", framed(7), None), ("in", framed(8), "line 1\nline 2"), ("other", framed(7), None), ("other", None, None),
        ("in", b"{}", "not framed"), ("in", framed(8), "again"),
    )  # fmt: skip
    for _ in range(2):
        record_tally.note(places, errors, totals.update, framed=raw)
    found = tallies({"w/1": totals, "w/2": {"fetched": 9}})
    example = Example("in", 3, 1, "line 1 line 2")
    assert found == {
        Group(TOPIC, "in"): Tally(2, 6, example), Group(TOPIC, "other"): Tally(4, 0),
        Group(SCHEMA, "7"): Tally(4, 0), Group(SCHEMA, "8"): Tally(0, 4, example),
    }  # fmt: skip
    assert tallies({"w/1": totals, "w/2": totals})[Group(SCHEMA, "8")] == Tally(0, 8, example)


def test_a_record_is_an_example_whatever_else_is_in_its_row() -> None:
    totals: Counter[str] = Counter()
    places, errors, _ = batch(("in", None, None), ("in", None, "bad"))
    late = pa.array([1 << 60] * 2).cast(pa.timestamp("us", tz="UTC"))
    dates = pa.array([1 << 30] * 2, pa.int32()).cast(pa.date32())
    record_tally.note(
        places.append_column("timestamp", late).append_column("value", dates), errors, totals.update, framed=None
    )
    assert tallies({"w": totals}) == {IN: Tally(1, 1, Example("in", 3, 1, "bad"))}


def test_records_name_no_more_schemas_than_are_counted() -> None:
    totals: Counter[str] = Counter()
    places, errors, raw = batch(*(("in", framed(number), "bad") for number in range(1000)))
    record_tally.note(places, errors, totals.update, framed=raw)
    assert len(tallies({"w": totals})) <= 2 * record_tally.MAX_GROUPS
    assert tallies({"w": totals})[IN].bad == 1000
