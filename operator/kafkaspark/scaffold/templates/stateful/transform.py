"""The transform of my-job."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def by_minute(source: DataFrame) -> DataFrame:
    """Orders and their sum for each minute, written when the watermark has passed the minute."""
    orders = source.select("value.*").withWatermark("at", "30 seconds")
    minutes = orders.groupBy(f.window("at", "1 minute")).agg(f.count("*").alias("orders"), f.sum("amount").alias("sum"))
    minute = f.date_format("window.start", "yyyy-MM-dd HH:mm")
    return minutes.select(minute.alias("key"), f.to_json(f.struct("orders", "sum")).alias("value"))
