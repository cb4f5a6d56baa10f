"""The pause before a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasparkjob_operator.clock import parse_time
from kafkasparkjob_operator.decisions.restarts import backoff_seconds, spread
from kafkasparkjob_operator.workload import RestartPolicy
from tests.support.kubernetes.operator_fixture import FAILED, KEY, UID, OperatorFixture


@pytest.mark.parametrize(
    ("policy", "pauses"),
    [
        (RestartPolicy(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]),
        (RestartPolicy(initial_seconds=1, max_seconds=10, multiplier=3), [1, 3, 9, 10]),
        (RestartPolicy(initial_seconds=7, multiplier=1), [7, 7, 7]),
        (RestartPolicy(initial_seconds=0), [0, 0, 0]),
        (RestartPolicy(initial_seconds=500, max_seconds=300), [300, 300]),
    ],
)
def test_backoff(policy: RestartPolicy, pauses: list[int]) -> None:
    assert [backoff_seconds(policy, number) for number in range(1, len(pauses) + 1)] == pauses


@given(
    failures=st.integers(1, 10**9), initial=st.integers(0, 10**5), highest=st.integers(1, 10**5), by=st.integers(1, 10)
)
def test_backoff_stays_within_its_bounds(failures: int, initial: int, highest: int, by: int) -> None:
    policy = RestartPolicy(initial_seconds=initial, max_seconds=highest, multiplier=by)
    assert 0 <= backoff_seconds(policy, failures) <= highest


def test_an_outage_does_not_start_all_jobs_in_step() -> None:
    """Two hundred jobs fail at the same moment, each for the seventh time."""
    found = [spread(64, f"uid-{number}", 7) for number in range(200)]
    assert (min(found), max(found)) == (48, 64)
    assert max(map(found.count, found)) < 40
    assert found == [spread(64, f"uid-{number}", 7) for number in range(200)], "a plan that is made again is equal"
    assert {spread(delay, f"uid-{number}", 1) for delay in (0, 1, 3) for number in range(200)} == {0, 1, 3}


async def test_jobs_that_fail_together_start_at_different_times() -> None:
    times = set()
    for number in range(12):
        operator_fixture = OperatorFixture(restartPolicy={"backoff": {"initialSeconds": 200}})
        operator_fixture.kubernetes.job(KEY)["metadata"]["uid"] = UID.replace("job", f"job{number}")
        await operator_fixture.settle()
        operator_fixture.kubernetes.pod_runs("orders-1-driver")
        operator_fixture.driver_ends(1, FAILED)
        await operator_fixture.settle()
        retry = parse_time(operator_fixture.status["restarts"]["nextRetryTime"])
        assert retry is not None
        seconds = (retry - operator_fixture.now).total_seconds()
        assert 150 <= seconds <= 200
        assert operator_fixture.status["message"].endswith(f"the next attempt starts in {seconds:.0f} s")
        times.add(seconds)
    assert len(times) > 5


async def test_a_crash_loop_without_a_pause_starts_an_attempt_every_ten_seconds() -> None:
    """Every attempt fails after a second, which its policy calls stable, so that no failure is consecutive."""
    operator_fixture = OperatorFixture(
        restartPolicy={"backoff": {"initialSeconds": 0, "maxSeconds": 1, "multiplier": 1}, "resetAfterSeconds": 1}
    )
    for _ in range(120):
        await operator_fixture.settle()
        started = operator_fixture.kubernetes.driver_attempts
        if f"orders-{started[-1]}-driver" in operator_fixture.drivers:
            operator_fixture.wait(1)
            operator_fixture.driver_ends(started[-1], FAILED)
        else:
            operator_fixture.wait(1)
    # 120 turns take 120 s at least; three restarts are free.
    assert 10 <= len(operator_fixture.kubernetes.driver_attempts) <= 3 + 2 + 130 // 10


async def test_a_single_failure_waits_as_its_policy_says() -> None:
    operator_fixture = OperatorFixture(restartPolicy={"backoff": {"initialSeconds": 0}})
    for attempt in (1, 2, 3):
        await operator_fixture.run(attempt)
        operator_fixture.driver_ends(attempt, FAILED)
        await operator_fixture.settle()
    assert operator_fixture.kubernetes.driver_attempts[:4] == [1, 2, 3, 4]
