"""``spec.snapshots``: the operator makes snapshots at their times, and keeps count and age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.controller.cache import SPARED_SECONDS
from kafkasparkjob_operator.controller.reconcile import RETRY_SECONDS
from kafkasparkjob_operator.decisions.lifecycle.snapshots import REFUSED_SECONDS
from kafkasparkjob_operator.kubernetes.port import ClusterError, ObjectRefused
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, NOON, UID
from tests.support.kubernetes.snapshot_fixture import HOUR, SnapshotFixture


def periodic(**policy: Any) -> SnapshotFixture:
    return SnapshotFixture(snapshots={"intervalSeconds": HOUR, **policy})


async def running(**policy: Any) -> SnapshotFixture:
    """A job whose first snapshot is made."""
    fixture = periodic(**policy)
    await fixture.run()
    await fixture.fill()
    await fixture.settle()
    return fixture


async def test_the_first_is_made_with_the_first_checkpoint_and_is_of_the_job_by_its_uid() -> None:
    fixture = periodic()
    await fixture.settle()
    assert fixture.snapshots == {}, "there is nothing to copy yet"
    await fixture.run()
    ((name, body),) = fixture.snapshots.items()
    assert body["spec"] == {"jobRef": {"name": KEY.name, "uid": UID}, "trigger": "Periodic"}
    assert "ownerReferences" not in body["metadata"], "it outlives the job"
    assert fixture.status["snapshots"]["state"] == "Pending"
    await fixture.fill()
    await fixture.settle()
    section = fixture.status["snapshots"]
    assert (section["name"], section["ready"], section["state"]) == (name, name, "Ready")
    assert (section["checkpoint"], section["count"]) == (10, 1)
    assert "SnapshotMade" in fixture.kubernetes.events(warning=False)


async def test_one_is_made_for_each_interval_and_the_oldest_goes() -> None:
    fixture = await running(count=3)
    for _ in range(5):
        await fixture.hour()
    assert len(fixture.made) == 6
    assert sorted(fixture.snapshots) == sorted(fixture.made)[-3:]
    assert fixture.status["snapshots"]["count"] == 3


async def test_without_a_later_checkpoint_none_is_made() -> None:
    fixture = await running()
    for _ in range(3):
        await fixture.hour(checkpoint=False)
    assert len(fixture.made) == 1


async def test_the_newest_stays_at_any_age() -> None:
    fixture = await running(maxAgeSeconds=2 * HOUR)
    await fixture.hour()
    await fixture.hour()
    assert len(fixture.snapshots) == 2
    for _ in range(5):
        await fixture.hour(checkpoint=False)
    assert list(fixture.snapshots) == [fixture.made[-1]]


async def test_a_snapshot_of_a_person_is_never_deleted() -> None:
    fixture = await running(count=1, maxAgeSeconds=60)
    body = {
        "kind": names.SNAPSHOT_KIND, "spec": {"jobRef": {"name": KEY.name, "uid": UID}},
        "metadata": {
            "namespace": KEY.namespace, "name": "mine", "uid": "mine-uid", "resourceVersion": "1", "generation": 1,
            "creationTimestamp": "2020-01-01T00:00:00Z",
        },
    }  # fmt: skip
    fixture.kubernetes.objects[names.SNAPSHOT_KIND, KEY.namespace, "mine"] = body
    for _ in range(3):
        await fixture.hour()
    assert fixture.states["mine"] == "Ready"
    assert len(fixture.snapshots) == 2


@pytest.mark.parametrize("write", range(6))
async def test_an_operator_that_ends_at_any_step_makes_each_snapshot_once(write: int) -> None:
    fixture = await running(count=2)
    before = len(fixture.made)
    fixture.wait(HOUR)
    fixture.last += 1
    fixture.checkpoint(1, fixture.last)
    fixture.report(1, checkpoint_id=fixture.last, checkpoint_time=format_time(fixture.now))
    fixture.kubernetes.fail_write = write
    for _ in range(3):
        try:
            await fixture.look()
        except ClusterError:
            fixture.restart_operator()
        await fixture.fill()
    fixture.kubernetes.fail_write = None
    fixture.restart_operator()
    await fixture.settle()
    await fixture.fill()
    await fixture.settle()
    assert len(fixture.made) == before + 1
    assert set(fixture.states.values()) == {"Ready"}
    assert fixture.status["snapshots"]["checkpoint"] == fixture.last


async def test_a_restarted_operator_that_knows_no_snapshot_asks_for_the_same_again() -> None:
    fixture = await running()
    fixture.kubernetes.job(KEY)["status"].pop("snapshots")
    fixture.restart_operator()
    fixture.watch_snapshots = lambda: None  # type: ignore[method-assign]
    await fixture.look()
    assert len(fixture.snapshots) == 1


async def test_one_that_a_person_deletes_is_not_made_again() -> None:
    fixture = await running()
    fixture.kubernetes.remove((names.SNAPSHOT_KIND, KEY.namespace, fixture.made[0]))
    await fixture.settle()
    assert fixture.snapshots == {}
    assert "ready" not in fixture.status["snapshots"]
    await fixture.hour()
    assert len(fixture.snapshots) == 1


async def test_the_last_that_is_ready_stays_where_its_successor_was_just_deleted() -> None:
    """The watch has not brought the deletion yet."""
    fixture = await running(count=1)
    fixture.wait(HOUR)
    fixture.last += 1
    fixture.checkpoint(1, fixture.last)
    fixture.report(1, checkpoint_id=fixture.last, checkpoint_time=format_time(fixture.now))
    await fixture.look()
    await fixture.fill()
    fixture.watch_snapshots()
    fixture.watch_snapshots = lambda: None  # type: ignore[method-assign]
    fixture.kubernetes.remove((names.SNAPSHOT_KIND, KEY.namespace, fixture.made[1]))
    await fixture.look(2)
    assert list(fixture.states.values()) == ["Ready"]


async def test_a_failure_is_told_once_and_the_next_follows_at_its_time() -> None:
    fixture = periodic()
    await fixture.run()
    state = names.state_config_map(KEY.name)
    fixture.kubernetes.set_data(KEY, state, names.CHECKPOINT_KEY, "{")
    await fixture.fill()
    await fixture.settle()
    assert (fixture.status["snapshots"]["state"], fixture.status["state"]) == ("Failed", "Running")
    assert fixture.kubernetes.events(warning=True) == ["SnapshotFailed"]
    assert len(fixture.made) == 1
    for _ in range(3):
        await fixture.hour()
    assert "Failed" not in fixture.states.values()
    assert len(fixture.snapshots) == 3


async def test_failed_snapshots_do_not_pile_up() -> None:
    fixture = periodic()
    await fixture.run()
    for number in range(4):
        await fixture.hour()
        fixture.kubernetes.set_data(KEY, names.state_config_map(KEY.name), names.CHECKPOINT_KEY, "{" * (number + 1))
        await fixture.fill()
        await fixture.settle()
    assert list(fixture.states.values()).count("Failed") <= 1


async def test_a_refusal_holds_up_nothing_and_is_tried_again_later() -> None:
    fixture = periodic()
    fixture.kubernetes.refuse_snapshots = "kafkasparksnapshots is forbidden: cannot create"
    await fixture.run()
    assert (fixture.status["state"], fixture.status["snapshots"]["state"]) == ("Running", "Refused")
    assert fixture.kubernetes.events(warning=True) == ["SnapshotFailed"]
    fixture.kubernetes.refuse_snapshots = ""
    await fixture.settle()
    assert fixture.snapshots == {}
    fixture.wait(REFUSED_SECONDS + 1)
    await fixture.settle()
    assert len(fixture.snapshots) == 1


async def refused(count: int, quota: int, **policy: Any) -> SnapshotFixture:
    """A job that has as many snapshots as it keeps, and of which a quota refuses the next."""
    fixture = await running(count=count, **policy)
    for _ in range(count - 1):
        await fixture.hour()
    assert len(fixture.snapshots) == count
    fixture.kubernetes.snapshot_quota = quota
    await fixture.hour()
    assert fixture.status["snapshots"]["state"] == "Refused"
    return fixture


async def test_a_lower_count_makes_room_in_a_full_quota_at_once() -> None:
    fixture = await refused(5, quota=3)
    fixture.kubernetes.edit_job(KEY, snapshots={"count": 2})
    await fixture.settle()
    assert sorted(fixture.snapshots) == sorted(fixture.made)[-1:], "the next has its place"
    assert fixture.status["snapshots"]["state"] == "Refused", "the pause of the creation lasts"
    fixture.wait(REFUSED_SECONDS + 1)
    await fixture.settle()
    await fixture.fill()
    await fixture.settle()
    assert fixture.status["snapshots"]["checkpoint"] == fixture.last
    assert len(fixture.snapshots) == 2


@pytest.mark.parametrize("count", [2, 3])
async def test_in_a_quota_of_the_count_the_oldest_makes_room_for_the_next(count: int) -> None:
    fixture = await refused(count, quota=count)
    for _ in range(4):
        assert sorted(fixture.snapshots) == sorted(fixture.made)[-count + 1 :]
        fixture.wait(REFUSED_SECONDS + 1)
        await fixture.settle()
        await fixture.fill()
        await fixture.settle()
        section = fixture.status["snapshots"]
        assert (section["checkpoint"], section["count"], section["state"]) == (fixture.last, count, "Ready")
        await fixture.hour()


async def test_the_newest_that_is_ready_makes_no_room() -> None:
    fixture = await refused(1, quota=1)
    await fixture.hour()
    assert list(fixture.states.values()) == ["Ready"]
    assert "exceeded quota" in fixture.status["snapshots"]["message"]
    fixture.kubernetes.snapshot_quota = 2
    await fixture.hour()
    assert len(fixture.made) == 2
    assert list(fixture.snapshots) == fixture.made[-1:]


async def test_a_failed_snapshot_makes_room_in_a_full_quota() -> None:
    fixture = await running(count=3)
    for _ in range(2):
        await fixture.hour()
    fixture.snapshots[fixture.made[-1]]["status"] = {"state": "Failed"}
    fixture.kubernetes.snapshot_quota = 3
    for _ in range(2):
        await fixture.hour()
    assert set(fixture.states.values()) == {"Ready"}
    assert fixture.status["snapshots"]["checkpoint"] == fixture.last


async def test_a_request_that_is_refused_for_another_cause_deletes_nothing() -> None:
    fixture = await running(count=2)
    await fixture.hour()
    fixture.kubernetes.refuse_snapshots = "kafkasparksnapshots is forbidden: cannot create"
    for _ in range(2):
        await fixture.hour()
    assert len(fixture.snapshots) == 2


async def test_a_job_that_rests_is_looked_at_again_after_a_refusal() -> None:
    fixture = await running()
    fixture.kubernetes.refuse_snapshots = "forbidden"
    fixture.wait(HOUR)
    fixture.checkpoint(1, 11)
    fixture.report(1, checkpoint_id=11, checkpoint_time=format_time(fixture.now))
    pauses = list[float]()
    fixture.queue.add_after = lambda _, seconds: pauses.append(seconds)  # type: ignore[method-assign]
    await fixture.look()
    assert min(pauses) <= RETRY_SECONDS


@pytest.mark.parametrize("error", [ObjectRefused("forbidden", status=403), ClusterError("no answer")], ids=str)
async def test_a_deletion_that_fails_holds_up_nothing_and_has_its_own_pause(error: ClusterError) -> None:
    fixture = await running(count=5)
    for _ in range(4):
        await fixture.hour()
    oldest, delete, tries = sorted(fixture.made)[0], fixture.kubernetes.delete, list[str]()

    async def partly(kind: str, namespace: str, name: str, **keywords: Any) -> None:
        tries.append(name)
        if name == oldest:
            raise error
        await delete(kind, namespace, name, **keywords)

    fixture.kubernetes.delete = partly  # type: ignore[method-assign]
    fixture.kubernetes.edit_job(KEY, snapshots={"count": 2})
    await fixture.hour()
    assert len(fixture.made) == 6
    assert "retryTime" not in fixture.status["snapshots"]
    assert sorted(fixture.snapshots) == sorted([oldest, *sorted(fixture.made)[-2:]])
    assert tries.count(oldest) == 1
    [message] = fixture.kubernetes.messages("SnapshotFailed")
    assert message == f"snapshot {oldest} is not deleted: {error.message}"
    fixture.kubernetes.delete = delete  # type: ignore[method-assign]
    fixture.wait(SPARED_SECONDS + 1)
    await fixture.settle()
    assert sorted(fixture.snapshots) == sorted(fixture.made)[-2:]


async def test_without_an_answer_a_plan_tries_one_deletion_and_then_the_creation() -> None:
    """Each could take seconds, and the job waits for its status meanwhile."""
    fixture = await running(count=5)
    for _ in range(4):
        await fixture.hour()
    tries = list[str]()

    async def silent(kind: str, namespace: str, name: str, **_: Any) -> None:
        tries.append(name)
        raise ClusterError("no answer")

    fixture.kubernetes.delete = silent  # type: ignore[method-assign]
    fixture.kubernetes.edit_job(KEY, snapshots={"count": 1})
    fixture.wait(HOUR)
    fixture.checkpoint(1, fixture.last + 1)
    fixture.report(1, checkpoint_id=fixture.last + 1, checkpoint_time=format_time(fixture.now))
    await fixture.look()
    assert len(tries) == 1
    assert len(fixture.made) == 6


async def test_a_clock_that_is_set_back_and_forth_deletes_no_last_snapshot() -> None:
    fixture = await running(count=2, maxAgeSeconds=HOUR)
    for jump in (-86400, 86400 * 365, -86400 * 300):
        fixture.now += timedelta(seconds=jump)
        await fixture.hour()
        assert "Ready" in fixture.states.values()


async def test_the_job_owns_them_where_they_are_deleted_with_it() -> None:
    fixture = await running(onDelete="Delete")
    (body,) = fixture.snapshots.values()
    assert [owner["uid"] for owner in body["metadata"]["ownerReferences"]] == [UID]


async def test_a_change_of_the_field_restarts_nothing_and_without_it_all_stay() -> None:
    fixture = await running()
    fixture.kubernetes.edit_job(KEY, snapshots={"count": 2})
    await fixture.settle()
    fixture.kubernetes.edit_job(KEY, snapshots=None)
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver"]
    assert fixture.ready["status"] == "True"
    assert "snapshots" not in fixture.status
    assert len(fixture.snapshots) == 1


async def test_a_suspended_job_gets_one_of_its_last_checkpoint_and_no_more() -> None:
    fixture = await running()
    fixture.kubernetes.edit_job(KEY, suspend=True)
    await fixture.settle()
    fixture.last += 1
    fixture.checkpoint(1, fixture.last, drained=True)
    fixture.report(1, checkpoint_id=fixture.last)
    fixture.driver_ends(1, DRAINED)
    await fixture.settle()
    for _ in range(3):
        await fixture.hour(checkpoint=False)
    assert len(fixture.made) == 2
    assert fixture.status["snapshots"]["checkpoint"] == fixture.last


async def test_times_are_spread_by_the_uid_and_the_name_has_them() -> None:
    fixture = await running()
    due = datetime.fromisoformat(fixture.status["snapshots"]["dueTime"])
    assert NOON - timedelta(seconds=HOUR) < due.astimezone(UTC) <= NOON
    assert fixture.made == [names.periodic_snapshot(KEY.name, UID, due)]
    assert names.periodic_snapshot(KEY.name, "another", due) != fixture.made[0]


@pytest.mark.parametrize(
    "spec",
    [
        {
            "checkpoint": {"retention": {"count": 0}, "stateVolume": {"claimName": "state"}},
            "transform": {"python": {"function": "app:run"}},
        },
        {"source": {"groupMembership": {"mode": "Subscribe"}}, "sink": {"deliveryGuarantee": "AtLeastOnce"}},
        {"checkpoint": {"retention": {"count": 0}, "state": {"storage": {"s3": {"bucket": "state"}}}}},
    ],
    ids=["state", "member", "store"],
)
async def test_a_job_whose_snapshots_would_all_fail_is_refused(spec: dict[str, Any]) -> None:
    fixture = periodic()
    fixture.kubernetes.edit_job(KEY, **spec)
    await fixture.settle()
    message = fixture.kubernetes.condition(KEY, "ConfigValid")["message"]
    assert any(why in message for why in ("source.groupMembership", "retention.count is 0"))
    assert fixture.drivers == []
