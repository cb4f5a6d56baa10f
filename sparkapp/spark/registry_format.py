"""``source.format: avro`` and ``protobuf``: one Arrow function over the bytes of a side.

Only that side goes through Python; Spark keeps the other columns beside it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from sparkapp.model.job import Format
from sparkapp.model.registry_access import RegistryAccess
from sparkapp.source.reader_schema import decoder_of
from sparkapp.source.registered_records import RegisteredDecoder
from sparkapp.spark.record_policy import error_column

_RECORD, _ERROR = "record", "error"


def parse_registered(
    records: DataFrame, side: str, *, kind: Format, registry: RegistryAccess, schema: str
) -> DataFrame:
    """Replaces the bytes of a side by its record, and adds the side's error column.

    :param schema: the reader schema; the driver has fixed it.
    """
    columns = from_arrow_type(decoder_of(kind, registry, schema, side).type)
    answer = StructType([StructField(_RECORD, columns), StructField(_ERROR, StringType())])

    # Spark reads these hints, and takes the bare name alone.
    def decode(values: pa.Array) -> pa.Array:  # type: ignore[type-arg]
        return decoded(_decoder(kind, registry, schema, side), values, f"the {side} is not {kind}: ")

    # Called nondeterministic, so that Spark does not copy the call into every filter and projection that asks for a
    # field of the record.
    function: Any = f.arrow_udf(decode, answer).asNondeterministic()
    parsed = f.col(f"_parsed_{side}")
    return (
        records.withColumn(f"_parsed_{side}", function(f.col(side)))
        .withColumn(error_column(side), parsed[_ERROR])
        .withColumn(side, parsed[_RECORD])
        .drop(f"_parsed_{side}")
    )


def decoded(decoder: RegisteredDecoder, values: pa.Array[Any], prefix: str) -> pa.Array[Any]:
    """Records and errors side by side, as the frame wants them."""
    column, errors = decoder.decode(values)
    texts = pa.array([error and prefix + error for error in errors], pa.string())
    return pa.StructArray.from_arrays([column, texts], [_RECORD, _ERROR])


@cache
def _decoder(kind: Format, registry: RegistryAccess, schema: str, side: str) -> RegisteredDecoder:
    """One a worker: it keeps the writers' schemas."""
    return decoder_of(kind, registry, schema, side)
