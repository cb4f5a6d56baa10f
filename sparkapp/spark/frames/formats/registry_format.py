"""``source.format: avro`` and ``protobuf``: one Arrow function over the bytes of a side.

Only that side passes through Python; Spark keeps the other columns in the JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from sparkapp.dataplane.statistics import TOTALS
from sparkapp.model.job.access.registry_access import RegistryAccess
from sparkapp.model.job.record_format import Format
from sparkapp.source import record_tally
from sparkapp.source.formats.reader_schema import decoder_of
from sparkapp.source.formats.registered_records import RegisteredDecoder
from sparkapp.spark.frames.record_policy import error_column

_RECORD, _ERROR = "record", "error"


def parse_registered(
    records: DataFrame,
    side: str,
    *,
    kind: Format,
    registry: RegistryAccess,
    schema: str,
    publish: Callable[[], None] | None,
) -> DataFrame:
    """Replaces the bytes of a side by its record, and adds the side's error column.

    :param side: ``key`` or ``value``.
    :param kind: Avro or Protobuf.
    :param schema: the reader schema, which the driver fixed for the attempt.
    :param publish: called in workers when records are counted by their schema; None where they are not.
    """
    columns = from_arrow_type(decoder_of(kind, registry, schema, side).type)
    answer = StructType([StructField(_RECORD, columns), StructField(_ERROR, StringType())])

    # Spark reads these type hints, and accepts only the bare name.
    def decode(values: pa.Array, topic: pa.Array, partition: pa.Array, offset: pa.Array) -> pa.Array:  # type: ignore[type-arg]
        found = decoded_side(values, side, kind=kind, registry=registry, schema=schema)
        if publish is not None:
            positions = pa.RecordBatch.from_arrays([topic, partition, offset], names=["topic", "partition", "offset"])
            _count(found.field(_ERROR), values, positions)
            publish()
        return found

    # Declared as nondeterministic, so that Spark does not copy the call into every filter and projection that uses a
    # field of the record.
    function: Any = f.arrow_udf(decode, answer).asNondeterministic()
    parsed = f.col(f"_parsed_{side}")
    return (
        records.withColumn(f"_parsed_{side}", function(f.col(side), "topic", "partition", "offset"))
        .withColumn(error_column(side), parsed[_ERROR])
        .withColumn(side, parsed[_RECORD])
        .drop(f"_parsed_{side}")
    )


def _count(errors: Any, values: Any, positions: pa.RecordBatch) -> None:
    """Counts records by their schema; not in the function that Spark pickles, which cannot have the totals."""
    record_tally.note(positions, errors, TOTALS.add, framed=values.cast(pa.binary()), by_topic=False)


def decoded_side(
    values: pa.Array[Any], side: str, *, kind: Format, registry: RegistryAccess, schema: str
) -> pa.StructArray:
    """:func:`decoded` with the worker's decoder of a side; called by both engines in executors."""
    return decoded(_decoder(kind, registry, schema, side), values, f"the {side} is not {kind}: ")


def decoded(decoder: RegisteredDecoder, values: pa.Array[Any], prefix: str) -> pa.StructArray:
    """A struct of record and error for each value; called once a batch.

    :param prefix: of each error.
    """
    column, errors = decoder.decode(values)
    texts = pa.array([error and prefix + error for error in errors], pa.string())
    return pa.StructArray.from_arrays([column, texts], [_RECORD, _ERROR])


@cache
def _decoder(kind: Format, registry: RegistryAccess, schema: str, side: str) -> RegisteredDecoder:
    """Cached for the worker, because a decoder keeps the writers' schemas."""
    return decoder_of(kind, registry, schema, side)
