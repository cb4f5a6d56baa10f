"""The view of the topics' clients while a job is down: a reader, the last stable offsets, and a steady load."""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections.abc import Mapping

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from clusterjob.background import Background
from clusterjob.watch import TimedOut
from demo.loader import PacedLoader
from tests.support.kubernetes.cluster_job import numbered

Offsets = Mapping[int, int]

ENDLESS = 1_000_000_000
_BETWEEN_SAMPLES = 0.02


class SteadyRecords(PacedLoader):
    """Writes ``rate`` records a second, which the oracle recognises, until :meth:`end`; a context manager."""

    def __init__(self, bootstrap: str, topic: str, rate: float) -> None:
        self._over = threading.Event()
        numbers = itertools.takewhile(lambda _: not self._over.is_set(), itertools.count())
        super().__init__(bootstrap, topic, numbered(numbers), total=ENDLESS, rate=rate)

    def end(self) -> int:
        """Stops; returns how many records the broker has stored.

        :raises SetupError: the broker did not store all of them.
        """
        self._over.set()
        return self.finish(60)


def partitions_of(client: Consumer | AdminClient, topic: str) -> list[int]:
    """The partitions of a topic; waits for the leaders of a new topic.

    :raises TimedOut: they do not get leaders.
    """
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = client.list_topics(topic, timeout=30).topics[topic]
        if (
            found.error is None
            and found.partitions
            and all(partition.leader >= 0 for partition in found.partitions.values())
        ):
            return sorted(found.partitions)
        time.sleep(0.05)
    raise TimedOut(f"topic {topic} has no leaders")


class Downstream(Background):
    """A read_committed reader that notes when it got which offsets; a context manager.

    Offsets show which attempt wrote a record. Timestamps do not: a job may copy the source's.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__("downstream")
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"bench-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in partitions_of(self._consumer, topic)])
        self._arrivals: list[tuple[float, Offsets, int]] = []
        self._failure = ""
        self._changed = threading.Condition()

    def _close(self) -> None:
        self._consumer.close()

    def arrivals(self, since: float) -> list[float]:
        """Moments at which records came; records of one batch share a moment."""
        with self._changed:
            return [at for at, _, _ in self._arrivals if at >= since]

    def received(self) -> list[int]:
        """When each record came, in milliseconds since 1970."""
        with self._changed:
            return [int(at * 1000) for at, _, count in self._arrivals for _ in range(count)]

    def await_beyond(self, ends: Offsets, *, seconds: float) -> float:
        """Blocks until a record is there at or beyond the ends of the partitions; returns when it came.

        :param ends: an offset for each partition; a missing partition counts as 0.
        :raises TimedOut: none came.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                if self._failure:
                    raise TimedOut(f"the reader failed: {self._failure}")
                found = next((at for at, last, _ in self._arrivals if _is_beyond(last, ends)), None)
                if found is not None:
                    return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimedOut(f"no new record for readers within {seconds:.0f} s")
                self._changed.wait(left)

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._poll()
        except Exception as error:  # raised by await_beyond
            with self._changed:
                self._failure = str(error)
                self._changed.notify_all()

    def _poll(self) -> None:
        messages = self._consumer.consume(10_000, timeout=0.05)
        at = time.time()
        last: dict[int, int] = {}
        count = 0
        for message in messages:
            error = message.error()
            if error is None:
                count += 1
                last[message.partition()] = message.offset()
            elif error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                raise TimedOut(error.str())
        if last:
            with self._changed:
                self._arrivals.append((at, last, count))
                self._changed.notify_all()


class StableOffsets(Background):
    """Samples of a topic's last stable offsets and high watermarks; a context manager."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__("stable offsets", end_seconds=40)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "client.id": "kafkaspark-bench"})
        self._asked = {
            TopicPartition(topic, number): OffsetSpec.latest() for number in partitions_of(self._admin, topic)
        }
        self._samples: list[tuple[float, Offsets, Offsets]] = []
        self._changed = threading.Condition()
        self._failure = ""

    def samples(self, since: float) -> list[tuple[float, Offsets, Offsets]]:
        """Moment, last stable offsets and high watermarks, oldest first."""
        with self._changed:
            return [sample for sample in self._samples if sample[0] >= since]

    def ends_before(self, moment: float) -> Offsets:
        """The high watermarks in the last sample before a moment.

        :raises TimedOut: there is none.
        """
        with self._changed:
            found = [ends for at, _, ends in self._samples if at <= moment]
        if not found:
            raise TimedOut(f"no sample of the partitions' ends: {self._failure or 'too early'}")
        return found[-1]

    def forget(self) -> None:
        """Discards the samples so far."""
        with self._changed:
            self._samples.clear()

    def await_open(self, *, seconds: float) -> bool:
        """Blocks until an open transaction holds readers back; False if none does in time.

        :raises TimedOut: the broker does not answer.
        """
        deadline = time.monotonic() + seconds
        began = time.time()
        with self._changed:
            while True:
                last = self._samples[-1] if self._samples else None
                if last is not None and last[0] >= began and _held(last):
                    return True
                left = deadline - time.monotonic()
                if left <= 0 and self._failure:
                    raise TimedOut(f"the last stable offsets cannot be read: {self._failure}")
                if left <= 0:
                    return False
                self._changed.wait(left)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                # In this order records written in between never look like a transaction that holds readers back.
                ends = self._ends(IsolationLevel.READ_UNCOMMITTED)
                stable = self._ends(IsolationLevel.READ_COMMITTED)
            except KafkaException as error:
                # A new topic's leaders are not known everywhere at once. A lasting failure is raised by await_open.
                self._failure = str(error)
            else:
                self._failure = ""
                with self._changed:
                    self._samples.append((time.time(), stable, ends))
                    self._changed.notify_all()
            self._ending.wait(_BETWEEN_SAMPLES)

    def _ends(self, level: IsolationLevel) -> Offsets:
        futures = self._admin.list_offsets(self._asked, isolation_level=level, request_timeout=30)
        return {partition.partition: future.result().offset for partition, future in futures.items()}


def _held(sample: tuple[float, Offsets, Offsets]) -> bool:
    _, stable, ends = sample
    return any(stable[partition] < end for partition, end in ends.items())


def _is_beyond(last: Offsets, ends: Offsets) -> bool:
    return any(offset >= ends.get(partition, 0) for partition, offset in last.items())
