"""Classifies flights by their delay. The job in job.yaml calls ``classify``."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


def classify(source: DataFrame) -> DataFrame:
    """A record for each flight: its delay class, and the minutes made up in the air."""
    flight = source.select("key", "value.*")
    return flight.select(
        "key",
        f.struct(
            f.col("id"),
            f.concat("carrier", f.col("flight").cast("string")).alias("flight"),
            f.concat_ws("-", "origin", "dest").alias("route"),
            _delay_class(f.col("dep_delay"), f.col("arr_delay")).alias("class"),
            (f.col("dep_delay") - f.col("arr_delay")).alias("minutesMadeUp"),
        ).alias("value"),
    )


def _delay_class(dep_delay: Column, arr_delay: Column) -> Column:
    return (
        f.when(dep_delay.isNull(), "cancelled")
        .when(arr_delay.isNull(), "diverted")
        .when(arr_delay <= 0, "early")
        .when(arr_delay <= 15, "on time")
        .when(arr_delay <= 60, "late")
        .otherwise("very late")
    )
