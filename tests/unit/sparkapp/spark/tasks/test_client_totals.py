"""Totals of Kafka clients, collected by tasks that end in any order."""

from __future__ import annotations

from collections.abc import Mapping

from sparkapp.spark.tasks import client_totals


def test_totals_that_a_task_collected_too_early_take_nothing_back() -> None:
    known: dict[str, Mapping[str, int]] = {}
    late = {"host/1": {"producedRecords": 10}, "host/2": {"producedRecords": 7, "flushes": 1}}
    early = {"host/1": {"producedRecords": 10}, "host/2": {"producedRecords": 3}}
    for found in (late, early):
        client_totals.merge(known, found)
    assert known == late
