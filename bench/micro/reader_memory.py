"""Memory of a reader whose records nobody takes: the prefetch against its stated bound.

    PYTHONPATH=dev python -m bench.micro.reader_memory        # a temporary broker; 4, 9, 64 and 200 partitions
    PYTHONPATH=dev python -m bench.micro.reader_memory --bootstrap host:9092 --partitions 8 --size 500000

Each line is a process. Its consumer reads a topic whose partitions hold more than the bound. It takes one batch, waits
until the prefetch is full, then takes the rest. Growth is the process's peak minus its size before the read.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from bench.allocator import allocator
from bench.broker import broker_at, drop_topic, make_topic
from sparkapp.dataplane.settings import BATCH_BYTES, reader_bound
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition

MEBIBYTE = 1 << 20
_FULL_SECONDS = 5.0
"""Seconds without growth after which the prefetch is full."""


def main() -> None:
    """Prints a line for each number of partitions; exits with status 1 if a reader took more than its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--partitions", type=int, nargs="+", default=[4, 9, 64, 200])
    parser.add_argument("--size", type=int, default=200_000, help="bytes of a record's value")
    parser.add_argument("--child", metavar="TOPIC", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _read(options.bootstrap, options.child, options.partitions[0])
        return
    beyond = False
    with broker_at(options.bootstrap) as bootstrap:
        print(f"records of {options.size} bytes; MiB")
        print(f"{'partitions':>10}{'in the topic':>14}{'prefetched':>12}{'peak':>8}{'bound':>8}")
        for partitions in options.partitions:
            bound = reader_bound(partitions, record_bytes=options.size, batch_bytes=BATCH_BYTES)
            topic = _fill(bootstrap, partitions, options.size, total=bound * 3 // 2)
            prefetched, peak = _measure(bootstrap, topic, partitions)
            beyond |= peak > bound / MEBIBYTE
            print(
                f"{partitions:>10}{bound * 3 // 2 // MEBIBYTE:>14}{prefetched:>12.0f}{peak:>8.0f}"
                f"{bound / MEBIBYTE:>8.0f}",
                flush=True,
            )
            drop_topic(bootstrap, topic)
    sys.exit(1 if beyond else 0)


def _measure(bootstrap: str, topic: str, partitions: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.micro.reader_memory", "--bootstrap", bootstrap, "--child", topic]
    done = subprocess.run(
        [*command, "--partitions", str(partitions)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **allocator()},
    )
    prefetched, peak = done.stdout.split()
    return float(prefetched), float(peak)


def _read(bootstrap: str, topic: str, partitions: int) -> None:
    """The child: prints growth with a full prefetch, and the peak of the whole read."""
    from sparkapp.dataplane.batch import open_consumer

    admin = AdminClient({"bootstrap.servers": bootstrap})
    from confluent_kafka import TopicPartition as Asked
    from confluent_kafka.admin import OffsetSpec

    asked = {Asked(topic, number): OffsetSpec.latest() for number in range(partitions)}
    splits = [
        KafkaPartitionSplit(TopicPartition(partition.topic, partition.partition), 0, answer.result(60).offset)
        for partition, answer in admin.list_offsets(asked).items()
    ]
    consumer = open_consumer({"bootstrap.servers": bootstrap})
    before = _resident()
    watch = _Watch()
    batches = consumer.read(splits, max_bytes=BATCH_BYTES)
    rows = next(batches).num_rows
    grown, since = watch.peak, time.monotonic()
    while time.monotonic() - since < _FULL_SECONDS:
        time.sleep(0.2)
        if watch.peak > grown + MEBIBYTE:
            grown, since = watch.peak, time.monotonic()
    full = watch.peak
    rows += sum(batch.num_rows for batch in batches)
    watch.close()
    assert rows == sum(split.size for split in splits)
    consumer.close()
    print((full - before) / MEBIBYTE, (watch.peak - before) / MEBIBYTE)


class _Watch:
    """Measures the process's size every few milliseconds."""

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.005):
            self.peak = max(self.peak, _resident())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _fill(bootstrap: str, partitions: int, size: int, *, total: int) -> str:
    name = make_topic(bootstrap, partitions)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.kbytes": 64 << 10, "linger.ms": 5})
    value = os.urandom(size)
    for number in range(max(partitions, total // size)):
        while True:
            try:
                producer.produce(name, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(300) == 0
    return name


if __name__ == "__main__":
    main()
