"""The records of the bench of peers, and how many of them a contestant writes."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from bench.peers.workload import LARGE, LAST_MILLIS, WINDOW_SECONDS, WORKLOADS, Shape, Workload


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_values_have_their_size(workload: Workload) -> None:
    values = workload.values(1000)
    exact = range(workload.size, workload.size + 1)
    allowed = range(190, 211) if workload.shape is Shape.PROJECT else exact
    assert {len(value) for value in values} <= set(allowed)


def test_half_of_the_orders_of_each_partition_pass_the_filter() -> None:
    (workload,) = (each for each in WORKLOADS if each.shape is Shape.PROJECT)
    orders = [json.loads(value) for value in workload.values(0)]
    is_large = [order["amount"] > LARGE for order in orders]
    for records in (1, 2, 4, 5, 7, 8, 13, len(orders)):
        assert workload.expected(records) == sum(is_large[:records])
    assert len(orders) % (2 * workload.partitions) == 0, "so that a repetition does not change which partition has them"
    for partition in range(workload.partitions):
        of_partition = is_large[partition :: workload.partitions]
        assert 2 * sum(of_partition) == len(of_partition), "a subtask with other work decides how long all wait"
    assert set(orders[0]) == {"id", "customer", "country", "amount", "at", "note"}


def test_the_events_of_a_window_have_each_id_twice() -> None:
    (workload,) = (each for each in WORKLOADS if each.shape is Shape.COUNT)
    events = [json.loads(value) for value in workload.values(8000)]
    windows: dict[int, Counter[int]] = defaultdict(Counter)
    for event in events[: -workload.partitions]:
        assert event["at"] < LAST_MILLIS
        windows[event["at"] // (WINDOW_SECONDS * 1000)][event["id"]] += 1
    assert all(event["at"] > LAST_MILLIS for event in events[-workload.partitions :])
    assert sum(map(len, windows.values())) == workload.expected(8000) == 4000
    assert {count for each in windows.values() for count in each.values()} <= {1, 2}


def test_every_third_event_has_an_id_of_before() -> None:
    (workload,) = (each for each in WORKLOADS if each.shape is Shape.DEDUPLICATE)
    ids = [json.loads(value)["id"] for value in workload.values(9000)]
    assert len(set(ids)) == workload.expected(9000) == 6000
