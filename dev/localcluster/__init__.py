"""A real Kubernetes and a real Kafka on one machine, for development and tests.

Run it as ``python3 -m localcluster`` with ``dev`` on ``PYTHONPATH``, as the targets of ``dev/cluster.mk`` do.
It imports the standard library alone, because it runs before anything is installed.
Tests import :class:`localcluster.kafka.broker.Broker` for brokers of their own.
"""
