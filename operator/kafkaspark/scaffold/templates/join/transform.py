"""The transform of my-job."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def paid(source: DataFrame) -> DataFrame:
    """The orders that were paid within an hour, with the time of their payment."""
    events = source.select("topic", "value.*").withWatermark("at", "10 minutes")
    orders = events.where("topic = 'orders'").select("id", "at", "amount")
    payments = events.where("topic = 'payments'").selectExpr("id AS order_id", "at AS paid_at")
    within = f.expr("id = order_id AND paid_at BETWEEN at AND at + INTERVAL 1 HOUR")
    joined = orders.join(payments, within)
    return joined.select(
        f.col("id").cast("string").alias("key"), f.to_json(f.struct("id", "amount", "at", "paid_at")).alias("value")
    )
