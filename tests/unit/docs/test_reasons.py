"""Every reason that a user can read is in the documents: of events, of states, and of failures."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkasparkjob_operator.status.reasons import JobReason
from sparkapp.model import errors
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.event_reason import DriverEvent

ROOT = Path(__file__).parents[3]
OF_COMMANDS = {"CommandRefused", "ListingUnsupported"}
"""Errors of ``sparkapp``'s commands: a message on a terminal, without a reason."""
GIVEN_BY = {"event", "set_state", "set_starting", "_stop", "Ending", "JobEvent"}
"""Calls in the operator with the reason of an event, of a state, or of a failure."""
REASON = re.compile(r"(?:[A-Z][a-z]+)+")


def literals_of_the_operator() -> Iterator[str]:
    """Reasons that the operator's code writes as text, where it should use a member of :class:`JobReason`."""
    for path in (ROOT / "operator").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in GIVEN_BY:
                # A state is a member of its enum, and a text that is one word and no argument's name is a reason.
                given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "reason")]
                for part in (found for argument in given for found in ast.walk(argument)):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and REASON.fullmatch(part.value):
                        yield f"{path.name}:{part.lineno}: {part.value}"


def of_the_driver() -> Iterator[str]:
    yield from (reason.value for reason in DriverEvent if reason is not DriverEvent.OTHER)
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, KafkaSparkJobError) and kind.reason not in OF_COMMANDS:
            yield kind.reason


@pytest.fixture(scope="module")
def documents() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))


def test_the_operators_reasons_are_members_of_its_enum() -> None:
    assert list(literals_of_the_operator()) == []


@pytest.mark.parametrize("member", JobReason)
def test_a_reason_of_the_operator_is_used(member: JobReason) -> None:
    # A reason to stop an attempt has the name of the stop.
    used = re.compile(rf"\b(Job|Stop)Reason\.{member.name}\b(?!\.value)")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in (ROOT / "operator").rglob("*.py")), member


@pytest.mark.parametrize("reason", sorted({*map(str, JobReason), *of_the_driver()}))
def test_a_reason_is_in_the_documents(reason: str, documents: str) -> None:
    assert f"`{reason}`" in documents
