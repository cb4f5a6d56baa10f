"""The time from ``send`` until a ``read_committed`` reader has the record, at a steady rate, in a process of its own.

    python -m bench.peers.programs.latency_probe --bootstrap B --source T --sink T --rate 1000 --seconds 20

A thread sends records with the monotonic clock in the value; the main thread reads the sink. The first record that
comes through shows that the job runs. Records count from ``--warm-up`` seconds later on. Prints JSON with the quantiles
in milliseconds; the exit status is 1 if a record is missing or none came.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peers.results import quantiles
from bench.records import EndOffsets

_ID, _TIME, _NUMBER = 8, 16, 10
"""Bytes of the run's id, the moment and the number in front of a value."""
_START_SECONDS = 180.0
_QUIET_SECONDS = 30.0


class Sender:
    """Sends records at a rate, to the partitions in turn.

    :param size: bytes of a value.
    """

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, rate: int, size: int, run: bytes) -> None:
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", "enable.idempotence": True}
        )
        self._topic, self._partitions, self._rate, self._run = topic, partitions, rate, run
        self._padding = b"x" * max(0, size - _ID - _TIME - _NUMBER)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self.sent = 0
        self.latest_millis = 0.0
        """The most that a record was sent after its time."""

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Sends no more, and waits until the broker has all."""
        self._done.set()
        self._thread.join()

    def _send(self) -> None:
        begun, step = time.monotonic_ns(), 1_000_000_000 // self._rate
        while not self._done.is_set():
            due = begun + self.sent * step
            if (left := due - time.monotonic_ns()) > 0:
                time.sleep(left / 1e9)
            now = time.monotonic_ns()
            self.latest_millis = max(self.latest_millis, (now - due) / 1e6)
            value = b"%s%016x%010d%s" % (self._run, now, self.sent, self._padding)
            self._producer.produce(self._topic, value, partition=self.sent % self._partitions)
            self._producer.poll(0)
            self.sent += 1
        self._producer.flush(60)


class Reader:
    """Reads the records of a run from the end of a topic.

    :param run: the id in front of the values; other records do not count.
    """

    def __init__(self, bootstrap: str, topic: str, *, run: bytes) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": f"latency-{os.getpid()}", "enable.auto.commit": False,
                "isolation.level": "read_committed", "fetch.wait.max.ms": 5, "fetch.queue.backoff.ms": 1,
            }
        )  # fmt: skip
        self._run = run
        self.seen: set[int] = set()
        self.duplicates = 0
        self.arrivals: list[tuple[int, int]] = []
        """When each record was sent, and when it came, in nanoseconds of the monotonic clock."""
        ends = EndOffsets(bootstrap, topic).settled()
        self._consumer.assign([TopicPartition(topic, each.partition, end) for each, end in ends.items()])

    def read(self) -> None:
        """Takes what is there, and waits some milliseconds where nothing is."""
        for message in self._consumer.consume(500, 0.005):
            now, value = time.monotonic_ns(), message.value()
            if message.error() is not None or value is None or value[:_ID] != self._run:
                continue
            number = int(value[_ID + _TIME : _ID + _TIME + _NUMBER])
            if number in self.seen:
                self.duplicates += 1
                continue
            self.seen.add(number)
            self.arrivals.append((int(value[_ID : _ID + _TIME], 16), now))

    def close(self) -> None:
        self._consumer.close()


def main() -> int:
    """Measures once; 1 if a record is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--sink", required=True)
    parser.add_argument("--partitions", type=int, default=4, help="of the source")
    parser.add_argument("--rate", type=int, default=1000, help="records a second")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm-up", type=float, default=5, help="seconds behind the first record that do not count")
    o = parser.parse_args()
    run = os.urandom(_ID // 2).hex().encode()
    reader = Reader(o.bootstrap, o.sink, run=run)
    sender = Sender(o.bootstrap, o.source, partitions=o.partitions, rate=o.rate, size=o.size, run=run)
    sender.start()
    deadline = time.monotonic() + _START_SECONDS
    while not reader.seen and time.monotonic() < deadline:
        reader.read()
    if not reader.seen:
        print("no record came through", file=sys.stderr)
        return 1
    counted_from = time.monotonic() + o.warm_up
    while time.monotonic() < counted_from + o.seconds:
        reader.read()
    sender.end()
    last = time.monotonic()
    while len(reader.seen) < sender.sent and time.monotonic() - last < _QUIET_SECONDS:
        before = len(reader.seen)
        reader.read()
        last = time.monotonic() if len(reader.seen) > before else last
    reader.close()
    millis = [(came - sent) / 1e6 for sent, came in reader.arrivals if sent >= counted_from * 1e9]
    missing = sender.sent - len(reader.seen)
    others = {"duplicates": reader.duplicates, "missing": missing, "lateMillis": sender.latest_millis}
    print(json.dumps(quantiles(millis) | others))
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
