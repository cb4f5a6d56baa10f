"""Reasons of a driver's events: a list, which the driver's own code keeps to and a forged report cannot leave."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparkapp
from sparkapp.model.event_reason import DriverEvent
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

ROOMS = ("source", "sink", "checkpoint", "spark")
TELLING = {"event", "_warn", "warn", "_tell", "tell", "_drop"}
HOSTILE = ("Failed\nERROR root: the operator was stopped", "\x1b[2J", "x" * 64, "running", "", "Ready")


def told() -> Iterator[tuple[str, str]]:
    """Place and text of each reason that the driver's code gives."""
    for room in ROOMS:
        for path in (Path(sparkapp.__file__).parent / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                if node.func.attr in TELLING:
                    for found in (part for argument in node.args for part in ast.walk(argument)):
                        text = found.value if isinstance(found, ast.Constant) else None
                        if isinstance(text, str) and re.fullmatch(r"([A-Z][a-z]+)+", text):
                            yield f"{path.name}:{found.lineno}", text


def test_the_driver_reports_reasons_of_the_list() -> None:
    found = dict(told())
    assert set(found.values()) <= set(DriverEvent), found
    assert len(set(found.values())) >= len(DriverEvent) - 3


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
