"""What the demo prints at its end."""

from __future__ import annotations

from demo.story import Outcome
from demo.table import render


def incidents_table(outcome: Outcome) -> str:
    """How long each incident was felt."""
    return render(
        ("incident", "at checkpoint", "running after s", "next checkpoint after s", "nothing written for s"),
        [
            (one.what, one.checkpoint, one.running_after, one.going_on_after, pause)
            for one, pause in zip(outcome.incidents, outcome.pauses, strict=True)
        ],
    )


def count_table(outcome: Outcome) -> str:
    """Every record and every transaction."""
    status, verdict = outcome.status, outcome.verdict
    transactions = status.get("transactions", {})
    return render(
        ("counted", "number"),
        [
            ("records in", verdict.records_in),
            ("records out, read_committed", verdict.records_out),
            ("lost", verdict.lost),
            ("duplicates", verdict.duplicates),
            ("wrong content", verdict.wrong),
            ("attempts of the driver", status.get("attempt", {}).get("id", 0)),
            ("checkpoints", status.get("checkpoint", {}).get("id", 0)),
            ("transactions committed", transactions.get("committed", 0)),
            ("transactions aborted", transactions.get("aborted", 0)),
            ("transactions left open", len(outcome.open_transactions)),
            ("offsets held back by them", outcome.held_back),
        ],
    )


def verdict_line(outcome: Outcome) -> str:
    """The last line."""
    if outcome.good:
        return f"every one of {outcome.verdict.records_in:,} records is there exactly once"
    left = f"; open: {', '.join(outcome.open_transactions)}" if outcome.open_transactions else ""
    return f"NOT exactly once: {outcome.verdict.explain()}{left}"
