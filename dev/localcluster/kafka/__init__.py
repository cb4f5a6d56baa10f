"""The Kafka broker: its distribution, its properties, and the brokers of the cluster and of tests."""
