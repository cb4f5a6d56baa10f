"""Batches of records in JSON as columns: Arrow's parser where its result is that of Spark's, else record by record.

Arrow's parser reads all values of a batch at once, and takes fewer texts than Spark's. Where it takes one, both give
the same result, with the exceptions that :class:`JsonDecoder` looks for. Where it refuses, halves of the batch are
tried, and at last each record is read by :mod:`sparkapp.source.formats.json_text.record`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sparkapp.model.encoding.json_columns import JsonType, Kind, columns_of
from sparkapp.source.formats.json_text.record import DoesNotFit, FractionAsText, read_record
from sparkapp.source.formats.json_text.tokens import MAX_DEPTH, MAX_NAME, MAX_NUMBER, NotJson
from sparkapp.source.formats.registered_records import framed_error, schema_id_of

_TYPES = {
    Kind.BOOLEAN: pa.bool_(), Kind.TINYINT: pa.int8(), Kind.SMALLINT: pa.int16(), Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(), Kind.DOUBLE: pa.float64(), Kind.STRING: pa.string(),
}  # fmt: skip
_BYTES_AT_ONCE = 64 << 20
"""Of the text that Arrow parses at once: a copy of the values, which bounds the memory."""
_LEAST = 8
"""Records that are read one by one where Arrow's parser refuses them."""
_LEAST_LEFT = 64
"""Records that are left to another parser where Arrow's refuses them."""
_STRIDE = 20
_SPACE = " \t\r\n"
_SIGN_OF_NUMBER = np.isin(np.arange(256), list(b"0123456789.eE+-"))
_ODD_NUMBER = re.compile(rb"[:,\[][ \t\r\n]*+-?(?:Inf|-?NaN)")
_ODD_WORDS = (b"Inf", b"NaN")
_CHUNK = 1 << 17
"""Bytes that are searched at once, and fit a processor's cache."""
_SHOWN = 200
_call: Any = pc.call_function


class JsonDecoder:
    """Decodes a side of a topic, in a Python worker.

    :param schema: Spark's DDL, which the rules of the job have checked.
    :param side: ``key`` or ``value``, for errors.
    """

    def __init__(self, schema: str, side: str) -> None:
        self._columns = columns_of(schema)
        self.type = arrow_type(self._columns)
        """Arrow type of the decoded column, a struct."""
        shown = schema if len(schema) <= _SHOWN else f"{schema[:_SHOWN]}…"
        self._not_json = f"the {side} is not JSON that fits the schema {shown!r}"
        self._framed = framed_error(side)
        self._fraction = (
            f"the {side} has a number with a fraction or an exponent in a column of STRING: declare DOUBLE, or set"
            " spec.engine: MicroBatch"
        )
        self._options = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(self.type.fields), unexpected_field_behavior="ignore"
        )

    def decode(self, values: Any) -> tuple[Any, Any]:
        """The column of records and the column of errors, both as long as the values. Null is null, without an error.

        :param values: of Arrow's type binary.
        """
        parts = [
            self._each_alone(part) if records is None else (records, pa.nulls(len(part), pa.string()))
            for part, records in self._parts(values.drop_null(), _LEAST)
        ]
        records, errors = zip(*parts or [self._each_alone(values.slice(0, 0))], strict=True)
        return _at_places(values, pa.concat_arrays(records)), _at_places(values, pa.concat_arrays(errors))

    def decode_plain(self, values: Any) -> Any:
        """The column of the records that Arrow's parser reads as Spark's does; null for the others.

        A caller that has Spark's parser leaves the others to it. They come with up to 63 neighbours.

        :param values: of Arrow's type binary.
        """
        parts = [
            pa.nulls(len(part), self.type) if records is None else records
            for part, records in self._parts(values.drop_null(), _LEAST_LEFT)
        ]
        return _at_places(values, pa.concat_arrays(parts or [pa.nulls(0, self.type)]))

    def _parts(self, values: Any, least: int) -> Iterator[tuple[Any, Any | None]]:
        """The values in parts, each with its records.

        :param least: the length from which on a part that Arrow's parser refuses is not divided: it has no records.
        """
        if not len(values):
            return
        records = self._at_once(values) if values.nbytes <= _BYTES_AT_ONCE else None
        if records is not None or len(values) <= least:
            yield values, records
        else:
            half = len(values) // 2
            yield from self._parts(values.slice(0, half), least)
            yield from self._parts(values.slice(half), least)

    def _at_once(self, values: Any) -> Any | None:
        """The records, if Arrow's parser reads them as Spark's does."""
        try:
            texts = values.cast(pa.string())  # checks that it is UTF-8
            if not _are_objects(texts):
                texts = pc.ascii_trim(texts, _SPACE)
            table = self._table(texts) if _are_objects(texts) else None
        except pa.ArrowInvalid:
            return None
        if table is None or table.num_rows != len(values):
            return None
        columns = [_in_single_chunk(column) for column in table.columns]
        if any(map(_has_negative_zero, columns)):
            return None
        return pa.StructArray.from_arrays(columns, fields=self.type.fields)

    def _table(self, texts: Any) -> Any | None:
        """The objects in the texts, each of which begins and ends with a brace; None if Jackson could refuse any."""
        # A line feed cannot be in a string, and two braces around it cannot be in the same object. So no object has
        # parts of two values, and as many objects as values are a single object in each.
        joined = _call("binary_join", [pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n"])
        text = joined[0].as_buffer()
        if not _is_plain(texts, np.frombuffer(text, np.uint8)):
            return None
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1)
        source: Any = pa.BufferReader(text)
        return pyarrow.json.read_json(source, options, self._options)

    def _each_alone(self, values: Any) -> tuple[Any, Any]:
        records: list[dict[str, Any] | None] = []
        errors: list[str | None] = []
        for value in values.to_pylist():
            record, error = None, None
            try:
                record = read_record(value, self._columns)
            except (NotJson, DoesNotFit):
                schema_id = schema_id_of(value)
                error = self._not_json if schema_id is None else str(schema_id).join(self._framed)
            except FractionAsText:
                error = self._fraction
            records.append(record)
            errors.append(error)
        return pa.array(records, self.type), pa.array(errors, pa.string())


def arrow_type(kind: JsonType) -> Any:
    """The Arrow type of a type; fields can be null, whatever the DDL says."""
    if kind.kind is Kind.STRUCT:
        return pa.struct([(name, arrow_type(field)) for name, field in kind.fields])
    if kind.kind is Kind.ARRAY:
        assert kind.element is not None
        return pa.list_(arrow_type(kind.element))
    return _TYPES[kind.kind]


def _at_places(values: Any, found: Any) -> Any:
    """What was found for the values that are not null, at their places; null for null."""
    if not values.null_count:
        return found
    ahead = _call("cumulative_sum", [values.is_valid().cast(pa.int64())])
    return found.take(pc.if_else(values.is_valid(), pc.subtract(ahead, 1), pa.scalar(None, pa.int64())))


def _are_objects(texts: Any) -> bool:
    return bool(pc.all(pc.starts_with(texts, "{")).as_py() and pc.all(pc.ends_with(texts, "}")).as_py())


def _is_plain(texts: Any, text: Any) -> bool:
    """Whether nothing is in the texts that Arrow's parser takes and Jackson refuses.

    :param text: the bytes of all texts in one array.
    """
    if _has_odd_word(text) and _ODD_NUMBER.search(text):
        return False
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest <= MAX_NUMBER:
        return True
    if longest > MAX_NAME:
        return False
    opening = np.count_nonzero(text == ord("[")) + np.count_nonzero(text == ord("{"))
    if opening - len(texts) >= MAX_DEPTH:
        opened = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
        if pc.max(opened).as_py() > MAX_DEPTH:
            return False
    # A long number has this many of every twentieth byte, as few other texts have.
    others = np.flatnonzero(~_SIGN_OF_NUMBER[text[::_STRIDE]])
    return bool(np.diff(others, prepend=-1, append=len(text) // _STRIDE + 1).max() <= MAX_NUMBER // _STRIDE)


def _has_odd_word(text: Any) -> bool:
    """NumPy finds the first two letters five times as fast as Python finds the word."""
    for start in range(0, len(text), _CHUNK):
        part = text[start : start + _CHUNK + 2]  # a word may begin at the chunk's last byte
        for word in _ODD_WORDS:
            begins = (part[:-1] == word[0]) & (part[1:] == word[1])
            if begins.any() and word in part.tobytes():
                return True
    return False


def _has_negative_zero(column: Any) -> bool:
    """Whether a double in the column is -0.0: in Spark's parser ``-0`` is an integer, and ``-0.0`` is not."""
    kind = column.type
    if pa.types.is_struct(kind):
        return any(map(_has_negative_zero, column.flatten()))
    if pa.types.is_list(kind):
        return _has_negative_zero(column.flatten())
    if not pa.types.is_float64(kind):
        return False
    zeros = column.filter(_call("equal", [column, 0.0]))
    return len(zeros) > 0 and bool(pc.any(_call("less", [_call("divide", [1.0, zeros]), 0.0])).as_py())


def _in_single_chunk(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
