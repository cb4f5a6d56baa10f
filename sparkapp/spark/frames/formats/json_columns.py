"""JSON that the source's readers decode for the micro-batch engine, so that Spark gets columns and no text.

A reader has the values as Arrow batches and parses them at once, as a subtask of the continuous engine does. What
Arrow's parser does not read as Spark's does stays text, and Spark parses it. So results are Spark's in each case.

Where many values stay text the readers' work is for nothing. They leave all of it to Spark then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from sparkapp.model.encoding.json_columns import columns_of
from sparkapp.model.errors import InvalidArgument
from sparkapp.model.job.record_format import Format
from sparkapp.model.job.spec import Job, JobSpec
from sparkapp.source.formats.json_text.decoder import JsonDecoder
from sparkapp.spark.frames.query_plan import columns_used, fields_used
from sparkapp.spark.frames.record_policy import needs_decoded_text

_FIRST = frozenset({0})
"""The place of a side's first field."""
_MANY = 0.1
"""Share of the values of a batch that stay text, from which on a reader leaves the rest of its range to Spark."""


def json_column(side: str) -> str:
    """The column of the source with the decoded values of a side; null where the side is null, or stays text."""
    return f"_json_{side}"


def decoded_sides(spec: JobSpec) -> dict[str, str]:
    """The sides that readers decode, with their DDL; called by the query's plan and by readers.

    Types that only Spark's parser knows (timestamps, decimals, maps) leave their side to it.
    """
    return {side: schema for side, chosen, schema in spec.source.sides if chosen is Format.JSON and _is_known(schema)}


def source_ddl(spec: JobSpec) -> str:
    """DDL of the decoded columns, behind those of the source; empty without any."""
    return "".join(f", {json_column(side)} STRUCT<{schema}>" for side, schema in decoded_sides(spec).items())


class JsonReader:
    """Adds the decoded columns to the batches of one read; made for each range, in an executor's worker.

    :param columns: of the source that the query uses, see :func:`with_fields`. A side that it does not use is not
        decoded. All fields of the other side are: each could be an error of its record.
    """

    def __init__(self, job: Job, columns: frozenset[str]) -> None:
        self._decoders = {side: JsonDecoder(schema, side) for side, schema in decoded_sides(job.spec).items()}
        self._used: dict[str, tuple[bool, ...]] = {}
        """Of each side that is decoded, whether each of its fields is used."""
        for side, decoder in self._decoders.items():
            names = [f"{json_column(side)}.{place}" for place in range(len(decoder.type))]
            if json_column(side) in columns:
                self._used[side] = (
                    tuple(name in columns for name in names) if columns & {*names} else (True,) * len(names)
                )
        self._keeps_text = needs_decoded_text(job.spec)

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the decoded columns; its text is only where Spark needs it."""
        if not self._decoders:
            return batch
        columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        for side, decoder in self._decoders.items():
            if side not in self._used:
                columns[json_column(side)] = pa.nulls(batch.num_rows, decoder.type)
                continue
            text = columns[side]
            decoded = decoder.decode_plain(text)
            columns[json_column(side)] = _of_fields(decoded, self._used[side])
            left = decoded.null_count - text.null_count
            if left > _MANY * batch.num_rows:
                del self._used[side]
            if not self._keeps_text:
                none = pa.nulls(batch.num_rows, text.type)  # of a slice and a scalar Arrow makes an invalid array
                columns[side] = pc.if_else(pc.is_null(decoded), text, none) if left else none
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def columns_to_read(frame: DataFrame, spec: JobSpec) -> frozenset[str]:
    """What readers hand over for a frame over the source's stream: its columns, and fields of those that are decoded.

    Called before the query starts.
    """
    spark = frame.sparkSession
    return with_fields(columns_used(frame, spark), spec, lambda column: fields_used(frame, spark, column))


def with_fields(
    columns: frozenset[str], spec: JobSpec, fields_of: Callable[[str], frozenset[int] | None]
) -> frozenset[str]:
    """The columns, and for a side that is decoded the places of the fields that the query uses, behind a point.

    A side without places is used as a whole. So a side that is only compared with null has the first.

    :param fields_of: the places of the used fields of a column; None for all.
    """
    found = set(columns)
    for side in decoded_sides(spec):
        column = json_column(side)
        used = fields_of(column) if column in columns else None
        if used is not None:
            found |= {f"{column}.{place}" for place in used or _FIRST}
    return frozenset(found)


def _of_fields(records: Any, used: tuple[bool, ...]) -> Any:
    """The structs with null in the fields that are not used: text that nobody reads does not go to the JVM."""
    if all(used):
        return records
    fields = [
        child if is_used else pa.nulls(len(records), child.type)
        for child, is_used in zip((records.field(at) for at in range(len(used))), used, strict=True)
    ]
    return pa.StructArray.from_arrays(fields, fields=list(records.type), mask=records.is_null())


def _is_known(schema: str) -> bool:
    try:
        columns_of(schema)
    except InvalidArgument:
        return False
    return True
