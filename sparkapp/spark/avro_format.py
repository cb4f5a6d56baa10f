"""``source.format: avro``: one Arrow function over the bytes of a side; the other columns do not go through Python."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.functions import ArrowUDFType
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from sparkapp.source.avro import AvroDecoder, decoder_of
from sparkapp.spark.record_policy import error_column

_RECORD, _ERROR = "record", "error"


def parse_avro(records: DataFrame, side: str, *, registry: str, schema: str) -> DataFrame:
    """Replaces the bytes of a side by its record, and adds the side's error column.

    :param schema: the reader schema; the driver has fixed it.
    """
    kind = from_arrow_type(decoder_of(registry, schema, side).type)
    answer = StructType([StructField(_RECORD, kind), StructField(_ERROR, StringType())])

    def decode(values: Any) -> Any:
        return decoded(_decoder(registry, schema, side), values, side)

    # Called nondeterministic, so that Spark does not copy the call into every filter and projection that asks for a
    # field of the record.
    function: Any = f.arrow_udf(decode, answer, ArrowUDFType.SCALAR).asNondeterministic()
    parsed = f.col(f"_parsed_{side}")
    return (
        records.withColumn(f"_parsed_{side}", function(f.col(side)))
        .withColumn(error_column(side), parsed[_ERROR])
        .withColumn(side, parsed[_RECORD])
        .drop(f"_parsed_{side}")
    )


def decoded(decoder: AvroDecoder, values: pa.Array[Any], side: str) -> pa.Array[Any]:
    """Records and errors side by side, as the frame wants them."""
    column, errors = decoder.decode(values)
    texts = pa.array([error and f"the {side} is not Avro: {error}" for error in errors], pa.string())
    return pa.StructArray.from_arrays([column, texts], [_RECORD, _ERROR])


@cache
def _decoder(registry: str, schema: str, side: str) -> AvroDecoder:
    """One a worker: it keeps the writers' schemas."""
    return decoder_of(registry, schema, side)
