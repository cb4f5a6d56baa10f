"""JSON from outside, read strictly: limited in size, each name once, and partitions with their offsets.

For texts that decide what a job reads next and that the job's own pods may write: checkpoint documents and retained
checkpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from sparkapp.model.encoding.json_parts import Unreadable, of_type
from sparkapp.model.partition import TopicPartition

_ID = "id"
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{10}")
_LONGEST_TOPIC = 249
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")


def parse(text: str, what: str, *, limit: int) -> dict[str, Any]:
    """A JSON object.

    :param what: how the text is called in messages.
    :param limit: in bytes.
    :raises Unreadable: over the limit, truncated, not JSON, a name twice in an object, NaN or Infinity. Or a
        text has half a surrogate pair, which JSON can have and UTF-8 cannot: the next document could not be written.
    """
    if len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit:
        msg = f"{what} is larger than {limit} bytes"
        raise Unreadable(msg)
    try:
        body = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        msg = f"{what} is not JSON: {error}"
        raise Unreadable(msg) from error
    found: dict[str, Any] = of_type(dict, body, what)
    return found


def by_topic(
    values: Mapping[TopicPartition, Any], *, ids: Mapping[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Values by partition as a document has them: partition numbers below topics.

    :param ids: of topics, written next to the partitions. A separate map would repeat the names of topics, and a
        document holds ten thousand topics of a single partition.
    """
    result: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(values.items()):
        if topic not in result:
            result[topic] = {_ID: ids[topic]} if ids and topic in ids else {}
        result[topic][str(partition)] = value
    return result


def without_ids(body: object, where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The output of :func:`by_topic` without ids, and the ids; documents of earlier releases have none."""
    topics = of_type(dict, body, where)
    ids = {topic: entry[_ID] for topic, entry in topics.items() if isinstance(entry, dict) and _ID in entry}
    for topic, topic_id in ids.items():
        if not isinstance(topic_id, str) or not _TOPIC_ID.fullmatch(topic_id):
            msg = f"{where} of topic {topic!r} has an id that is none"
            raise Unreadable(msg)
    rest = {
        topic: {number: value for number, value in entry.items() if number != _ID} if topic in ids else entry
        for topic, entry in topics.items()
    }
    return rest, ids


def offsets_of(body: object, where: str) -> dict[TopicPartition, int]:
    """:func:`by_topic` read back."""
    offsets = {}
    for partition, offset in partitions_of(body, where):
        if not is_offset(offset):
            msg = f"{where} of {partition} must be an offset"
            raise Unreadable(msg)
        offsets[partition] = offset
    return offsets


def topics_of(body: object, where: str) -> frozenset[str]:
    """Names of topics."""
    topics: list[Any] = of_type(list, body, where)
    if not all(isinstance(topic, str) and 0 < len(topic) <= _LONGEST_TOPIC for topic in topics):
        msg = f"{where} must be names of topics"
        raise Unreadable(msg)
    if len(set(topics)) < len(topics):
        msg = f"{where} names a topic twice"
        raise Unreadable(msg)
    return frozenset(topics)


def zoned_time(value: object, where: str) -> str:
    """A time in RFC 3339."""
    text: str = of_type(str, value, where)
    try:
        if datetime.fromisoformat(text).tzinfo is not None:
            return text
    except ValueError:
        pass
    msg = f"{where} {text[:40]!r} is not a time"
    raise Unreadable(msg)


def is_offset(value: object) -> bool:
    """True for a number that Kafka's clients take for an offset."""
    return type(value) is int and 0 <= value < 1 << 63


def partitions_of(body: object, where: str) -> Iterator[tuple[TopicPartition, Any]]:
    """The entries of an object that names partitions by topic and number."""
    for topic, partitions in of_type(dict, body, where).items():
        for partition, value in of_type(dict, partitions, f"{where} of topic {topic!r}").items():
            if not _NUMBER.fullmatch(partition) or int(partition) >= 1 << 31:
                msg = f"{where} of topic {topic!r} must name partitions by number, not {partition!r}"
                raise Unreadable(msg)
            yield TopicPartition(topic, int(partition)), value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        msg = "an object names a field twice"
        raise ValueError(msg)
    return body


def _no_constant(name: str) -> float:
    msg = f"{name} is not a number here"
    raise ValueError(msg)
