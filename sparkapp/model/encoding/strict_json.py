"""JSON from outside, read strictly: limited in size, every field typed and read once, no unknown field.

For texts that decide what a job reads next and that the job's own pods may write: checkpoint documents and retained
checkpoints.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any

from sparkapp.model.errors import CheckpointCorrupt
from sparkapp.model.partition import TopicPartition

_ID = "id"
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{10}")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}")


def parse(text: str, what: str, *, limit: int) -> StrictReader:
    """The fields of a JSON object.

    :param what: how the text is called in messages.
    :param limit: in bytes.
    :raises CheckpointCorrupt: over the limit, truncated, not JSON, a name twice in an object, NaN or Infinity. Or a
        text has half a surrogate pair, which JSON can have and UTF-8 cannot: the next document could not be written.
    """
    if len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit:
        msg = f"{what} is larger than {limit} bytes"
        raise CheckpointCorrupt(msg)
    try:
        body = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        msg = f"{what} is not JSON: {error}"
        raise CheckpointCorrupt(msg) from error
    return StrictReader(body, "document")


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


def without_ids(body: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The output of :func:`by_topic` without ids, and the ids; documents of earlier releases have none."""
    ids = {topic: entry[_ID] for topic, entry in body.items() if isinstance(entry, dict) and _ID in entry}
    for topic, topic_id in ids.items():
        if not isinstance(topic_id, str) or not _TOPIC_ID.fullmatch(topic_id):
            msg = f"{where} of topic {topic!r} has an id that is none"
            raise CheckpointCorrupt(msg)
    rest = {
        topic: {number: value for number, value in entry.items() if number != _ID} if topic in ids else entry
        for topic, entry in body.items()
    }
    return rest, ids


def offsets_of(body: Mapping[str, Any], where: str) -> dict[TopicPartition, int]:
    """:func:`by_topic` read back."""
    offsets = {}
    for partition, offset in partitions_of(body, where):
        if not is_offset(offset):
            msg = f"{where} of {partition} must be an offset"
            raise CheckpointCorrupt(msg)
        offsets[partition] = offset
    return offsets


def is_offset(value: object) -> bool:
    """True for a number that Kafka's clients take for an offset."""
    return type(value) is int and 0 <= value < 1 << 63


def partitions_of(body: Mapping[str, Any], where: str) -> Iterator[tuple[TopicPartition, Any]]:
    """The entries of an object that names partitions by topic and number."""
    for topic, partitions in body.items():
        if not isinstance(partitions, dict):
            msg = f"{where} of topic {topic!r} must be an object"
            raise CheckpointCorrupt(msg)
        for partition, value in partitions.items():
            if not _NUMBER.fullmatch(partition) or int(partition) >= 1 << 31:
                msg = f"{where} of topic {topic!r} must name partitions by number, not {partition!r}"
                raise CheckpointCorrupt(msg)
            yield TopicPartition(topic, int(partition)), value


class StrictReader:
    """Takes typed fields out of a JSON object, each once, and complains about what is left."""

    def __init__(self, body: object, where: str) -> None:
        if not isinstance(body, dict):
            msg = f"{where} must be an object"
            raise CheckpointCorrupt(msg)
        self._body: dict[str, Any] = dict(body)
        self.where = where

    def _take(self, name: str) -> object:
        try:
            return self._body.pop(name)
        except KeyError:
            msg = f"{self.where}.{name} is missing"
            raise CheckpointCorrupt(msg) from None

    def integer(self, name: str, *, low: int = 0, below: int = 1 << 63, default: int | None = None) -> int:
        """``default`` stands for a field that documents of earlier releases do not have."""
        value = default if default is not None and name not in self._body else self._take(name)
        if type(value) is not int or not low <= value < below:
            msg = f"{self.where}.{name} must be a whole number from {low} to {below - 1}, not {reprlib.repr(value)}"
            raise CheckpointCorrupt(msg)
        return value

    def string(self, name: str, *, default: str | None = None) -> str:
        """``default`` as for :meth:`integer`."""
        value = default if default is not None and name not in self._body else self._take(name)
        return string_of(value, f"{self.where}.{name}")

    def boolean(self, name: str, *, default: bool | None = None) -> bool:
        """``default`` as for :meth:`integer`."""
        value = default if default is not None and name not in self._body else self._take(name)
        if not isinstance(value, bool):
            msg = f"{self.where}.{name} must be true or false"
            raise CheckpointCorrupt(msg)
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._take(name)
        if not isinstance(value, dict):
            msg = f"{self.where}.{name} must be an object"
            raise CheckpointCorrupt(msg)
        return value

    def mapping_or_none(self, name: str) -> dict[str, Any] | None:
        return self.mapping(name) if name in self._body else None

    def items(self, name: str, *, default: list[Any] | None = None) -> list[Any]:
        value = self._take(name) if default is None or name in self._body else default
        if not isinstance(value, list):
            msg = f"{self.where}.{name} must be a list"
            raise CheckpointCorrupt(msg)
        return value

    def finish(self) -> None:
        if self._body:
            msg = f"{self.where} has unknown fields: {', '.join(sorted(self._body))}"
            raise CheckpointCorrupt(msg)


def string_of(value: object, where: str) -> str:
    if not isinstance(value, str):
        msg = f"{where} must be a string"
        raise CheckpointCorrupt(msg)
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        msg = "an object names a field twice"
        raise ValueError(msg)
    return body


def _no_constant(name: str) -> float:
    msg = f"{name} is not a number here"
    raise ValueError(msg)
