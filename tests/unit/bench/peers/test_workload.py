"""The records of the bench of peers, and how many of them a contestant writes."""

from __future__ import annotations

import json

import pytest

from bench.peers.workload import LARGE, WORKLOADS, Shape, Workload


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_values_have_the_size_and_come_in_an_even_number(workload: Workload) -> None:
    values = workload.values()
    assert len(values) % 2 == 0, "so that a repetition does not change which records pass the filter"
    allowed = range(workload.size, workload.size + 1) if workload.shape is Shape.COPY else range(190, 211)
    assert {len(value) for value in values} <= set(allowed)


def test_every_second_order_passes_the_filter() -> None:
    (workload,) = (each for each in WORKLOADS if each.shape is Shape.PROJECT)
    orders = [json.loads(value) for value in workload.values()]
    for records in (1, 2, 7, len(orders)):
        assert workload.expected(records) == sum(order["amount"] > LARGE for order in orders[:records])
    assert set(orders[0]) == {"id", "customer", "country", "amount", "at", "note"}
