"""A KafkaSparkJob on a cluster, as the demo, the end-to-end tests and the benches handle and judge it."""
