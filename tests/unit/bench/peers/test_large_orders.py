"""The function of the continuous contestant writes the records of the other contestants."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bench.peers.programs.large_orders import large_orders
from bench.peers.workload import JSON_COLUMNS, LARGE, WORKLOADS, Shape
from sparkapp.source.formats.json_text.decoder import JsonDecoder


def test_the_records_are_those_above_the_limit_as_compact_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.workload.DIFFERENT_VALUES", 1000)
    (workload,) = (each for each in WORKLOADS if each.shape is Shape.PROJECT)
    values = workload.values(0)
    orders, errors = JsonDecoder(JSON_COLUMNS, "value").decode(pa.array(values, pa.binary()))
    assert errors.null_count == len(values)
    found = large_orders(pa.RecordBatch.from_arrays([orders], names=["value"]))
    assert found is not None
    parsed = [json.loads(value) for value in values]
    assert found.column("value").to_pylist() == [
        json.dumps({name: order[name] for name in ("id", "customer", "amount")}, separators=(",", ":"))
        for order in parsed
        if order["amount"] > LARGE
    ]
    assert large_orders(pa.RecordBatch.from_arrays([orders.slice(0, 1)], names=["value"])) is None
