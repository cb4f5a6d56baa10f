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
    number, customer, amount = (pc.struct_field(value, name).cast(pa.string()) for name in ("id", "customer", "amount"))
    for sign in ("\\", '"'):
        customer = pc.replace_substring(customer, sign, "\\" + sign)
    # The other contestants write a whole amount with its zero.
    zero = pc.if_else(pc.match_substring(amount, "."), "", ".0")
    text = pc.binary_join_element_wise(
        '{"id":', number, ',"customer":"', customer, '","amount":', amount, zero, "}", ""
    )
    return pa.RecordBatch.from_arrays([text], names=["value"])
