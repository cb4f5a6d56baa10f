"""Tests the job in job.yaml: python -m pytest."""

from pathlib import Path

from kafkaspark.testing import Record, run_transform

JOB = Path(__file__).with_name("job.yaml")


def test_each_order_has_its_tax() -> None:
    orders = [
        Record({"id": 1, "customer": "ann", "amount": 250.0}, key="ann"),
        Record({"id": 2, "customer": "bob"}, key="bob"),
    ]
    written = run_transform(JOB, orders)
    assert written == [Record({"id": 1, "customer": "ann", "amount": 250.0, "tax": 62.5}, key="ann")]
