"""The records of the bench of peers, and how many of them a contestant writes."""

from __future__ import annotations

import json

import pytest

from bench.peers.workload import LARGE, WORKLOADS, Shape, Workload


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_values_have_their_size(workload: Workload) -> None:
    values = workload.values()
    allowed = range(workload.size, workload.size + 1) if workload.shape is Shape.COPY else range(190, 211)
    assert {len(value) for value in values} <= set(allowed)


def test_half_of_the_orders_of_each_partition_pass_the_filter() -> None:
    (workload,) = (each for each in WORKLOADS if each.shape is Shape.PROJECT)
    orders = [json.loads(value) for value in workload.values()]
    is_large = [order["amount"] > LARGE for order in orders]
    for records in (1, 2, 4, 5, 7, 8, 13, len(orders)):
        assert workload.expected(records) == sum(is_large[:records])
    assert len(orders) % (2 * workload.partitions) == 0, "so that a repetition does not change which partition has them"
    for partition in range(workload.partitions):
        of_partition = is_large[partition :: workload.partitions]
        assert 2 * sum(of_partition) == len(of_partition), "a subtask with other work decides how long all wait"
    assert set(orders[0]) == {"id", "customer", "country", "amount", "at", "note"}
