"""A real Kubernetes and a real Kafka on one machine, for development and tests.

Run as ``python3 -m localcluster`` with ``tools`` on ``PYTHONPATH``; the targets of ``tools/cluster.mk`` do that.
It is the standard library alone, because it runs before anything has been installed.
Tests import :class:`localcluster.kafka.Broker` to have throw-away brokers of their own.
"""
