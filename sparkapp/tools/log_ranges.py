"""Whether the records that follow a checkpoint are still in the brokers' logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sparkapp.model.partition import TopicPartition
from sparkapp.tools.client_file import read_properties


def client_properties(bootstrap: str, file: Path | None) -> dict[str, str]:
    """librdkafka properties for a question to the brokers.

    :param file: see :func:`sparkapp.tools.client_file.read_properties`.
    :raises CommandRefused: the file cannot be read, or a line would be without effect.
    """
    properties = {} if file is None else read_properties(file)
    # A consumer has to name a group; this one is never joined, and nothing is committed to it.
    return {**properties, "bootstrap.servers": bootstrap, "group.id": "kafkaspark-checkpoint-verify"}


def log_problems(offsets: Mapping[TopicPartition, int], properties: Mapping[str, str]) -> list[str]:
    """What a job that goes on at these offsets would miss, in plain words; empty where nothing is.

    :raises KafkaAccessError: the brokers do not answer, or do not allow the question.
    """
    from sparkapp.source.cluster import KafkaClusterView, known_topics

    cluster = KafkaClusterView(properties, read_committed=False)
    try:
        topics = known_topics(cluster, {one.topic for one in offsets})
        there = sorted(one for one in offsets if one.partition < topics.get(one.topic, 0))
        earliest, latest = cluster.earliest(there), cluster.latest(there)
    finally:
        cluster.close()
    problems = [f"{one} no longer exists" for one in sorted(set(offsets) - set(there))]
    for one in there:
        offset = offsets[one]
        if offset < earliest[one]:
            problems.append(
                f"{one}: {earliest[one] - offset} record(s) from offset {offset} on are gone, the log begins at"
                f" {earliest[one]}"
            )
        elif offset > latest[one]:
            problems.append(f"{one}: the log ends at {latest[one]}, before offset {offset}: the topic was made anew")
    return problems
