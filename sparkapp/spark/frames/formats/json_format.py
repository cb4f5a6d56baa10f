"""``source.format: json``: Spark's own parser, which marks what it cannot read instead of raising.

It parses what the readers have not decoded (:mod:`sparkapp.spark.frames.formats.json_columns`).
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StringType, StructField, StructType

from sparkapp.model.errors import ConfigurationError
from sparkapp.source.formats.registered_records import HEAD, framed_error
from sparkapp.spark.frames.formats.json_columns import json_column
from sparkapp.spark.frames.record_policy import error_column

_CORRUPT = "_kafkaspark_corrupt"
_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
_SHOWN = 200
_WITHOUT_COLUMNS = re.compile(r"\s*\w+\s*([<(]|$)")
"""A schema of a single type."""


def parse_json(records: DataFrame, side: str, schema: str) -> DataFrame:
    """Replaces the bytes of a side by columns of its schema, and adds the side's error column.

    Null stays null. Text that is not JSON, does not fit the schema, or is empty, is an error.

    :param side: ``key`` or ``value``.
    :param schema: Spark's DDL, for instance ``id BIGINT, name STRING``.
    :raises ConfigurationError: Spark does not understand the schema.
    """
    kind = _type_of(records, side, schema)
    decoded = f.col(json_column(side)) if json_column(side) in records.columns else None
    text = f.col(side) if decoded is None else f.when(decoded.isNull(), f.col(side))
    parsed = f.col(f"_parsed_{side}")
    wanted: DataType = kind
    bad = parsed.isNull()
    value = parsed
    if isinstance(kind, StructType):
        # Spark keeps the fields of an object that it could read. Only this column shows that it could not read others.
        wanted = StructType([*kind.fields, StructField(_CORRUPT, StringType())])
        bad = bad | parsed[_CORRUPT].isNotNull()
        value = parsed.dropFields(_CORRUPT)
    shown = schema if len(schema) <= _SHOWN else f"{schema[:_SHOWN]}…"
    not_json = f.lit(f"the {side} is not JSON that fits the schema {shown!r}")
    error = f.when(text.isNotNull() & bad, f.coalesce(_framed(side), not_json))
    if decoded is not None:
        value = f.when(decoded.isNotNull(), decoded).otherwise(value)
    return (
        records.withColumn(f"_parsed_{side}", f.from_json(text.cast("string"), wanted, _OPTIONS))
        .withColumns({error_column(side): error, side: value})
        .drop(f"_parsed_{side}")
    )


def _framed(side: str) -> Column:
    """The error where a value has the frame of :mod:`sparkapp.source.formats.registered_records`, else null."""
    head = f"hex(substring(`{side}`, 1, {HEAD}))"
    before, behind = framed_error(side)
    schema_id = f"conv(substring({head}, 3, 8), 16, 10)"
    # A text: each function of PySpark takes a dozen calls of the JVM.
    return f.expr(f"CASE WHEN {head} RLIKE '^00[0-7].{{7}}$' THEN concat('{before}', {schema_id}, '{behind}') END")


def _type_of(records: DataFrame, side: str, schema: str) -> DataType:
    try:
        return records.select(f.from_json(f.col(side).cast("string"), schema).alias(side)).schema[side].dataType
    except (ParseException, AnalysisException) as error:
        cause = error if _WITHOUT_COLUMNS.match(schema) else _error_in_columns(records, schema) or error
        msg = f"spec.source.format.{side}Schema {schema!r} is not a schema: {str(cause).strip().splitlines()[0]}"
        raise ConfigurationError(msg) from error


def _error_in_columns(records: DataFrame, schema: str) -> ParseException | None:
    """Why the text is no list of columns.

    ``from_json`` then reads the text as a single type. Its error is about the first column's type, whatever is wrong.
    """
    jvm: Any = records.sparkSession._jvm
    try:
        jvm.org.apache.spark.sql.types.StructType.fromDDL(schema)
    except ParseException as error:
        return error
    return None
