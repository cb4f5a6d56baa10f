"""librdkafka's statistics, which count from a client's opening, as totals of a process."""

from __future__ import annotations

import json
from pathlib import Path

from sparkapp.dataplane.statistics import ClientTotals, FetchStatistics
from sparkapp.spark.tasks import client_totals


def text(records: int, size: int, *requests: int) -> str:
    brokers = {str(number): {"req": {"Fetch": count, "Metadata": 9}} for number, count in enumerate(requests)}
    return json.dumps({"rxmsgs": records, "rxmsg_bytes": size, "brokers": brokers})


def test_totals_outlive_a_consumer_that_is_opened_again() -> None:
    totals = ClientTotals()
    statistics = FetchStatistics(totals)
    statistics.add(text(10, 100, 2, 3), 0)
    statistics.add(None, 250)
    statistics.add(text(15, 150, 2, 4), 0)
    statistics.reopened()
    statistics.add(text(1, 7, 1), 0)
    assert totals.read() == {
        "fetchedRecords": 16, "fetchedBytes": 157, "fetchRequests": 7, "fetchThrottleMillis": 250,
    }  # fmt: skip


def test_every_worker_of_an_executor_is_collected_and_summed(tmp_path: Path) -> None:
    client_totals.publish("job-1", scratch=tmp_path)
    folder = tmp_path / "kafka-clients-job-1"
    (folder / "7.json").write_text(json.dumps({"flushes": 2}))
    (folder / "8.json").write_text(json.dumps({"flushes": 3, "fetchRequests": 1}))
    (folder / "9.part").write_text("{")
    found = client_totals.collect("job-1", scratch=tmp_path)
    assert len(found) == 3
    others = {worker: numbers for worker, numbers in found.items() if worker.endswith(("/7", "/8"))}
    assert client_totals.summed(others) == {"flushes": 5, "fetchRequests": 1}
    assert client_totals.collect("job-2", scratch=tmp_path) == {}
