"""``spec.ttlSecondsAfterFinished``: a Finished job is deleted after its time, and no other job."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasparkjob_operator.identity import FINALIZER
from sparkapp.model import names
from tests.support.kubernetes.operator_fixture import DRAINED, FATAL, FINISHED, KEY, OperatorFixture

BOUNDED = {"source": {"topics": ["orders"], "stopping": {"mode": "Latest"}}}
TTL = "ttlSecondsAfterFinished"


async def finished(**spec: Any) -> OperatorFixture:
    """A job that has just read to its end."""
    fixture = OperatorFixture(**BOUNDED, **spec)
    await fixture.run()
    fixture.checkpoint(1, 10, drained=True, finished=True)
    fixture.driver_ends(1, FINISHED)
    await fixture.settle()
    return fixture


def gone(fixture: OperatorFixture) -> bool:
    return not fixture.kubernetes.has_job(KEY)


def deletions(fixture: OperatorFixture) -> list[tuple[str, str, str]]:
    return [write for write in fixture.kubernetes.writes if write[:2] == ("delete", names.KIND)]


@pytest.mark.parametrize("ttl", [1, 600])
async def test_a_finished_job_is_deleted_after_its_time_with_what_it_owns(ttl: int) -> None:
    fixture = await finished(**{TTL: ttl})
    fixture.wait(ttl - 1)
    await fixture.settle()
    assert fixture.status["state"] == "Finished"
    fixture.wait(1)
    await fixture.settle()
    assert gone(fixture)
    assert fixture.drivers == []
    assert "TimeToLiveExpired" in fixture.kubernetes.events(warning=False)


async def test_a_time_of_zero_deletes_at_once_but_after_the_status_has_said_so() -> None:
    fixture = OperatorFixture(**BOUNDED, **{TTL: 0})
    await fixture.run()
    fixture.checkpoint(1, 10, drained=True, finished=True)
    fixture.driver_ends(1, FINISHED)
    await fixture.look()
    assert fixture.status["state"] == "Finished"
    await fixture.look()
    assert gone(fixture)


async def test_it_is_looked_at_again_when_its_time_is_over() -> None:
    fixture = await finished(**{TTL: 600})
    fixture.wait(200)
    waits: list[float] = []
    fixture.queue.add_after = lambda _, seconds: waits.append(round(seconds))  # type: ignore[method-assign]
    await fixture.look()
    assert waits == [400]


async def test_without_the_field_it_stays() -> None:
    fixture = await finished()
    fixture.wait(10**9)
    await fixture.settle()
    assert fixture.status["state"] == "Finished"


async def test_a_restarted_operator_counts_on() -> None:
    fixture = await finished(**{TTL: 600})
    fixture.wait(500)
    fixture.restart_operator()
    await fixture.settle()
    fixture.wait(100)
    await fixture.settle()
    assert gone(fixture)


async def test_a_clock_that_is_set_back_deletes_nothing_sooner() -> None:
    fixture = await finished(**{TTL: 600})
    fixture.wait(-3600)
    await fixture.settle()
    assert not gone(fixture)


async def test_a_failed_job_stays() -> None:
    fixture = OperatorFixture(**BOUNDED, **{TTL: 0})
    await fixture.run()
    fixture.driver_ends(1, FATAL)
    await fixture.settle()
    fixture.wait(3600)
    await fixture.settle()
    assert fixture.status["state"] == "Failed"


async def test_a_job_that_was_suspended_stays_finished_or_not() -> None:
    running = OperatorFixture(**BOUNDED, **{TTL: 0})
    await running.run()
    running.kubernetes.edit_job(KEY, suspend=True)
    await running.settle()
    running.checkpoint(1, 10, drained=True)
    running.driver_ends(1, DRAINED)
    ended = await finished(**{TTL: 600})
    ended.kubernetes.edit_job(KEY, suspend=True)
    for fixture in (running, ended):
        await fixture.settle()
        fixture.wait(3600)
        await fixture.settle()
        assert fixture.status["state"] == "Suspended"


async def test_the_time_of_a_finished_job_can_be_changed_and_starts_nothing() -> None:
    fixture = await finished()
    for ttl in (900, 60):
        fixture.kubernetes.edit_job(KEY, **{TTL: ttl})
        await fixture.settle()
        assert fixture.status["state"] == "Finished"
    assert fixture.kubernetes.driver_attempts == [1]
    assert "ScaleIgnored" not in fixture.kubernetes.events()
    assert fixture.status["observedGeneration"] == 3
    fixture.wait(60)
    await fixture.settle()
    assert gone(fixture)


async def test_the_time_of_a_running_job_can_be_changed_and_restarts_nothing() -> None:
    fixture = OperatorFixture(**BOUNDED)
    await fixture.run()
    fixture.kubernetes.edit_job(KEY, **{TTL: 60})
    await fixture.settle()
    assert fixture.drivers == ["orders-1-driver"]
    assert fixture.ready["status"] == "True"


async def test_a_change_of_the_last_moment_wins() -> None:
    """Somebody withdraws the time between the operator's look and its request."""
    fixture = await finished(**{TTL: 60})
    fixture.wait(60)
    delete = fixture.kubernetes.delete_job_version

    async def late(*arguments: Any, **keywords: Any) -> None:
        fixture.kubernetes.edit_job(KEY, **{TTL: None})
        await delete(*arguments, **keywords)

    fixture.kubernetes.delete_job_version = late  # type: ignore[method-assign]
    await fixture.settle()
    assert fixture.status["state"] == "Finished"
    assert deletions(fixture) == []


async def test_a_changed_spec_runs_again_instead() -> None:
    fixture = await finished(**{TTL: 60})
    fixture.wait(60)
    fixture.kubernetes.edit_job(KEY, restartNonce=1)
    await fixture.settle()
    assert fixture.drivers == ["orders-2-driver"]


async def test_a_resource_that_is_invalid_now_stays() -> None:
    fixture = await finished(**{TTL: 60})
    fixture.kubernetes.edit_job(KEY, sink={"topic": "orders"})
    await fixture.settle()
    fixture.wait(60)
    await fixture.settle()
    assert not gone(fixture)


async def test_an_operator_without_the_right_says_so_once_and_the_job_stays() -> None:
    fixture = await finished(**{TTL: 60})
    fixture.kubernetes.refuse_deletion = "kafkasparkjobs is forbidden: cannot delete"
    fixture.wait(60)
    await fixture.settle()
    await fixture.settle()
    assert fixture.status["state"] == "Finished"
    assert fixture.kubernetes.events(warning=True) == ["ExpiryRefused"]
    fixture.kubernetes.refuse_deletion = ""
    await fixture.settle()
    assert gone(fixture)


async def test_a_job_with_the_finalizer_is_released_at_once() -> None:
    fixture = await finished(**{TTL: 60}, sink={"topic": "enriched", "transactions": {"timeoutSeconds": 0}})
    assert fixture.kubernetes.job(KEY)["metadata"]["finalizers"] == [FINALIZER]
    fixture.wait(60)
    await fixture.settle()
    assert gone(fixture)
    assert fixture.kubernetes.driver_attempts == [1]
