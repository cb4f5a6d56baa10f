"""The Spark application of a KafkaSparkJob: Kafka -> transform -> Kafka, every record exactly once."""

__version__ = "0.2.0"
"""The release of package, chart and images; a test compares them."""
