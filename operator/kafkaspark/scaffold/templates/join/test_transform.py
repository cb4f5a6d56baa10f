"""Tests the job in job.yaml: python -m pytest."""

from pathlib import Path

from kafkaspark.testing import Record, run_transform

JOB = Path(__file__).with_name("job.yaml")


def event(topic: str, number: int, at: str) -> Record:
    return Record({"id": number, "at": f"2026-01-01T{at}Z", "amount": 5.0}, topic=topic)


def test_an_order_is_written_with_its_payment() -> None:
    events = [
        event("orders", 1, "12:00:00"), event("orders", 2, "12:00:00"),
        event("payments", 1, "12:20:00"), event("payments", 2, "13:20:00"),
    ]  # fmt: skip
    written = run_transform(JOB, events)
    assert [record.json["id"] for record in written] == [1]
