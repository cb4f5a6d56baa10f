"""``source.format: json`` without Spark, and with the results of Spark's parser."""
