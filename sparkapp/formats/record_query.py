"""A narrow query over Arrow batches, with the results of Spark's plan for the same text.

Spark's comparisons differ from Arrow's in the order of doubles alone: there NaN is equal to NaN, and above all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sparkapp.formats.encoders.record_encoder import json_texts
from sparkapp.model.job.rules.narrow_sql.plan import (
    Among,
    AsJson,
    AsText,
    Compared,
    Condition,
    Field,
    Flag,
    IsNull,
    Joined,
    NarrowQuery,
    Negated,
    Operator,
    Output,
    Struct,
)

_FUNCTIONS = {
    Operator.EQUAL: "equal", Operator.LESS: "less", Operator.LESS_OR_EQUAL: "less_equal",
    Operator.GREATER: "greater", Operator.GREATER_OR_EQUAL: "greater_equal",
}  # fmt: skip
_ANY_BYTES = pc.CastOptions(pa.string(), allow_invalid_utf8=True)
_call: Any = pc.call_function
_cast: Any = pc.cast


class RecordQuery:
    """Maps a batch of source records to a batch of the query's outputs; made for a subtask, used by its thread."""

    def __init__(self, query: NarrowQuery) -> None:
        self._query = query
        self._encoders: dict[pa.DataType, Callable[[Any], Any]] = {}
        self._sets: dict[int, Any] = {}
        """The literals of each IN as an array, by the identity of its condition."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """The outputs of the records that are kept, in their order; None without any.

        :param batch: with the columns of the query, in their formats.
        """
        kept = None if self._query.condition is None else pc.fill_null(self._mask(batch, self._query.condition), False)
        if kept is not None:
            count = kept.true_count
            if not count:
                return None
            kept = None if count == batch.num_rows else kept
        columns = [self._output(batch, output, kept) for _, output in self._query.outputs]
        return pa.RecordBatch.from_arrays(columns, names=[name for name, _ in self._query.outputs])

    def _output(self, batch: pa.RecordBatch, output: Output, kept: Any | None) -> Any:
        if isinstance(output, Struct):
            members = [_value(batch, member, kept) for _, member in output.members]
            return pa.StructArray.from_arrays(members, names=[name for name, _ in output.members])
        if not isinstance(output, AsJson):
            return _value(batch, output, kept)
        values = self._output(batch, output.of, kept)
        if values.type not in self._encoders:
            self._encoders[values.type] = json_texts(values.type)
        return self._encoders[values.type](values)

    def _mask(self, batch: pa.RecordBatch, condition: Condition) -> Any:
        """True, false and null of a condition."""
        if isinstance(condition, Joined):
            function = "and_kleene" if condition.is_and else "or_kleene"
            found = self._mask(batch, condition.of[0])
            for part in condition.of[1:]:
                found = _call(function, [found, self._mask(batch, part)])
            return found
        if isinstance(condition, Negated):
            return _call("invert", [self._mask(batch, condition.of)])
        if isinstance(condition, Among):
            return self._found_among(batch, condition)
        if isinstance(condition, IsNull):
            return _value(batch, condition.of).is_null()
        if isinstance(condition, Flag):
            return _value(batch, condition.of)
        return _compared(batch, condition)

    def _found_among(self, batch: pa.RecordBatch, condition: Among) -> Any:
        """By a hash table, so that thousands of literals cost a record what two cost."""
        values = _value(batch, condition.of)
        if pa.types.is_integer(values.type):
            values = values.cast(pa.int64())
        elif pa.types.is_float64(values.type):
            values = _call("add", [values, 0.0])  # -0.0 has another hash than 0.0
        literals = self._sets.get(id(condition))
        if literals is None:
            literals = self._sets[id(condition)] = pa.array(condition.literals, values.type)
        found = pc.is_in(values, value_set=literals)
        return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.bool_())) if values.null_count else found


def _value(batch: pa.RecordBatch, value: Field | AsText, kept: Any | None = None) -> Any:
    field = value.of if isinstance(value, AsText) else value
    found: Any = batch.column(field.column)
    if field.places:
        found = pc.struct_field(found, list(field.places))
    if kept is not None:
        found = found.filter(kept)
    return _cast(found, options=_ANY_BYTES) if isinstance(value, AsText) else found


def _compared(batch: pa.RecordBatch, condition: Compared) -> Any:
    left = _value(batch, condition.left)
    right: Any = condition.right
    if isinstance(right, Field | AsText):
        right = _value(batch, right)
    elif pa.types.is_integer(left.type):
        left, right = left.cast(pa.int64()), pa.scalar(right, pa.int64())
    else:
        right = pa.scalar(right, left.type)
    found = _call(_FUNCTIONS[condition.operator], [left, right])
    if not pa.types.is_float64(left.type):
        return found
    # A comparison with NaN is false in Arrow. The literals of the query are numbers.
    left_nan = _call("is_nan", [left])
    right_nan = _call("is_nan", [right]) if isinstance(right, pa.Array) else pa.scalar(False)
    both = _call("and_kleene", [left_nan, right_nan])
    if condition.operator in (Operator.GREATER, Operator.GREATER_OR_EQUAL):
        found = _call("or_kleene", [found, _only(left_nan, right_nan)])
    if condition.operator in (Operator.LESS, Operator.LESS_OR_EQUAL):
        found = _call("or_kleene", [found, _only(right_nan, left_nan)])
    if condition.operator in (Operator.EQUAL, Operator.LESS_OR_EQUAL, Operator.GREATER_OR_EQUAL):
        found = _call("or_kleene", [found, both])
    return found


def _only(first: Any, second: Any) -> Any:
    return _call("and_kleene", [first, _call("invert", [second])])
