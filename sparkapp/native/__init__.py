"""The batch path between Kafka and Arrow: a C extension over librdkafka, and a plain fallback with equal results."""
