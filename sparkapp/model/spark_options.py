"""Options of Spark's own Kafka source, and the fields that say the same here (case S38).

Spark gives three options for one thing and an order among them (startingTimestamp before startingOffsetsByTimestamp
before startingOffsets), and a batch query refuses some of their values. Here one field has one meaning: an option's
name is refused, with the field to use.
"""

from __future__ import annotations

from collections.abc import Mapping

_STARTUP = "source.startup"
_STOPPING = "source.stopping"
FIELD_OF_OPTION: Mapping[str, str] = {
    "subscribe": "source.topics",
    "subscribePattern": "source.topicPattern",
    "assign": "source.partitions",
    "startingOffsets": f"{_STARTUP}, mode EARLIEST, LATEST or SPECIFIC_OFFSETS",
    "startingTimestamp": f"{_STARTUP}, mode TIMESTAMP with timestampMillis",
    "startingOffsetsByTimestamp": f"{_STARTUP}, mode TIMESTAMP with timestampMillis",
    "startingOffsetsByTimestampStrategy": f"{_STARTUP}.onMissingOffset",
    "endingOffsets": f"{_STOPPING}, mode LATEST or SPECIFIC_OFFSETS",
    "endingTimestamp": f"{_STOPPING}, mode TIMESTAMP with timestampMillis",
    "endingOffsetsByTimestamp": f"{_STOPPING}, mode TIMESTAMP with timestampMillis",
    "failOnDataLoss": "source.dataLossPolicy",
    "maxOffsetsPerTrigger": "source.maxOffsetsPerCheckpoint",
    "minPartitions": "parallelism",
    "groupIdPrefix": "source.groupId",
    "includeHeaders": "nothing, a record's headers are always there",
}
_FIELD_OF_LOWER = {name.lower(): field for name, field in FIELD_OF_OPTION.items()}
_CLIENT = "kafka."


def refused_option(name: str) -> str | None:
    """What to type instead of an option of Spark's Kafka source among the client's properties, or None.

    Called for each of ``source.properties``. Spark does not mind the case of its options.
    """
    if name.startswith(_CLIENT):
        return (
            f"{name} is how Spark writes a property of the client: leave {_CLIENT!r} out, if the resource has no field"
        )
    field = _FIELD_OF_LOWER.get(name.lower())
    return None if field is None else f"{name} is an option of Spark's own Kafka source: use {field}"
