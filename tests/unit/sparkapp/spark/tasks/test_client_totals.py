"""Totals of Kafka clients, collected by tasks that end in any order."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from sparkapp.spark.tasks import client_totals


def test_totals_that_a_task_collected_too_early_take_nothing_back() -> None:
    known: dict[str, Mapping[str, int]] = {}
    late = {"host/1": {"producedRecords": 10}, "host/2": {"producedRecords": 7, "flushes": 1}}
    early = {"host/1": {"producedRecords": 10}, "host/2": {"producedRecords": 3}}
    for found in (late, early):
        client_totals.merge(known, found)
    assert known == late


def test_totals_of_workers_that_ended_long_ago_are_told_once_more_and_then_dropped(tmp_path: Path) -> None:
    """Spark ends idle workers, so a job with pauses has new workers for months."""
    client_totals.publish("a", scratch=tmp_path)
    (own,) = tmp_path.glob("*/*.json")
    ended, recent = own.with_name("4194305.json"), own.with_name("4194306.json")  # no process has such a number
    for file in (ended, recent):
        file.write_text('{"producedRecords": 7}')
    for file in (ended, own):
        os.utime(file, (time.time() - 3600, time.time() - 3600))
    assert len(client_totals.collect("a", scratch=tmp_path)) == 3
    assert sorted(tmp_path.glob("*/*.json")) == sorted([own, recent])
