"""``spec.snapshots.schedule``: snapshots at the times of a cron expression."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafkasparkjob_operator.workload import desired_from_resource
from sparkapp.model.errors import ConfigurationError
from tests.support.kubernetes.operator_fixture import KEY, NOON, job_body
from tests.support.kubernetes.snapshot_fixture import HOUR, SnapshotFixture


async def running(schedule: str, **policy: Any) -> SnapshotFixture:
    """A job that runs since noon of 21 November 2026, UTC, when its resource was created."""
    fixture = SnapshotFixture(snapshots={"schedule": schedule, **policy})
    await fixture.run()
    await fixture.fill()
    await fixture.settle()
    return fixture


def times(fixture: SnapshotFixture) -> list[str]:
    """Of the snapshots that were made, by their names."""
    return ["-".join(name.split("-")[1:3]) for name in fixture.made]


async def test_each_time_of_the_schedule_has_a_snapshot_with_the_time_in_its_name() -> None:
    fixture = await running("0 * * * *")
    for _ in range(2):
        await fixture.hour()
    assert times(fixture) == ["20261121-120000", "20261121-130000", "20261121-140000"]


async def test_times_before_the_resource_existed_have_none() -> None:
    fixture = await running("0 3 * * *")
    assert fixture.made == []
    fixture.wait(14 * HOUR)
    await fixture.hour()
    assert len(fixture.made) == 1, "15 hours after noon it is 03:00"


async def test_the_time_zone_moves_the_times() -> None:
    fixture = await running("0 3 * * *", timeZone="America/New_York")
    fixture.wait(18 * HOUR)
    await fixture.hour(checkpoint=False)
    assert fixture.made == [], "07:00 UTC is 02:00 in New York"
    await fixture.hour()
    assert len(fixture.made) == 1


async def test_of_several_missed_times_the_last_has_a_snapshot() -> None:
    fixture = await running("0 * * * *")
    fixture.wait(5 * HOUR + 600)
    fixture.restart_operator()
    await fixture.hour()
    assert times(fixture) == ["20261121-120000", "20261121-180000"]


async def test_a_time_that_is_missed_by_more_than_the_deadline_has_none() -> None:
    fixture = await running("0 * * * *", startingDeadlineSeconds=60)
    fixture.wait(600)
    await fixture.hour()
    assert len(fixture.made) == 1, "13:00 is ten minutes ago"
    fixture.now = NOON + timedelta(hours=1, seconds=30)
    await fixture.hour()
    assert len(fixture.made) == 2


async def test_an_edited_schedule_repeats_no_earlier_time() -> None:
    fixture = await running("30 * * * *")
    await fixture.hour()
    made = len(fixture.made)
    fixture.kubernetes.edit_job(KEY, snapshots={"schedule": "15 * * * *"})
    fixture.report(1, checkpoint_id=99, checkpoint_time="2026-11-21T13:05:00Z")
    await fixture.settle()
    assert len(fixture.made) == made


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"count": 3}, "exactly one of intervalSeconds and schedule"),
        ({"schedule": "0 3 * * *", "intervalSeconds": 60}, "exactly one of intervalSeconds and schedule"),
        ({"intervalSeconds": 60, "timeZone": "UTC"}, "intervalSeconds needs no time zone"),
        ({"schedule": "0 3 * *"}, "has 4 fields, and a cron expression has five"),
        ({"schedule": "60 3 * * *"}, "has '60' as minute, which goes from 0 to 59"),
        ({"schedule": "0 3 * * 7"}, "has '7' as day of the week, which goes from 0 to 6"),
        ({"schedule": "0 3 30 2 *"}, "names days that none of its months has"),
        ({"schedule": "0 5-3 * * *"}, "has the range 5-3 as hour, which ends before it begins"),
        ({"schedule": "*/0 * * * *"}, "has the step '0' as minute"),
        ({"schedule": "@daily", "timeZone": "Mars/Olympus"}, "no time zone of the IANA database"),
        ({"schedule": "@daily", "timeZone": "../../etc/passwd"}, "no time zone of the IANA database"),
        ({"schedule": "@daily", "timeZone": "Local"}, "no time zone of the IANA database"),
    ],
)
def test_what_has_no_times_is_refused_with_its_field(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        desired_from_resource(job_body(snapshots=policy)["spec"], namespace="team", name="orders")
    assert message in raised.value.message
    assert raised.value.remedy
