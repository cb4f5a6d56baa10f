"""status.target says what the operator works towards, and status.phase what it does: both are stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.identity import ANNOTATION_PAUSE
from kafkasparkjob_operator.status.phases import CONFIRM_SECONDS, FIRST_REPORT_SECONDS, PREPARE_SECONDS
from sparkapp.model import names
from sparkapp.model.report import DriverState
from tests.support.kubernetes.operator_fixture import DRAINED, FAILED, FATAL, KEY, NOON, OperatorFixture

SINCE = format_time(NOON)


@pytest.fixture
async def operator() -> OperatorFixture:
    fixture = OperatorFixture()
    await fixture.run()
    return fixture


def name_of_phase(operator: OperatorFixture) -> tuple[str, str]:
    phase = operator.status["phase"]
    return phase["name"], phase["awaits"]


async def test_a_new_job_has_its_revision_for_a_target(operator: OperatorFixture) -> None:
    revision = operator.status["attempt"]["revision"]
    assert operator.status["target"] == {"revision": revision, "parallelism": 2, "cause": "Created", "since": SINCE}
    assert operator.status["phase"] == {"name": "Running", "since": SINCE, "awaits": "Driver"}


@pytest.mark.parametrize(
    ("edit", "cause", "same"),
    [
        ({"sink": {"topic": "another"}}, "SpecChanged", False),
        ({"parallelism": 3}, "Rescaled", True),
        ({"restartNonce": 1}, "Restarted", True),
        ({"suspend": True}, "Suspended", True),
    ],
)
async def test_a_change_of_the_target_has_cause_and_time(
    operator: OperatorFixture, edit: dict[str, Any], cause: str, same: bool
) -> None:
    before = operator.status["target"]["revision"]
    operator.wait(60)
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.look()
    target = operator.status["target"]
    assert (target["cause"], target["since"]) == (cause, format_time(operator.now))
    assert (target["revision"] == before) is same
    assert name_of_phase(operator) == ("Stopping", "Driver")
    operator.wait(5)
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    assert operator.status["target"] == target
    assert operator.status["attempt"]["revision"] == (before if same and cause != "Suspended" else target["revision"])


@pytest.mark.parametrize("edit", [{"restartPolicy": {"successor": "Standby"}}, {"ttlSecondsAfterFinished": 1}])
async def test_a_policy_is_no_target(operator: OperatorFixture, edit: dict[str, Any]) -> None:
    before = operator.status["target"]
    operator.wait(60)
    operator.kubernetes.edit_job(KEY, **edit)
    await operator.settle()
    assert operator.status["target"] == before


async def test_an_invalid_resource_changes_no_target(operator: OperatorFixture) -> None:
    before = operator.status["target"]
    operator.kubernetes.edit_job(KEY, sink={"topic": "orders"})
    await operator.settle()
    assert operator.status["reason"] == "InvalidSpec"
    assert operator.status["target"] == before


async def test_a_refused_change_leaves_what_runs_for_a_target() -> None:
    operator = OperatorFixture(restartPolicy={"successor": "BeforeStop"})
    await operator.run()
    runs = operator.status["attempt"]["revision"]
    operator.kubernetes.edit_job(KEY, sink={"topic": "another"})
    await operator.settle()
    assert operator.status["target"]["revision"] != runs
    assert name_of_phase(operator) == ("Preparing", "Driver")
    assert operator.status["phase"]["deadline"] == format_time(NOON + timedelta(seconds=PREPARE_SECONDS))
    operator.driver_ends(2, FATAL)
    await operator.settle()
    assert operator.ready["reason"] == "RevisionRefused"
    assert (operator.status["target"]["revision"], operator.status["target"]["cause"]) == (runs, "Refused")
    assert operator.status["phase"]["name"] == "Running"


async def test_a_phase_begins_again_with_another_attempt(operator: OperatorFixture) -> None:
    operator.wait(60)
    operator.driver_ends(1, FAILED)
    await operator.look()
    retry = operator.status["restarts"]["nextRetryTime"]
    assert operator.status["phase"]["deadline"] == retry
    assert name_of_phase(operator) == ("BackingOff", "Operator")
    operator.wait(5)
    await operator.settle()
    assert name_of_phase(operator) == ("Scheduling", "Kubernetes")
    operator.wait(5)
    operator.kubernetes.pod_runs("orders-2-driver", since=format_time(operator.now))
    await operator.settle()
    ends = operator.now + timedelta(seconds=FIRST_REPORT_SECONDS)
    assert operator.status["phase"]["deadline"] == format_time(ends)
    assert operator.status["phase"]["since"] == format_time(operator.now)
    operator.report(2, DriverState.RECOVERING)
    await operator.settle()
    assert operator.status["phase"].keys() == {"name", "since", "awaits"}
    assert operator.status["phase"]["name"] == "Recovering"


async def test_a_wait_of_an_earlier_request_is_not_counted_for_the_next() -> None:
    """Two requests in place in a row: each has its own time in which the driver may confirm."""
    operator = OperatorFixture()
    await operator.run()
    operator.report(1, checkpoint_id=10, parallelism=2, rescales=True)
    operator.kubernetes.refuse_annotations = "a webhook is down"
    for parallelism in (3, 4):
        operator.kubernetes.edit_job(KEY, parallelism=parallelism)
        await operator.look(2)
        begun = operator.now
        assert operator.status["phase"]["name"] == "Rescaling"
        ends = begun + timedelta(seconds=CONFIRM_SECONDS)
        assert operator.status["phase"]["deadline"] == format_time(ends)
        operator.wait(CONFIRM_SECONDS - 1)
        await operator.look(2)
        assert operator.status["reason"] == "RescaleRequested"
    operator.wait(2)
    await operator.look(2)
    assert operator.status["phase"]["name"] == "Stopping"


async def test_the_target_of_a_deletion_is_nothing() -> None:
    operator = OperatorFixture(sink={"topic": "enriched", "transactions": {"timeoutSeconds": 0}})
    await operator.run()
    operator.kubernetes.delete_job(KEY)
    await operator.look(2)
    assert operator.status["target"] == {"cause": "Deleted", "since": SINCE}
    assert operator.status["phase"]["name"] == "Deleting"
    assert operator.status["phase"]["deadline"] == format_time(NOON + timedelta(seconds=300))


async def test_a_status_of_an_earlier_release_gets_its_phase(operator: OperatorFixture) -> None:
    operator.driver_ends(1, FATAL)
    await operator.settle()
    for name in ("phase", "target"):
        del operator.kubernetes.job(KEY)["status"][name]
    operator.restart_operator()
    await operator.settle()
    assert name_of_phase(operator) == ("Failed", "Person")
    assert operator.status["target"]["cause"] == "Created"
    assert operator.drivers == [names.driver_pod(KEY.name, 1)]


async def test_a_paused_operator_keeps_the_phase_with_its_deadline(operator: OperatorFixture) -> None:
    operator.driver_ends(1, FAILED)
    await operator.look()
    before = operator.status["phase"]
    assert before["deadline"]
    operator.kubernetes.annotate_job(KEY, **{ANNOTATION_PAUSE: "true"})
    operator.kubernetes.remove(("Pod", KEY.namespace, "orders-1-driver"))
    await operator.settle()
    assert operator.status["phase"] == before
