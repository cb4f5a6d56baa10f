"""How an attempt ended: its last word first, then the kubelet's account, then its absence."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.decisions.endings import EndingKind, ending_of
from kafkasparkjob_operator.observation.pod_view import PodView
from sparkapp.model import names
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.report import encode_termination
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL

DRAINED_TEXT, FAILED_TEXT, FATAL_TEXT = (encode_termination(each) for each in (DRAINED, FAILED, FATAL))


def driver(**fields: Any) -> PodView:
    return PodView(
        **{"name": "orders-3-driver", "uid": "u", "attempt": 3, "role": names.ROLE_DRIVER, "phase": "Failed", **fields}
    )


def document(*, drained: bool, attempt: int = 3) -> CheckpointDocument:
    return CheckpointDocument(
        job_uid="job-uid", attempt=attempt, checkpoint_id=17, created_at="", parallelism=2, prefix="p", drained=drained
    )


DRAINED_DRIVER = driver(phase="Succeeded", exit_code=0, termination_message=DRAINED_TEXT)


@pytest.mark.parametrize(
    ("pod", "state", "outcome", "reason", "fatal"),
    [
        (DRAINED_DRIVER, document(drained=False), "Drained", "Drained", False),
        # The state is an earlier attempt's: a standby that was stopped before its recovery.
        (DRAINED_DRIVER, document(drained=False, attempt=2), "Killed", "NotRecovered", False),
        (DRAINED_DRIVER, document(drained=True, attempt=2), "Drained", "Drained", False),
        (DRAINED_DRIVER, None, "Killed", "NotRecovered", False),
        (driver(exit_code=1, termination_message=FAILED_TEXT), None, "Failed", "KafkaUnreachable", False),
        (driver(exit_code=1, termination_message=FATAL_TEXT), None, "Failed", "InvalidTransform", True),
        (driver(exit_code=137, stopped_reason="OOMKilled"), None, "Killed", "OOMKilled", False),
        (driver(exit_code=137, stopped_reason="Error"), None, "Killed", "DriverKilled", False),
        (driver(stopped_reason="Evicted", stopped_message="memory"), None, "Killed", "Evicted", False),
        (driver(), None, "Killed", "DriverFailed", False),
        (driver(phase="Succeeded", exit_code=0, stopped_reason="Completed"), None, "Killed", "DriverFailed", False),
        # Killed after its last checkpoint was written as drained: nothing was lost with it.
        (driver(exit_code=137, stopped_reason="Error"), document(drained=True), "Drained", "Drained", False),
        (driver(exit_code=1, termination_message='{"outcome":"Drained"'), None, "Killed", "DriverFailed", False),
        (None, document(drained=True), "Drained", "Drained", False),
        (None, document(drained=False), "Missing", "DriverMissing", False),
        (None, document(drained=True, attempt=2), "Missing", "DriverMissing", False),
        (None, None, "Missing", "DriverMissing", False),
    ],
)  # fmt: skip
def test_ending(pod: PodView | None, state: CheckpointDocument | None, outcome: str, reason: str, fatal: bool) -> None:
    ending = ending_of(pod, attempt=3, document=state)
    assert (ending.outcome, ending.reason, ending.fatal) == (EndingKind(outcome), reason, fatal)
    assert ending.message


def test_before_the_first_claim_of_the_state_nothing_is_open() -> None:
    ending = ending_of(DRAINED_DRIVER, attempt=3, document=None, unclaimed=True)
    assert ending.outcome is EndingKind.DRAINED


def test_a_drained_last_word_with_a_bad_exit_status_is_not_believed() -> None:
    ending = ending_of(driver(exit_code=1, termination_message=DRAINED_TEXT), attempt=3, document=None)
    assert ending.outcome is EndingKind.KILLED


def test_the_text_says_what_to_do() -> None:
    ending = ending_of(driver(exit_code=137, stopped_reason="OOMKilled"), attempt=3, document=None)
    assert ending.text.endswith("raise spec.driver.memoryOverhead")
