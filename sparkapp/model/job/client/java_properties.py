"""Properties of Kafka's Java clients, and of Flink's connector, that do nothing in librdkafka, with their counterparts.

Sources: ``ConsumerConfig``, ``ProducerConfig``, ``SslConfigs`` and ``CommonClientConfigs`` of Kafka 4.3,
``KafkaSourceOptions`` of Flink's connector, and CONFIGURATION.md of librdkafka. TLS is absent, because it has a
field of its own. So are names that both clients know, except ``max.poll.records``, which librdkafka has for share
consumers alone.
"""

from __future__ import annotations

from collections.abc import Mapping

LIBRDKAFKA_NAME: Mapping[str, str] = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
"""The same setting under another name. Units differ for buffer.memory (bytes there, KiB here)."""

_RESOURCE_FIELD: Mapping[str, str] = {
    "commit.offsets.on.checkpoint": "set source.offsetCommit",
    "key.deserializer": "set source.format.key",
    "key.serializer": "cast the column key in the transform",
    "max.poll.records": "set source.limits.maxOffsetsPerCheckpoint",
    "partition.discovery.interval.ms": "set source.discoveryIntervalSeconds",
    "partitioner.class": "set sink.partitioner",
    "transaction.two.phase.commit.enable": "set sink.deliveryGuarantee",
    "value.deserializer": "set source.format.value",
    "value.serializer": "cast the column value in the transform",
}

_WITHOUT_COUNTERPART = frozenset(
    {
        "auto.include.jmx.reporter", "client.id.prefix", "config.providers", "default.api.timeout.ms",
        "exclude.internal.topics", "interceptor.classes", "max.block.ms",
        "metadata.max.idle.ms", "metric.reporters", "metrics.num.samples",
        "metrics.recording.level", "metrics.sample.window.ms", "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms", "partitioner.ignore.keys", "register.consumer.metrics",
        "register.producer.metrics", "security.providers",
        "socket.connection.setup.timeout.max.ms",
    }
)  # fmt: skip


def instead_of_java_property(name: str) -> str | None:
    """The remedy for a name that only Java's clients know; None for any other name. Pure."""
    if name in LIBRDKAFKA_NAME:
        return f"write {LIBRDKAFKA_NAME[name]}"
    if name in _RESOURCE_FIELD:
        return _RESOURCE_FIELD[name]
    return "remove it" if name in _WITHOUT_COUNTERPART else None
