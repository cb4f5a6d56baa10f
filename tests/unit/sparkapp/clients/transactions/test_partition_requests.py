"""What responses about partitions say."""

from __future__ import annotations

from types import SimpleNamespace

from sparkapp.clients.transactions.partition_requests import codes_of_added

NOT_ATTEMPTED, REFUSED = 55, 29


def test_the_error_of_another_partition_comes_behind_that_error() -> None:
    results = [SimpleNamespace(partition_error_code=code) for code in (NOT_ATTEMPTED, REFUSED, NOT_ATTEMPTED)]
    response = SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(results_by_partition=results)])
    assert codes_of_added(response)[0] == REFUSED
