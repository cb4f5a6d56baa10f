"""The data plane between Kafka and Arrow: a C extension over librdkafka, and a plain fallback with the same results."""
