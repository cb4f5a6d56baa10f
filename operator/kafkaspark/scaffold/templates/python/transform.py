"""The transform of my-job."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

TAX = 0.25


def with_tax(source: DataFrame) -> DataFrame:
    """Drops orders without an amount, and adds the tax to the others."""
    orders = source.where(f.col("value.amount").isNotNull())
    tax = f.round(f.col("value.amount") * TAX, 2)
    order = f.struct("value.id", "value.customer", "value.amount", tax.alias("tax"))
    return orders.select("key", f.to_json(order).alias("value"))
