"""Classifies flights by their delay, batch by batch. The job in continuous.yaml calls ``classify``."""

import io

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

FLIGHT = pa.schema([
    *((name, pa.string()) for name in ("carrier", "origin", "dest")),
    *((name, pa.int64()) for name in ("id", "flight", "dep_delay", "arr_delay")),
])  # fmt: skip


def classify(records: pa.RecordBatch) -> pa.RecordBatch:
    """A record for each flight: its delay class, and the minutes made up in the air."""
    flights = _parsed(records.column("value"))
    dep_delay, arr_delay = flights["dep_delay"], flights["arr_delay"]
    made_up = _text(pc.subtract(dep_delay, arr_delay))
    value = pc.binary_join_element_wise(
        '{"id":', _text(flights["id"]),
        ',"flight":"', flights["carrier"], _text(flights["flight"]),
        '","route":"', flights["origin"], "-", flights["dest"],
        '","class":"', _delay_class(dep_delay, arr_delay), '"',
        pc.fill_null(pc.binary_join_element_wise(',"minutesMadeUp":', made_up, ""), ""),
        "}", "",
    )  # fmt: skip
    return pa.RecordBatch.from_arrays([records.column("key"), value.combine_chunks()], ["key", "value"])


def _parsed(values: pa.Array) -> pa.Table:
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(values)], values), b"\n")
    options = json.ParseOptions(explicit_schema=FLIGHT, unexpected_field_behavior="ignore")
    return json.read_json(io.BytesIO(lines[0].as_buffer()), parse_options=options)


def _text(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return numbers.cast(pa.string())


def _delay_class(dep_delay: pa.ChunkedArray, arr_delay: pa.ChunkedArray) -> pa.ChunkedArray:
    conditions = [pc.is_null(dep_delay), pc.is_null(arr_delay), *(pc.less_equal(arr_delay, end) for end in (0, 15, 60))]
    # The first condition that holds decides. A missing delay satisfies one of the first two.
    cases = pc.make_struct(*(pc.fill_null(condition, False) for condition in conditions))
    return pc.case_when(cases, "cancelled", "diverted", "early", "on time", "late", "very late")
