"""The Spark application of a KafkaSparkJob: Kafka -> transform -> Kafka, every record exactly once."""

__version__ = "0.1.0"
"""The release of package, chart and images; a test compares them."""
