"""The pure part of the bench of what exactly once costs."""

from __future__ import annotations

from bench.checkpoint_cost import batch_of, checkpoint_seconds
from bench.topic_copy import Run


def test_a_checkpoint_has_the_records_of_the_interval_and_a_run_has_three() -> None:
    assert batch_of(200_000.4, 1.0, 3_000_000) == 200_000
    assert batch_of(200_000, 0.5, 3_000_000) == 100_000
    assert batch_of(200_000, 60, 3_000_000) == 1_000_000
    assert batch_of(0.1, 1, 3_000_000) == 1


def test_the_first_checkpoint_of_a_run_is_not_measured() -> None:
    assert checkpoint_seconds(Run(0.0, (5.0, 6.0, 7.5), (1, 1, 1))) == [1.0, 1.5]
