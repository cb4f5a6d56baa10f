"""The queue: each job once in it, one worker a job, pauses that grow."""

from __future__ import annotations

import asyncio

import pytest

from kafkasparkjob_operator.controller.work_queue import LAST_RETRY_SECONDS, WorkQueue
from kafkasparkjob_operator.identity import JobKey

A, B = JobKey("team", "a"), JobKey("team", "b")


async def test_adding_twice_is_one_look() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.add(A)
    queue.add(B)
    assert len(queue) == 2
    assert [await queue.take(), await queue.take()] == [A, B]
    assert len(queue) == 0


async def test_a_job_that_changes_while_it_is_looked_at_is_looked_at_again_afterwards() -> None:
    queue = WorkQueue()
    queue.add(A)
    assert await queue.take() == A
    queue.add(A)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.01)  # not to a second worker
    queue.done(A)
    assert await queue.take() == A


async def test_failures_pause_longer_each_time_and_success_ends_the_row() -> None:
    queue = WorkQueue()
    assert [queue.failed(A) for _ in range(4)] == [0.5, 1, 2, 4]
    for _ in range(20):
        longest = queue.failed(A)
    assert longest == LAST_RETRY_SECONDS
    queue.succeeded(A)
    assert queue.failed(A) == 0.5


async def test_of_two_wishes_the_sooner_counts() -> None:
    queue = WorkQueue()
    queue.add_after(A, 3600)
    queue.add_after(A, 0.001)
    queue.add_after(A, 3600)
    assert await asyncio.wait_for(queue.take(), 1) == A


async def test_a_forgotten_job_does_not_come_back() -> None:
    queue = WorkQueue()
    queue.add_after(A, 0.001)
    queue.add_later(A, 0.001)
    queue.forget(A)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.02)


async def test_what_a_sweep_has_queued_takes_one_worker_while_other_jobs_wait() -> None:
    queue = WorkQueue()
    looks, events = ([JobKey("team", f"{kind}-{number}") for number in range(20)] for kind in ("look", "event"))
    for key in looks:
        queue.add_later(key, 0)
    for key in events:
        queue.add(key)
    workers = [await queue.take() for _ in range(4)]
    assert workers == [looks[0], *events[:3]]
    order = []
    while len(queue):
        queue.done(workers.pop(0))
        workers.append(await queue.take())
        order.append(workers[-1])
    since = order.index(events[-1])
    assert order[since + 1 :] == looks[-len(order[since + 1 :]) :], "the rest of the looks, by all workers"
    assert 4 <= sum(key in looks for key in order[:since]) <= 6, "one of four workers until then"


async def test_a_job_of_the_sweep_for_which_something_happens_waits_no_longer() -> None:
    queue = WorkQueue()
    others = [JobKey("team", f"look-{number}") for number in range(5)]
    for key in (*others, A):
        queue.add_later(key, 0.0)
    assert await queue.take() == others[0]
    queue.add(A)
    queue.add(A)
    assert await queue.take() == A
    queue.add_later(A, 0.0)
    queue.add(A)
    assert len(queue) == 5
    queue.done(A)
    assert await queue.take() == A
    queue.done(A)
    assert [await queue.take() for _ in range(4)] == others[1:]
    assert len(queue) == 0


async def test_a_delay_of_the_sweep_puts_no_other_delay_off() -> None:
    queue = WorkQueue()
    queue.add_later(A, 0.001)
    queue.add_after(A, 0.02)
    assert await asyncio.wait_for(queue.take(), 1) == A
    queue.done(A)
    assert await asyncio.wait_for(queue.take(), 1) == A


async def test_the_slowest_worker_is_known() -> None:
    queue = WorkQueue()
    assert queue.longest_active_seconds() == 0.0
    queue.add(A)
    await queue.take()
    await asyncio.sleep(0.01)
    assert queue.longest_active_seconds() >= 0.01


async def test_a_job_of_another_namespace_waits_for_one_job_and_not_for_five_thousand() -> None:
    queue = WorkQueue()
    for number in range(5000):
        queue.add(JobKey("noisy", f"job-{number}"))
    queue.add(JobKey("quiet", "orders"))
    queue.add(JobKey("third", "orders"))
    first = []
    for _ in range(6):
        first.append(await queue.take())
        queue.done(first[-1])
    assert [key.namespace for key in first] == ["noisy", "quiet", "third", "noisy", "noisy", "noisy"]
    assert [key.name for key in first if key.namespace == "noisy"] == [f"job-{number}" for number in range(4)]


async def test_a_namespace_of_slow_jobs_leaves_workers_to_the_others() -> None:
    queue = WorkQueue(share=2)
    for number in range(4):
        queue.add(JobKey("noisy", f"job-{number}"))
    slow = [await queue.take(), await queue.take()]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.01)
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.add(JobKey("quiet", "orders"))
    assert await asyncio.wait_for(waiting, 1) == JobKey("quiet", "orders")
    waiting = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.done(slow[0])
    queue.done(JobKey("quiet", "orders"))
    assert await asyncio.wait_for(waiting, 1) == JobKey("noisy", "job-2")


async def test_a_worker_that_ends_leaves_its_job_to_another_worker() -> None:
    queue = WorkQueue()
    first, second = asyncio.ensure_future(queue.take()), asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)
    queue.add(A)
    first.cancel()
    assert await asyncio.wait_for(second, 1) == A


async def test_a_namespace_has_no_more_workers_than_another_that_works() -> None:
    queue = WorkQueue()
    for number in range(8):
        queue.add(JobKey("noisy", f"job-{number}"))
    first = [await queue.take() for _ in range(3)]
    queue.add(JobKey("quiet", "orders"))
    assert await queue.take() == JobKey("quiet", "orders")
    for key in first:
        queue.done(key)
    assert await queue.take() == JobKey("noisy", "job-3")
    waiting = [asyncio.ensure_future(queue.take()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(future.done() for future in waiting), "one worker each"
    queue.done(JobKey("quiet", "orders"))
    taken = await asyncio.wait_for(asyncio.gather(*waiting), 1)
    assert {key.namespace for key in taken} == {"noisy"}


async def test_a_time_that_is_put_off_is_asked_for_again() -> None:
    queue, asked = WorkQueue(), [0.0, 0.01, 0.01]
    queue.add_when(A, asked.pop)
    async with asyncio.timeout(5):
        assert await queue.take() == A
    assert asked == []


async def test_a_job_has_a_single_time_that_is_put_off() -> None:
    queue = WorkQueue()
    for left in (lambda: 0.01, None, lambda: 0.01):
        queue.add_when(A, left)
    queue.forget(A)
    await asyncio.sleep(0.02)
    assert len(queue) == 0
