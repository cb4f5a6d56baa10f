"""The topics of a cluster as the commands of ``kafkaspark topic`` see them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sparkapp.model.errors import CommandRefused

_SECONDS = 15.0
_LAST = 10
"""Records of each partition that ``tail`` shows where it does not begin at the first."""


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record for the eye. Bytes are hostile: no control character of a record reaches the terminal."""

    message: Message

    def as_line(self) -> str:
        """``partition:offset key value``, with the headers behind it."""
        message = self.message
        headers = "".join(f" {name}={_shown(value)}" for name, value in message.headers() or ())
        key = "" if message.key() is None else f"{_shown(message.key())} "
        return f"{message.partition()}:{message.offset()} {key}{_shown(message.value())}{headers}"

    def as_json(self) -> str:
        """:meth:`fields` on one line."""
        return json.dumps(self.fields())

    def fields(self) -> dict[str, Any]:
        """The record as a JSON object. Bytes that are not UTF-8 have their escapes."""
        message = self.message
        return {
            "topic": message.topic(), "partition": message.partition(), "offset": message.offset(),
            "timestamp": message.timestamp()[1], "key": _text(message.key()), "value": _text(message.value()),
            "headers": [[name, _text(value)] for name, value in message.headers() or ()],
        }  # fmt: skip


class Topics:
    """What the commands ask the brokers.

    :param config: librdkafka properties of the cluster.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = {"client.id": "kafkaspark-topic", "log_level": "0", **config}
        self._admin = AdminClient(dict(self._config))

    def listing(self) -> list[dict[str, object]]:
        """A row for each topic that is not internal.

        :raises CommandRefused: no broker answers, as in every method.
        """
        topics = self._metadata().topics
        return [
            {"topic": name, "partitions": len(topic.partitions)}
            for name, topic in sorted(topics.items())
            if not name.startswith("__")
        ]

    def create(self, topic: str, *, partitions: int, replicas: int | None, settings: Mapping[str, str]) -> None:
        """Creates a topic, and returns when the controller has it.

        :raises CommandRefused: the brokers refuse it, for instance since it exists.
        """
        asked = NewTopic(topic, partitions, -1 if replicas is None else replicas, config=dict(settings))
        try:
            self._admin.create_topics([asked], operation_timeout=_SECONDS, request_timeout=_SECONDS)[topic].result()
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                msg, remedy = f"topic {topic} exists", f"look at it: kafkaspark topic describe {topic}"
                raise CommandRefused(msg, remedy=remedy) from error
            raise self._refusal(f"topic {topic} was not created", error) from error

    def partitions(self, topic: str) -> list[dict[str, object]]:
        """A row for each partition.

        :raises CommandRefused: the topic does not exist.
        """
        found = self._known(topic)
        with self._reader() as consumer:
            rows: list[dict[str, object]] = []
            for number, partition in sorted(found.partitions.items()):
                first, end = self._offsets(consumer, topic, number)
                replicas, in_sync = (",".join(map(str, ids)) for ids in (partition.replicas, partition.isrs))
                leader = partition.leader if partition.leader >= 0 else None
                rows.append({
                    "partition": number, "firstOffset": first, "endOffset": end, "leader": leader,
                    "replicas": replicas, "inSync": in_sync,
                })  # fmt: skip
            return rows

    def produce(self, topic: str, lines: IO[bytes], *, separator: bytes) -> int:
        """Writes a record for each line; returns their number when the brokers have them all.

        :param separator: ends the key of a line; empty for records without key.
        :raises CommandRefused: the topic does not exist, or a record was refused.
        """
        self._known(topic)
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer({"enable.idempotence": "true", **self._config})
        written = 0
        for line in lines:
            key, found, value = line.rstrip(b"\r\n").partition(separator) if separator else (b"", b"", b"")
            record = (key, value) if found else (None, line.rstrip(b"\r\n"))
            while True:
                try:
                    producer.produce(topic, key=record[0], value=record[1], on_delivery=delivered)
                    break
                except BufferError:  # the queue is full
                    producer.poll(0.1)
            written += 1
            producer.poll(0)
        left = producer.flush(_SECONDS)
        if failures or left:
            cause = failures[0].str() if failures else "the brokers did not answer"
            msg = f"{len(failures) + left} of {written} records were not written to {topic}: {cause}"
            raise CommandRefused(msg, remedy=f"look at the topic: kafkaspark topic describe {topic}")
        return written

    def records(self, topic: str, *, first: bool, follow: bool, uncommitted: bool) -> Iterator[ShownRecord]:
        """Records in the order in which they arrive; ordered within a partition.

        :param first: from the first offset, else the last ten of each partition.
        :param follow: wait at the ends, else end there.
        :raises CommandRefused: the topic does not exist, or a partition cannot be read.
        """
        found = self._known(topic)
        with self._reader(uncommitted=uncommitted) as consumer:
            starts, waiting = [], set()
            for number in sorted(found.partitions):
                low, end = self._offsets(consumer, topic, number)
                starts.append(TopicPartition(topic, number, low if first else max(low, end - _LAST)))
                waiting.add(number)
            consumer.assign(starts)
            while waiting or follow:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    yield ShownRecord(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                else:
                    raise self._refusal(f"topic {topic} cannot be read", KafkaException(error))

    def last(self, topic: str, count: int) -> list[ShownRecord]:
        """The newest committed records by their timestamps, the newest first; of each partition at most ten."""
        found = list(self.records(topic, first=False, follow=False, uncommitted=False))
        return sorted(found, key=lambda record: -int(record.message.timestamp()[1]))[:count]

    def _known(self, topic: str) -> Any:
        """The topic's metadata. A question by name would create it where brokers create topics by themselves."""
        found = self._metadata().topics.get(topic)
        if found is None:
            msg = f"topic {topic} does not exist, or the user may not see it"
            raise CommandRefused(msg, remedy=f"create it: kafkaspark topic create {topic} --partitions 4")
        return found

    def _metadata(self) -> Any:
        try:
            return self._admin.list_topics(timeout=_SECONDS)
        except KafkaException as error:
            raise self._refusal("the brokers do not answer", error) from error

    def _offsets(self, consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
        except KafkaException as error:
            raise self._refusal(f"partition {partition} of {topic} does not answer", error) from error
        return int(low), int(high)

    def _reader(self, *, uncommitted: bool = False) -> Consumer:
        return Consumer({
            **self._config,
            "group.id": "kafkaspark-topic",  # librdkafka wants a name; nothing joins it or commits to it
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "isolation.level": "read_uncommitted" if uncommitted else "read_committed",
        })  # fmt: skip

    def _refusal(self, what: str, error: KafkaException) -> CommandRefused:
        brokers = self._config["bootstrap.servers"]
        return CommandRefused(
            f"{what}: {error.args[0].str()}",
            remedy=f"check the brokers in --bootstrap (now {brokers}), and the user's rights in --config",
        )


def _shown(value: bytes | str | None) -> str:
    text = _text(value)
    return "null" if text is None else "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _text(value: bytes | str | None) -> str | None:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
