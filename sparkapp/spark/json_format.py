"""``source.format: json``: Spark's own parser, with what it could not read marked instead of raised."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StringType, StructField, StructType

from sparkapp.model.errors import ConfigurationError
from sparkapp.spark.record_policy import error_column

_CORRUPT = "_kafkaspark_corrupt"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
_SHOWN = 200


def parse_json(records: DataFrame, side: str, schema: str) -> DataFrame:
    """Replaces the bytes of a side by what its schema makes of them, and adds the side's error column.

    Null stays null. Text that is not JSON, does not fit the schema, or is empty, is an error.

    :raises ConfigurationError: the schema is not one that Spark understands.
    """
    kind = _type_of(records, side, schema)
    parsed = f.col(f"_parsed_{side}")
    wanted: DataType = kind
    bad = parsed.isNull()
    value = parsed
    if isinstance(kind, StructType):
        # Of an object Spark keeps the fields that it could read: only this column tells that some could not.
        wanted = StructType([*kind.fields, StructField(_CORRUPT, StringType())])
        bad = bad | parsed[_CORRUPT].isNotNull()
        value = parsed.dropFields(_CORRUPT)
    shown = schema if len(schema) <= _SHOWN else f"{schema[:_SHOWN]}…"
    error = f.when(f.col(side).isNotNull() & bad, f.lit(f"the {side} is not JSON that fits the schema {shown!r}"))
    return (
        records.withColumn(f"_parsed_{side}", f.from_json(f.col(side).cast("string"), wanted, _OPTIONS))
        .withColumn(error_column(side), error)
        .withColumn(side, value)
        .drop(f"_parsed_{side}")
    )


def _type_of(records: DataFrame, side: str, schema: str) -> DataType:
    try:
        return records.select(f.from_json(f.col(side).cast("string"), schema).alias(side)).schema[side].dataType
    except (ParseException, AnalysisException) as error:
        msg = f"spec.source.format.{side}Schema {schema!r} is not a schema: {error}"
        raise ConfigurationError(msg) from error
