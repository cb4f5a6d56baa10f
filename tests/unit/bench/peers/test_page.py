"""The page that a run of the bench of peers publishes."""

from __future__ import annotations

import pytest

from bench.peers.page import PAGES, Page, page, sections
from bench.peers.results import RATE, WHOLE, Results, Run
from tests.support.prose import Found, Kind, findings
from tests.unit.docs.test_texts import prose_of

ENVIRONMENT = {
    "date": "2026-01-01",
    "machine": {"cpu": "a CPU", "cores": 2, "memoryGibibytes": 24},
    "versions": {"Spark": "4.3.0"},
    "options": {"parallelism": 2},
}


PEERS, STATE = PAGES


def results() -> Results:
    runs = (
        Run(workload="json", variant="spark", round=0, figures={RATE: 1000.0, WHOLE: 1000.0}),
        Run(workload="count", variant="ours-exactly-once", round=0, figures={RATE: 900_000.0, WHOLE: 60_000.0}),
        Run(workload="count", variant="flink-sql", round=0, figures={RATE: 90_000.0, WHOLE: 40_000.0}),
    )
    return Results(environment=ENVIRONMENT, rounds=1, runs=runs)


def test_a_page_has_the_workloads_that_ran_and_names_who_did_not() -> None:
    assert [section.workload for section in sections(results())] == ["json", "count"]
    text = page(results(), PEERS)
    assert text.count("\n## ") == text.count("![") == 1
    assert "| Spark's connector | AtLeastOnce | 1 | 1 |" in text
    assert "| Flink SQL | ExactlyOnce | not run |" in text
    assert "latency]" not in text
    assert "- Spark 4.3.0" in text


def test_windows_are_compared_by_the_whole_task() -> None:
    """Most of them are written at its end, so the rate behind the first fifth of the results says nothing."""
    text = page(results(), STATE)
    assert "| ours, micro-batch | ExactlyOnce | 60 | – | – | 1.50 |" in text
    assert text.count("\n## ") == 1
    assert "warm" not in text


@pytest.mark.parametrize("of", PAGES, ids=lambda of: of.file)
def test_a_page_keeps_the_rules_of_prose(of: Page) -> None:
    text = page(results(), of)
    assert not [finding for block in prose_of(text) for finding in findings(Found("page", block, Kind.TEXT))]
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120
