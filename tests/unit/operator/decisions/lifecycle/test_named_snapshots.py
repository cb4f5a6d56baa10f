"""Snapshots that a spec names: retention leaves them alone, whatever count and age say (ADR 123)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from kafkasparkjob_operator.clock import format_time
from kafkasparkjob_operator.decisions.lifecycle.snapshots import UPGRADES_KEPT
from kafkasparkjob_operator.identity import JobKey
from kafkasparkjob_operator.kubernetes.port import ObjectRefused
from sparkapp.model import names
from sparkapp.model.job.codec import decode_job
from tests.support.kubernetes.operator_fixture import DRAINED, KEY, job_body, record_name
from tests.support.kubernetes.snapshot_fixture import HOUR, SnapshotFixture

OTHER = JobKey(KEY.namespace, "clone")


class Listing(SnapshotFixture):
    """Counts the lists of jobs, and can refuse them."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(**spec)
        self.lists, self.refused = 0, False
        self._list, self.kubernetes.list_jobs = self.kubernetes.list_jobs, self._counted  # type: ignore[method-assign]

    async def _counted(self, namespace: str | None) -> AsyncIterator[Sequence[dict[str, Any]]]:
        self.lists += 1
        if self.refused:
            msg = "jobs are forbidden"
            raise ObjectRefused(msg, status=403)
        async for page in self._list(namespace):
            yield page


async def full(count: int = 3, **policy: Any) -> Listing:
    """A job with as many periodic snapshots as it keeps."""
    fixture = Listing(snapshots={"intervalSeconds": HOUR, "count": count, **policy})
    await fixture.run()
    await fixture.fill()
    await fixture.settle()
    for _ in range(count - 1):
        await fixture.hour()
    assert set(fixture.states.values()) == {"Ready"}
    assert len(fixture.states) == count
    return fixture


def another_job(fixture: SnapshotFixture, *, is_seen: bool = True, namespace: str = KEY.namespace, **spec: Any) -> None:
    """A job that this operator does not reconcile here.

    :param is_seen: the watch has brought it.
    """
    body = job_body(**spec)
    body["metadata"] |= {"name": OTHER.name, "namespace": namespace, "uid": "clone-uid"}
    fixture.kubernetes.add_job(body)
    if is_seen:
        fixture.cache.put_job(body)


async def upgraded(fixture: SnapshotFixture, attempt: int, **spec: Any) -> None:
    """The running attempt is replaced by a change, behind its snapshot."""
    fixture.kubernetes.edit_job(KEY, **spec)
    await fixture.settle()
    await fixture.fill()
    await fixture.settle()
    fixture.checkpoint(attempt, attempt * 10 + 1, drained=True)
    fixture.driver_ends(attempt, DRAINED)
    await fixture.settle()
    fixture.wait(HOUR)


def begins_at(fixture: SnapshotFixture, attempt: int) -> list[str]:
    """The snapshots in the description of an attempt."""
    body = fixture.kubernetes.objects["ConfigMap", KEY.namespace, record_name(attempt)]
    return list(decode_job(body["data"][names.JOB_KEY]).snapshots)


async def test_the_change_that_names_the_oldest_upgrade_snapshot_goes_back_to_it() -> None:
    fixture = SnapshotFixture(upgrade={"snapshot": True})
    await fixture.run()
    for attempt in range(1, UPGRADES_KEPT + 1):
        await upgraded(fixture, attempt, image=f"kafkaspark/sparkapp:{attempt + 1}")
        await fixture.run(attempt + 1)
    oldest, last = fixture.made[0], UPGRADES_KEPT + 1
    assert len(fixture.snapshots) == UPGRADES_KEPT
    await upgraded(fixture, last, image="kafkaspark/sparkapp:1", restore={"snapshot": oldest, "nonce": 1})
    assert len(fixture.made) == UPGRADES_KEPT + 1
    assert oldest in fixture.snapshots
    assert begins_at(fixture, last + 1) == [oldest]


@pytest.mark.parametrize("policy", [{}, {"count": 10, "maxAgeSeconds": 2 * HOUR + 30}], ids=["count", "age"])
async def test_a_restore_that_waits_for_the_drain_keeps_its_snapshot(policy: Mapping[str, Any]) -> None:
    fixture = await full()
    fixture.kubernetes.edit_job(KEY, snapshots=policy)
    oldest = fixture.made[0]
    fixture.wait(HOUR - 1)
    fixture.checkpoint(1, fixture.last + 1)
    fixture.report(1, checkpoint_id=fixture.last + 1, checkpoint_time=format_time(fixture.now))
    fixture.kubernetes.edit_job(KEY, restore={"snapshot": oldest, "nonce": 1})
    await fixture.settle()
    fixture.wait(60)
    await fixture.settle()
    await fixture.fill()
    await fixture.settle()
    assert len(fixture.made) == 4, "a snapshot became due while the job drained"
    fixture.checkpoint(1, fixture.last + 2, drained=True)
    fixture.driver_ends(1, DRAINED)
    await fixture.settle()
    assert begins_at(fixture, 2) == [oldest]


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "unseen"])
@pytest.mark.parametrize("field", ["startFrom", "restore"])
async def test_a_snapshot_that_another_job_names_stays_until_it_does_not(field: str, is_seen: bool) -> None:
    """The watch may be behind, and another operator begins with an empty cache."""
    fixture = await full()
    oldest = fixture.made[0]
    another_job(fixture, is_seen=is_seen, **{field: {"snapshot": oldest}})
    for _ in range(3):
        await fixture.hour()
    assert sorted(fixture.snapshots) == sorted([oldest, *fixture.made[-3:]]), "it stays in addition"
    fixture.kubernetes.edit_job(OTHER, **{field: None})
    fixture.cache.put_job(fixture.kubernetes.job(OTHER))
    await fixture.hour()
    assert sorted(fixture.snapshots) == sorted(fixture.made[-3:])


async def test_a_job_that_is_gone_or_of_another_namespace_names_nothing() -> None:
    fixture = await full()
    another_job(fixture, namespace="other", startFrom={"snapshot": fixture.made[0]})
    another_job(fixture, startFrom={"snapshot": fixture.made[1]})
    fixture.kubernetes.remove((names.KIND, *OTHER))
    fixture.cache.drop_job(OTHER)
    for _ in range(2):
        await fixture.hour()
    assert sorted(fixture.snapshots) == sorted(fixture.made[-3:])


async def test_a_spec_that_nobody_can_read_names_nothing() -> None:
    fixture = await full()
    another_job(fixture, startFrom="text", restore={"snapshot": None})
    await fixture.hour()
    assert fixture.made[0] not in fixture.snapshots


async def test_a_failed_snapshot_that_is_named_stays_with_its_message() -> None:
    fixture = await full()
    failed, kept = fixture.made[0], fixture.snapshots[fixture.made[0]]
    kept["status"] = {"state": "Failed", "message": "no checkpoint"}
    another_job(fixture, startFrom={"snapshot": failed})
    await fixture.hour()
    assert failed in fixture.snapshots


async def test_jobs_are_listed_for_a_deletion_alone_and_no_plan_repeats_it() -> None:
    fixture = await full()
    assert fixture.lists == 0
    await fixture.hour()
    assert fixture.lists == 1
    another_job(fixture, is_seen=False, startFrom={"snapshot": fixture.made[1]})
    await fixture.hour()
    assert fixture.lists == 2
    fixture.wait(60)
    await fixture.settle()
    assert fixture.lists == 2


async def test_one_list_serves_the_deletions_of_a_moment() -> None:
    fixture = await full()
    fixture.kubernetes.edit_job(KEY, snapshots={"count": 1})
    await fixture.settle()
    assert list(fixture.snapshots) == [fixture.made[-1]]
    assert fixture.lists == 1


async def test_nothing_is_deleted_where_the_jobs_cannot_be_listed() -> None:
    fixture = await full()
    fixture.refused = True
    await fixture.hour()
    assert len(fixture.snapshots) == 4
    fixture.refused = False
    for _ in range(2):
        await fixture.hour()
    assert sorted(fixture.snapshots) == sorted(fixture.made[-3:])
