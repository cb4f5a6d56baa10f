"""The work of :attr:`bench.peers.workload.Shape.PROJECT` as a function over Arrow batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.workload import LARGE

_call: Any = pc.call_function


def large_orders(batch: pa.RecordBatch) -> pa.RecordBatch | None:
    """The orders above :data:`LARGE`, with id, customer and amount as JSON. No field of the workload is null."""
    value = batch.column("value")
    value = value.filter(_call("greater", [pc.struct_field(value, "amount"), LARGE]))
    if not len(value):
        return None
    first = _member(value, "id", "{", "")
    text = pc.binary_join_element_wise(
        first, _member(value, "customer", ",", '"'), _member(value, "amount", ",", ""), "}", ""
    )
    return pa.RecordBatch.from_arrays([text], names=["value"])


def _member(value: Any, name: str, before: str, quote: str) -> Any:
    field = pc.struct_field(value, name)
    if quote:
        for sign in ("\\", '"'):
            field = pc.replace_substring(field, sign, "\\" + sign)
    return pc.binary_join_element_wise(f'{before}"{name}":{quote}', field.cast(pa.string()), quote, "")
