"""``spec.upgrade.snapshot`` and ``spec.deletion.snapshot``: before a new revision, and before a job is gone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from kafkasparkjob_operator.decisions.lifecycle.snapshots import UPGRADES_KEPT
from kafkasparkjob_operator.identity import FINALIZER
from kafkasparkjob_operator.kubernetes.port import ClusterError
from kafkasparkjob_operator.status.phases import SNAPSHOT_SECONDS
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, UID
from tests.support.kubernetes.snapshot_fixture import SnapshotFixture

ANOTHER = {"sink": {"topic": "another"}}
DEADLINE = 100


def stops(operator: SnapshotFixture, attempt: int = 1) -> bool:
    pod = operator.kubernetes.objects["Pod", KEY.namespace, names.driver_pod(KEY.name, attempt)]
    return "deletionTimestamp" in pod["metadata"]


def unreadable(operator: SnapshotFixture) -> None:
    operator.kubernetes.set_data(KEY, names.state_config_map(KEY.name), names.CHECKPOINT_KEY, "{")


async def edited(**spec: Any) -> SnapshotFixture:
    """A running job gets another revision."""
    operator = SnapshotFixture(upgrade={"snapshot": True}, **spec)
    await operator.run()
    operator.kubernetes.edit_job(KEY, **ANOTHER)
    await operator.settle()
    return operator


async def drained(operator: SnapshotFixture, attempt: int = 1) -> None:
    """The driver that is being stopped drains, and the next attempt runs."""
    operator.checkpoint(attempt, attempt * 10, drained=True)
    operator.driver_ends(attempt, DRAINED)
    await operator.run(attempt + 1)


async def changed(operator: SnapshotFixture, attempt: int) -> None:
    """The attempt is replaced by another revision, behind its snapshot."""
    operator.kubernetes.edit_job(KEY, sink={"topic": "another" if attempt % 2 else "enriched"})
    await operator.settle()
    await operator.fill()
    await operator.settle()
    await drained(operator, attempt)
    operator.wait(60)


# -- before an upgrade ---------------------------------------------------------------------------------------------


async def test_the_attempt_runs_until_the_snapshot_is_ready() -> None:
    operator = await edited()
    (body,) = operator.snapshots.values()
    assert body["spec"] == {"jobRef": {"name": KEY.name, "uid": UID}, "trigger": "Upgrade"}
    assert not stops(operator)
    assert (operator.status["phase"]["name"], operator.status["reason"]) == ("Snapshotting", "Snapshotting")
    await operator.fill()
    await operator.settle()
    assert stops(operator)
    await drained(operator)
    assert operator.status["attempt"]["id"] == 2
    assert len(operator.made) == 1


@pytest.mark.parametrize("change", [{"parallelism": 3}, {"restartNonce": 1}], ids=["rescale", "restart"])
async def test_what_is_no_new_revision_needs_no_snapshot(change: dict[str, Any]) -> None:
    operator = SnapshotFixture(upgrade={"snapshot": True})
    await operator.run()
    operator.kubernetes.edit_job(KEY, **change)
    await operator.settle()
    assert operator.snapshots == {}
    assert stops(operator)


async def test_a_change_whose_snapshot_fails_is_refused_and_the_attempt_stays() -> None:
    operator = await edited()
    unreadable(operator)
    await operator.fill()
    await operator.settle()
    assert not stops(operator)
    assert operator.refusal["reason"] == "SnapshotFailed"
    assert (operator.ready["status"], operator.kubernetes.condition(KEY, "Stalled")["status"]) == ("True", "True")
    writes = len(operator.kubernetes.writes)
    await operator.look(3)
    assert len(operator.kubernetes.writes) == writes, "a refusal stands still"
    operator.kubernetes.edit_job(KEY, upgrade={"snapshot": False})
    await operator.settle()
    assert stops(operator)


async def test_a_change_whose_snapshot_is_late_is_refused_and_follows_when_it_is_ready() -> None:
    operator = await edited()
    operator.wait(SNAPSHOT_SECONDS + 1)
    await operator.settle()
    assert operator.refusal["reason"] == "SnapshotFailed"
    operator.wait(SNAPSHOT_SECONDS + 1)
    await operator.settle()
    assert not stops(operator)
    await operator.fill()
    await operator.settle()
    assert stops(operator)


async def test_a_snapshot_that_kubernetes_refuses_is_asked_for_again() -> None:
    operator = SnapshotFixture(upgrade={"snapshot": True})
    await operator.run()
    operator.kubernetes.refuse_snapshots = "exceeded quota"
    operator.kubernetes.edit_job(KEY, **ANOTHER)
    await operator.settle()
    assert not stops(operator)
    assert "SnapshotFailed" in operator.kubernetes.events(warning=True)
    operator.kubernetes.refuse_snapshots = ""
    await operator.settle()
    await operator.fill()
    await operator.settle()
    assert stops(operator)


@pytest.mark.parametrize("newest", ["Ready", "Failed"])
async def test_in_a_quota_of_those_that_are_kept_the_oldest_makes_room(newest: str) -> None:
    operator = SnapshotFixture(upgrade={"snapshot": True})
    await operator.run()
    for attempt in range(1, UPGRADES_KEPT + 1):
        await changed(operator, attempt)
    operator.snapshots[operator.made[-1]]["status"]["state"] = newest
    operator.kubernetes.snapshot_quota = UPGRADES_KEPT
    await changed(operator, UPGRADES_KEPT + 1)
    assert operator.refusal == {}
    assert operator.status["attempt"]["id"] == UPGRADES_KEPT + 2
    kept = operator.made[1:] if newest == "Ready" else [*operator.made[:-2], operator.made[-1]]
    assert list(operator.snapshots) == kept


@pytest.mark.parametrize("write", range(5))
async def test_an_operator_that_ends_at_any_step_makes_it_once(write: int) -> None:
    operator = SnapshotFixture(upgrade={"snapshot": True})
    await operator.run()
    operator.kubernetes.edit_job(KEY, **ANOTHER)
    operator.kubernetes.fail_write = write
    for _ in range(4):
        with suppress(ClusterError):
            await operator.look()
        operator.restart_operator()
        await operator.fill()
    operator.kubernetes.fail_write = None
    await operator.settle()
    assert stops(operator)
    assert len(operator.made) == 1


async def test_a_change_back_and_forth_has_a_snapshot_each_and_the_newest_are_kept() -> None:
    operator = SnapshotFixture(upgrade={"snapshot": True})
    await operator.run()
    for attempt in range(1, UPGRADES_KEPT + 3):
        await changed(operator, attempt)
    assert len(operator.made) == len(set(operator.made)) == UPGRADES_KEPT + 2
    assert len(operator.snapshots) == UPGRADES_KEPT


async def test_changed_modules_are_a_new_revision() -> None:
    python = {"python": {"function": "app:run", "configMapRef": {"name": "code"}}}
    operator = SnapshotFixture(upgrade={"snapshot": True}, transform=python)
    place = ("ConfigMap", KEY.namespace, "code")
    meta = {"name": "code", "namespace": KEY.namespace, "resourceVersion": "1", "uid": "code"}
    operator.kubernetes.objects[place] = {"kind": "ConfigMap", "metadata": meta, "data": {"app.py": "one"}}
    await operator.run()
    operator.kubernetes.objects[place]["data"] = {"app.py": "two"}
    await operator.settle()
    assert (len(operator.made), stops(operator)) == (1, False)
    await operator.fill()
    await operator.settle()
    assert stops(operator)


# -- at a deletion -------------------------------------------------------------------------------------------------


async def deleted(*, policy: str = "Drain", **spec: Any) -> SnapshotFixture:
    """A job is deleted, and its driver drains."""
    operator = SnapshotFixture(deletion={"policy": policy, "deadlineSeconds": DEADLINE, "snapshot": True}, **spec)
    await operator.run()
    operator.kubernetes.delete_job(KEY)
    await operator.settle()
    assert operator.snapshots == {}, "a later checkpoint follows"
    operator.checkpoint(1, 11, drained=True)
    operator.driver_ends(1, DRAINED)
    return operator


def gone(operator: SnapshotFixture) -> bool:
    return not operator.kubernetes.has_job(KEY)


async def looks(operator: SnapshotFixture, times: int = 6) -> None:
    for _ in range(times):
        if not gone(operator):
            with suppress(ClusterError):
                await operator.look()
            operator.kubernetes.kubelet()


@pytest.mark.parametrize("guarantee", ["ExactlyOnce", "AtLeastOnce"])
async def test_the_last_checkpoint_of_a_deleted_job_is_in_a_snapshot(guarantee: str) -> None:
    operator = await deleted(sink={"topic": "enriched", "deliveryGuarantee": guarantee})
    assert operator.kubernetes.job(KEY)["metadata"]["finalizers"] == [FINALIZER]
    await looks(operator)
    assert operator.made == [names.deletion_snapshot(KEY.name, UID)]
    assert not gone(operator)
    assert operator.status["reason"] == "Snapshotting"
    await operator.fill()
    await looks(operator)
    assert gone(operator)
    (body,) = operator.snapshots.values()
    assert body["status"]["checkpoint"]["id"] == 11
    assert "SnapshotMade" in operator.kubernetes.events(warning=False)


async def test_the_event_of_a_last_snapshot_has_its_message() -> None:
    """With state it may hold an earlier checkpoint than the job's last, and its message says so."""
    operator = await deleted()
    await looks(operator)
    (body,) = operator.snapshots.values()
    gap = "checkpoint 9 of 12:00. The job was at checkpoint 11: a job that begins here may write again"
    body["status"] = {"state": "Ready", "message": gap, "checkpoint": {"id": 9}}
    await looks(operator)
    assert gone(operator)
    [message] = operator.kubernetes.messages("SnapshotMade")
    assert message.endswith(f"of the deleted job holds {gap}")


async def test_a_deletion_ends_at_its_deadline_without_the_snapshot() -> None:
    operator = await deleted()
    await looks(operator)
    operator.wait(DEADLINE + 1)
    await looks(operator)
    assert gone(operator)
    assert "SnapshotFailed" in operator.kubernetes.events(warning=True)


async def test_a_deletion_does_not_wait_for_a_snapshot_that_has_failed() -> None:
    operator = await deleted()
    await looks(operator)
    unreadable(operator)
    await operator.fill()
    await looks(operator)
    assert gone(operator)
    assert "SnapshotFailed" in operator.kubernetes.events(warning=True)


async def test_a_namespace_that_ends_waits_for_nothing() -> None:
    operator = await deleted()
    operator.kubernetes.refuse_snapshots = "unable to create because it is being terminated"
    await looks(operator)
    assert gone(operator)
    assert "SnapshotFailed" in operator.kubernetes.events(warning=True)


@pytest.mark.parametrize("write", range(6))
async def test_an_operator_that_ends_at_any_step_of_a_deletion_makes_it_once(write: int) -> None:
    operator = await deleted()
    operator.kubernetes.fail_write = write
    for _ in range(8):
        await looks(operator, 1)
        operator.restart_operator()
        if not gone(operator):
            await operator.fill()
    operator.kubernetes.fail_write = None
    await looks(operator)
    assert gone(operator)
    assert len(operator.made) == 1
    assert operator.states[operator.made[0]] == "Ready"


async def test_a_suspended_job_has_its_last_snapshot_too() -> None:
    operator = SnapshotFixture(deletion={"snapshot": True})
    await operator.run()
    operator.kubernetes.edit_job(KEY, suspend=True)
    await operator.settle()
    operator.checkpoint(1, 10, drained=True)
    operator.driver_ends(1, DRAINED)
    await operator.settle()
    operator.kubernetes.delete_job(KEY)
    await looks(operator)
    await operator.fill()
    await looks(operator)
    assert gone(operator)
    assert set(operator.states.values()) == {"Ready"}


@pytest.mark.parametrize("suspends_first", [True, False])
async def test_the_checkpoint_of_a_drain_may_be_the_first(suspends_first: bool) -> None:
    """No driver reports it: with a long interval a job has none before it drains."""
    operator = SnapshotFixture(deletion={"snapshot": True})
    await operator.settle()
    operator.kubernetes.pod_runs(names.driver_pod(KEY.name, 1))
    operator.checkpoint(1, 0)
    operator.report(1, lag_records=5)
    await operator.settle()
    if suspends_first:
        operator.kubernetes.edit_job(KEY, suspend=True)
    else:
        operator.kubernetes.delete_job(KEY)
    await operator.settle()
    operator.checkpoint(1, 1, drained=True)
    operator.driver_ends(1, DRAINED)
    if suspends_first:
        await operator.settle()
        operator.kubernetes.delete_job(KEY)
    await looks(operator)
    await operator.fill()
    await looks(operator)
    assert gone(operator)
    (body,) = operator.snapshots.values()
    assert body["status"]["checkpoint"]["id"] == 1
    assert operator.kubernetes.events(warning=True) == []


def no_snapshot(operator: SnapshotFixture) -> str:
    """The message of the event that says so."""
    [message] = operator.kubernetes.messages("SnapshotFailed")
    return message


async def test_a_job_without_a_checkpoint_is_deleted_at_once() -> None:
    operator = SnapshotFixture(deletion={"snapshot": True})
    await operator.settle()
    operator.kubernetes.pod_ends("orders-1-driver", code=1)
    operator.kubernetes.delete_job(KEY)
    await looks(operator)
    assert gone(operator)
    assert operator.snapshots == {}
    assert no_snapshot(operator).endswith("no checkpoint of the job is known")


async def test_a_claimed_job_without_a_checkpoint_has_none_to_keep() -> None:
    operator = SnapshotFixture(deletion={"snapshot": True})
    await operator.settle()
    operator.kubernetes.pod_runs(names.driver_pod(KEY.name, 1))
    operator.checkpoint(1, 0, drained=True)
    operator.kubernetes.delete_job(KEY)
    operator.driver_ends(1, DRAINED)
    await looks(operator)
    assert gone(operator)
    assert operator.snapshots == {}
    assert no_snapshot(operator).endswith("no checkpoint of the job is known")


async def test_a_job_that_never_ran_has_no_snapshot() -> None:
    operator = SnapshotFixture(deletion={"snapshot": True}, suspend=True)
    await operator.settle()
    operator.kubernetes.delete_job(KEY)
    await looks(operator)
    assert gone(operator)
    assert operator.snapshots == {}
    assert no_snapshot(operator).endswith("no checkpoint of the job is known")


@pytest.mark.parametrize("how", ["late", "foreground"])
async def test_a_deletion_that_settles_nothing_says_that_there_is_no_snapshot(how: str) -> None:
    operator = SnapshotFixture(deletion={"deadlineSeconds": DEADLINE, "snapshot": True})
    await operator.run()
    operator.driver_ends(1, code=137)
    operator.kubernetes.delete_job(KEY, foreground=how == "foreground")
    await looks(operator)
    operator.wait(DEADLINE + 1)
    await looks(operator)
    assert "TransactionsLeftOpen" in operator.kubernetes.events(warning=True)
    assert no_snapshot(operator).endswith("it does not exist")
