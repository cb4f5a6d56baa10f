"""Tests the job in job.yaml: python -m pytest."""

from pathlib import Path

from kafkaspark.testing import Record, run_transform

JOB = Path(__file__).with_name("job.yaml")


def test_large_orders_are_written() -> None:
    orders = [
        Record({"id": 1, "customer": "ann", "amount": 250.0}, key="ann"),
        Record({"id": 2, "customer": "bob", "amount": 5.0}, key="bob"),
    ]
    written = run_transform(JOB, orders)
    assert written == [Record({"id": 1, "customer": "ANN", "amount": 250.0}, key="ann")]
