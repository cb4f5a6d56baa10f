"""Checks that the records after a checkpoint are still in the brokers' logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkapp.cli.client_file import read_properties
from sparkapp.model.partition import TopicPartition


def client_properties(bootstrap: str, file: Path | None, *, allow_insecure: bool) -> dict[str, str]:
    """librdkafka properties for a request to the brokers.

    :param file: and ``allow_insecure``: see :func:`sparkapp.cli.client_file.read_properties`.
    :raises CommandRefused: the file cannot be read, or a line has no effect.
    """
    properties = {} if file is None else read_properties(file, allow_insecure=allow_insecure)
    # A consumer must name a group. It does not join this group and commits nothing.
    return {**properties, "bootstrap.servers": bootstrap, "group.id": "kafkaspark-checkpoint-verify"}


def log_problems(offsets: Mapping[TopicPartition, int], properties: Mapping[str, str]) -> list[str]:
    """The records that a job would miss if it resumed at these offsets, as sentences; empty for none.

    Called by ``checkpoint verify`` and ``checkpoint restore``.

    :raises KafkaAccessError: the brokers do not answer, or refuse the request.
    """
    from sparkapp.clients.cluster_view import known_topics
    from sparkapp.clients.kafka_cluster_view import KafkaClusterView

    cluster = KafkaClusterView(properties, read_committed=False)
    try:
        topics = known_topics(cluster, {partition.topic for partition in offsets})
        there = sorted(partition for partition in offsets if partition.partition < topics.get(partition.topic, 0))
        earliest, latest = cluster.earliest(there), cluster.latest(there)
    finally:
        cluster.close()
    problems = [f"{partition} no longer exists" for partition in sorted(set(offsets) - set(there))]
    for partition in there:
        offset, first, end = offsets[partition], earliest[partition], latest[partition]
        if offset < first:
            problems.append(
                f"{partition}: {first - offset} record(s) from offset {offset} on are gone, the log begins at {first}"
            )
        elif offset > end:
            problems.append(f"{partition}: the log ends at {end}, before offset {offset}: the topic was recreated")
    return problems
