"""Tests the job in job.yaml: python -m pytest."""

from pathlib import Path

from kafkaspark.testing import Record, run_transform

JOB = Path(__file__).with_name("job.yaml")


def test_customers_are_masked() -> None:
    written = run_transform(JOB, [Record({"id": 1, "customer": "ann", "amount": 250.0}, key="1")])
    assert [record.json for record in written] == [{"id": 1, "customer": "a**", "amount": 250.0}]


def test_a_tombstone_stays() -> None:
    assert run_transform(JOB, [Record(None, key="1")]) == [Record(None, key="1")]
