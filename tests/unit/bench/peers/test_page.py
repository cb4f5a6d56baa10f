"""The page that a run of the bench of peers publishes."""

from __future__ import annotations

from bench.peers.page import page, sections
from bench.peers.results import RATE, WHOLE, Results, Run
from tests.support.prose import Found, Kind, findings
from tests.unit.docs.test_texts import prose_of

ENVIRONMENT = {
    "date": "2026-01-01",
    "machine": {"cpu": "a CPU", "cores": 2, "memoryGibibytes": 24},
    "versions": {"Spark": "4.3.0"},
    "options": {"parallelism": 2},
}


def results() -> Results:
    run = Run(workload="json", variant="spark", round=0, figures={RATE: 1000.0, WHOLE: 1000.0})
    return Results(environment=ENVIRONMENT, rounds=1, runs=(run,))


def test_a_page_has_the_workloads_that_ran_and_names_who_did_not() -> None:
    assert [section.workload for section in sections(results())] == ["json"]
    text = page(results())
    assert text.count("\n## ") == text.count("![") == 1
    assert "| Spark's connector | AtLeastOnce | 1 | 1 |" in text
    assert "| Flink SQL | ExactlyOnce | not run |" in text
    assert "latency]" not in text
    assert "- Spark 4.3.0" in text


def test_the_page_keeps_the_rules_of_prose() -> None:
    text = page(results())
    assert not [finding for block in prose_of(text) for finding in findings(Found("page", block, Kind.TEXT))]
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120
