"""How large records and batches of the job's producers may be: what the topics take, as far as that is known. Pure.

librdkafka has a limit of its own, which is below that of brokers and of Java's clients. So it follows the topics, and
the broker judges. The client's queue has room for its largest record, and a batch fits the topic with the least limit.
"""

from __future__ import annotations

from sparkapp.model.job.sections.sink import TopicFrom
from sparkapp.model.job.spec import Job

BROKERS_DEFAULT = 1_048_588
"""``max.message.bytes`` of a topic that nobody has changed."""
UNKNOWN_BYTES = 32 << 20
"""Largest record where a topic's limit is not known, and where batches are compressed: the limit is of the result."""
MOST_BYTES = 64 << 20
"""Largest record unless ``sink.properties`` say more: the client's queue may be as large."""
BATCH_BYTES = 1 << 20
_OVERHEAD = 1024
"""More than a record batch adds to its record. So a record of the topic's limit is the broker's to refuse."""
_COMPRESSION = ("compression.type", "compression.codec")


def producer_limits(job: Job) -> dict[str, str]:
    """``message.max.bytes`` and ``batch.size`` of the job's producers, where ``sink.properties`` have none."""
    topics = (job.spec.sink.topic, *job.spec.record_errors.topics)
    known = [job.record_limits[topic] for topic in topics if topic in job.record_limits]
    largest = max([BROKERS_DEFAULT, *known]) + _OVERHEAD
    properties = job.spec.sink.properties
    is_compressed = any(properties.get(name, "none") != "none" for name in _COMPRESSION)
    if len(known) < len(topics) or job.spec.sink.topic_from is TopicFrom.COLUMN or is_compressed:
        largest = max(largest, UNKNOWN_BYTES)
    limits = {"message.max.bytes": str(min(largest, MOST_BYTES))}
    narrowest = min(known, default=BATCH_BYTES)
    if narrowest < BATCH_BYTES:
        limits["batch.size"] = str(max(1, narrowest))
    return limits


def letter_limit(job: Job) -> int:
    """Bytes that a dead letter may have with all that belongs to its batch."""
    limit = job.record_limits.get(job.spec.record_errors.dead_letter_topic, BROKERS_DEFAULT)
    own = job.spec.sink.properties.get("message.max.bytes", "")
    return min([limit, MOST_BYTES, *([int(own)] if own.isdecimal() else [])])
