"""The pause before a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasparkjob_operator.decisions.restarts import backoff_seconds
from kafkasparkjob_operator.workload import RestartPolicy


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
