"""Options of Spark's own Kafka source, and the fields that say the same here (case S38).

Spark has three options for the start, by precedence: startingTimestamp, startingOffsetsByTimestamp, startingOffsets. A
batch query refuses some of their values. Here a single field has that meaning: the name of an option is refused, with
the field to use.
"""

from __future__ import annotations

from collections.abc import Mapping

_STARTUP = "source.startup"
_STOPPING = "source.stopping"
FIELD_OF_OPTION: Mapping[str, str] = {
    "subscribe": "source.topics",
    "subscribePattern": "source.topicPattern",
    "assign": "source.partitions",
    "startingOffsets": f"{_STARTUP}, mode Earliest, Latest or SpecificOffsets",
    "startingTimestamp": f"{_STARTUP}, mode Timestamp with timestamp or timestampMillis",
    "startingOffsetsByTimestamp": f"{_STARTUP}, mode Timestamp with timestamp or timestampMillis",
    "startingOffsetsByTimestampStrategy": f"{_STARTUP}.onMissingOffset",
    "endingOffsets": f"{_STOPPING}, mode Latest or SpecificOffsets",
    "endingTimestamp": f"{_STOPPING}, mode Timestamp with timestamp or timestampMillis",
    "endingOffsetsByTimestamp": f"{_STOPPING}, mode Timestamp with timestamp or timestampMillis",
    "failOnDataLoss": "source.onDataLoss",
    "maxOffsetsPerTrigger": "source.limits.maxOffsetsPerCheckpoint",
    "minPartitions": "parallelism",
    "groupIdPrefix": "source.groupId",
    "includeHeaders": "nothing, a record's headers are always there",
}
_FIELD_OF_LOWER = {name.lower(): field for name, field in FIELD_OF_OPTION.items()}
_CLIENT = "kafka."


def refused_option(name: str) -> str | None:
    """The replacement of an option of Spark's Kafka source among the client's properties, or None.

    Called for each of ``source.properties``. Spark ignores the case of its options.
    """
    if name.startswith(_CLIENT):
        return f"{name} has Spark's prefix for client properties: use the resource's field, or leave {_CLIENT!r} out"
    field = _FIELD_OF_LOWER.get(name.lower())
    return None if field is None else f"{name} is an option of Spark's own Kafka source: use {field}"
