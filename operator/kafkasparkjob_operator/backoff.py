"""The pause before a failed job starts again."""

from __future__ import annotations

from kafkasparkjob_operator.workload import RestartPolicy


def backoff_seconds(policy: RestartPolicy, failures: int) -> int:
    """Seconds after the given number of failures in a row (from 1): ``initial * multiplier^(failures - 1)``, capped."""
    delay = policy.initial_seconds
    for _ in range(failures - 1):
        delay *= policy.multiplier
        if delay >= policy.max_seconds:
            break
        if delay == 0 or policy.multiplier == 1:
            break
    return min(delay, policy.max_seconds)
