"""The tables and the verdict that the demo prints at its end."""

from __future__ import annotations

from pathlib import Path

from clusterjob.table import render
from clusterjob.timeline import Row, timeline
from demo.data import flights
from demo.story import Outcome

_SECONDS_AROUND = 10.0


def incidents_table(outcome: Outcome) -> str:
    """How long each incident interrupted the job."""
    return render(
        ("incident", "after checkpoint", "ready after (s)", "next checkpoint after (s)", "output pause (s)"),
        [
            (incident.what, incident.checkpoint, incident.ready_after, incident.checkpoint_after, pause)
            for incident, pause in zip(outcome.incidents, outcome.pauses, strict=True)
        ],
    )


def output_picture(outcome: Outcome, title: str) -> str:
    """The records of each second from before the first incident to behind the last, as the text of a picture."""
    first, last = outcome.incidents[0], outcome.incidents[-1]
    pauses = ", ".join(
        f"{incident.what} {pause:.1f} s" for incident, pause in zip(outcome.incidents, outcome.pauses, strict=True)
    )
    row = Row(
        title="records a second, by the time at which they were written",
        timestamps=outcome.written,
        marks={incident.began: incident.what for incident in outcome.incidents},
        since=first.began - _SECONDS_AROUND,
        until=last.began + last.checkpoint_after + _SECONDS_AROUND,
    )
    return timeline(title, f"Longest time without a record: {pauses}.", [row])


def count_table(outcome: Outcome) -> str:
    """The counts of records, attempts, checkpoints and transactions."""
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
            ("offsets behind open transactions", outcome.held_back),
        ],
    )


def verdict_line(outcome: Outcome) -> str:
    """The last line."""
    if outcome.good:
        return f"all {outcome.verdict.records_in:,} records are in the sink exactly once"
    left = f"; open transactions: {', '.join(outcome.open_transactions)}" if outcome.open_transactions else ""
    return f"NOT exactly once: {outcome.verdict.explain()}{left}"


def change_lines(code: Path, *, source: str, sink: str, namespace: str) -> list[str]:
    """How a reader changes the job that was left running, and sees the change: its source has no more records.

    :param code: the file of the transform, next to that of the job.
    """
    (record,) = flights(1)
    job = code.with_name("job.yaml")
    return [
        "To change the job, edit its files and apply them:",
        f"  {code}\n  {job}",
        f"  kafkaspark validate {job}",
        f"  kubectl --namespace={namespace} apply -k {code.parent}",
        "To see the change, look at the output in another shell, and write a flight:",
        f"  kafkaspark topic tail {sink} --follow",
        f"  echo '{record.value.decode()}' | kafkaspark topic produce {source}",
    ]
