"""The data set as the source topic carries it."""

from __future__ import annotations

import importlib
import json

import pyarrow as pa
import pytest

from demo.data import flight, flights
from demo.delays import delay_class, expected
from demo.manifest import EXAMPLE

SOURCE = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def test_flights_are_numbered_json_keyed_by_the_aircraft() -> None:
    first, second = flights(2)
    assert first.key == b"N14228"
    assert json.loads(first.value) == {
        "id": 0, "scheduled": "2013-01-01T10:00:00Z", "carrier": "UA",
        "tailnum": "N14228", "origin": "EWR", "dest": "IAH",
        "flight": 1545, "dep_delay": 2, "arr_delay": 11, "distance": 1400,
    }  # fmt: skip
    assert json.loads(second.value)["id"] == 1


def test_what_the_data_set_does_not_know_is_null() -> None:
    row = dict.fromkeys(("time_hour", "tailnum", "dep_delay", "arr_delay", "flight", "distance"), "")
    record = flight(7, row | {"carrier": "UA", "origin": "EWR", "dest": "IAH"})
    assert (record["id"], record["tailnum"], record["dep_delay"]) == (7, None, None)


@pytest.mark.parametrize(
    ("dep_delay", "arr_delay", "name"),
    [
        (None, None, "cancelled"), (3, None, "diverted"), (3, 0, "early"), (3, -5, "early"), (3, 1, "on time"),
        (3, 15, "on time"), (3, 16, "late"), (3, 60, "late"), (3, 61, "very late"),
    ],
)  # fmt: skip
def test_delay_classes(dep_delay: int | None, arr_delay: int | None, name: str) -> None:
    assert delay_class(dep_delay, arr_delay) == name


def test_expected_record_has_no_field_for_a_null() -> None:
    record = {"id": 3, "carrier": "UA", "flight": 15, "origin": "EWR", "dest": "IAH", "dep_delay": 4, "arr_delay": 1}
    result = {"id": 3, "flight": "UA15", "route": "EWR-IAH", "class": "on time", "minutesMadeUp": 3}
    assert expected(record) == result
    assert expected(record | {"arr_delay": None}).keys() == {"id", "flight", "route", "class"}


def test_the_function_over_arrow_batches_agrees_with_the_second_computation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    records = list(flights(20_000))
    keys, values = ([getattr(record, name) for record in records] for name in ("key", "value"))
    batch = pa.RecordBatch.from_pydict({"key": keys, "value": values}, schema=SOURCE)
    result = importlib.import_module("arrow_delays").classify(batch)
    assert result.column("key").to_pylist() == keys
    found = [json.loads(value) for value in result.column("value").to_pylist()]
    assert found == [expected(json.loads(value)) for value in values]
    assert {record["class"] for record in found} >= {"cancelled", "diverted"}
