"""Reasons of a driver's events are those of a list, also in a forged report."""

from __future__ import annotations

import pytest

from sparkapp.model.report import (
    AttemptOutcome,
    DriverState,
    Report,
    ReportEvent,
    Termination,
    decode_report,
    decode_termination,
    encode_report,
    encode_termination,
)

HOSTILE = ("Failed\nERROR root: the operator was stopped", "\x1b[2J", "x" * 64, "running", "", "Ready")


@pytest.mark.parametrize("reason", HOSTILE)
def test_any_other_reason_of_a_report_is_replaced(reason: str) -> None:
    event = ReportEvent(sequence=1, type="Warning", reason=reason, message="m", time="t")
    text = encode_report(
        Report(job_uid="u", attempt=1, state=DriverState.RUNNING, updated_at="2026-11-23T00:00:00Z", events=(event,))
    )
    report = decode_report(text, job_uid="u")
    assert report is not None
    assert [found.reason for found in report.events] == ["DriverEvent"]


@pytest.mark.parametrize("reason", HOSTILE)
def test_any_other_reason_of_a_termination_message_is_replaced(reason: str) -> None:
    text = encode_termination(Termination(outcome=AttemptOutcome.FAILED, reason=reason, message="m"))
    found = decode_termination(text)
    assert found is not None
    assert found.reason == "DriverFailed"


@pytest.mark.parametrize("reason", ["KafkaUnreachable", "Drained", "Finished", "Settled", "InternalError"])
def test_a_reason_of_ours_is_read_as_it_is(reason: str) -> None:
    found = decode_termination(
        encode_termination(Termination(outcome=AttemptOutcome.FAILED, reason=reason, message=""))
    )
    assert found is not None
    assert found.reason == reason
