"""Where a record of the transform's result goes: ``sink.partitioner`` and ``sink.topicFrom``."""

from __future__ import annotations

from enum import StrEnum


class Partitioner(StrEnum):
    """How a sink partition is chosen."""

    KEY = "Key"
    """By the key's murmur2 hash, as Java's clients do, so that producers agree; any one where there is no key."""
    SOURCE_PARTITION = "SourcePartition"
    """The record's source partition modulo the sink topic's number of partitions: what was together stays together."""
    ROUND_ROBIN = "RoundRobin"
    """One after the other, whatever the key is."""


class TopicFrom(StrEnum):
    """Where the name of a record's topic is."""

    SPEC = "Spec"
    """``sink.topic``. A column ``topic``, as records that pass through have, is the source's and is not looked at."""
    COLUMN = "Column"
    """The result's column ``topic``, as in Spark's own Kafka sink."""
