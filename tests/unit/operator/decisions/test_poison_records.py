"""A job that fails at the same record again and again is not ready in between."""

from __future__ import annotations

from typing import Any

import pytest

from sparkapp.model.report import AttemptOutcome, Termination
from tests.support.kubernetes.operator_fixture import FAILED, KEY, OperatorFixture

POISON = Termination(
    outcome=AttemptOutcome.FAILED, reason="TransformFailed", message="ValueError: bad discount (enrich.py:31 in risky)"
)


async def restarted(termination: Termination, **report: Any) -> OperatorFixture:
    """Attempt 2 runs after the failure of attempt 1."""
    fixture = OperatorFixture()
    await fixture.run()
    fixture.driver_ends(1, termination)
    await fixture.settle()
    fixture.wait(60)
    await fixture.run(2)
    fixture.report(2, checkpoint_id=10, **report)
    await fixture.settle()
    return fixture


async def test_ready_waits_for_a_checkpoint_behind_the_record() -> None:
    fixture = await restarted(POISON, lag_records=500)
    assert (fixture.ready["status"], fixture.ready["reason"]) == ("False", "TransformFailed")
    assert fixture.status["state"] == "Running"
    assert fixture.status["message"] == (
        "attempt 2 runs; it has completed no checkpoint, and attempt 1 failed: ValueError: bad discount"
        " (enrich.py:31 in risky)"
    )
    assert fixture.kubernetes.condition(KEY, "Reconciling")["status"] == "True"
    fixture.report(2, checkpoint_id=11, checkpoint_time="2026-11-21T12:01:00Z", lag_records=500)
    await fixture.settle()
    assert (fixture.ready["status"], fixture.status["message"]) == ("True", "attempt 2 runs")


@pytest.mark.parametrize(
    ("termination", "lag"), [(POISON, 0), (FAILED, 500)], ids=["nothing to read", "no record is the cause"]
)
async def test_other_jobs_are_ready_when_they_run(termination: Termination, lag: int) -> None:
    fixture = await restarted(termination, lag_records=lag)
    assert (fixture.ready["status"], fixture.status["message"]) == ("True", "attempt 2 runs")
