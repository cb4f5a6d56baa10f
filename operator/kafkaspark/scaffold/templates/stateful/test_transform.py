"""Tests the job in job.yaml: python -m pytest."""

from pathlib import Path

from kafkaspark.testing import Record, run_transform

JOB = Path(__file__).with_name("job.yaml")


def order(at: str, amount: float) -> dict[str, object]:
    return {"id": 1, "at": f"2026-01-01T{at}Z", "amount": amount}


def test_a_minute_is_written_when_the_watermark_has_passed_it() -> None:
    written = run_transform(JOB, [order("12:00:10", 1.0), order("12:00:50", 2.0), order("12:02:00", 4.0)])
    assert written == [Record({"orders": 2, "sum": 3.0}, key="2026-01-01 12:00")]


def test_a_late_order_is_dropped() -> None:
    checkpoints = [[order("12:00:10", 1.0), order("12:05:00", 2.0)], [order("12:00:20", 4.0)]]
    written = run_transform(JOB, checkpoints=checkpoints)
    assert written == [Record({"orders": 1, "sum": 1.0}, key="2026-01-01 12:00")]
    assert written.late == 1
