"""Throughput of record batches between Kafka and Arrow: the C extension against the plain fallback.

    PYTHONPATH=dev python -m bench.micro.native_path      # a temporary broker, 3 M records of 100 bytes, 4 partitions
    python -m bench.micro.native_path --bootstrap host:9092 --records 10000000 --rounds 3

There are four ways: Kafka to Arrow, Arrow to Kafka, both, and both in transactions. Two of them run with fewer columns,
too. Each runs in one process and one thread of Python. A transaction ends every ``--checkpoint`` records and has the
source's offsets. The best round counts: on a shared machine the other rounds depend on its other users. The CPU time of
all threads hardly does.
"""

from __future__ import annotations

import argparse
import resource
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from bench.broker import broker_at, drop_topic, make_topic
from sparkapp.clients.transactions.client import TransactionClient
from sparkapp.clients.transactions.states import EndTxn
from sparkapp.dataplane.interface import ALL_COLUMNS, BatchConsumer, BatchProducer
from sparkapp.model.checkpoint.commit_outcome import EndTxnAnswer
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.model.partition import TopicPartition
from sparkapp.spark.frames.batch_transform import SINK_COLUMNS

VALUE = frozenset({"value"})
FORWARDED = frozenset(SINK_COLUMNS)
"""As a job without a transform passes them through."""
ROWS_A_BATCH = 65_536
_SECONDS = 120.0


class Bench:
    """One implementation against one broker and source topic."""

    def __init__(self, implementation: str, options: argparse.Namespace, bootstrap: str) -> None:
        self.implementation = implementation
        self.options = options
        self.config = {"bootstrap.servers": bootstrap, **dict(pair.split("=", 1) for pair in options.set)}
        self.records = options.records if implementation == "native" else options.plain_records

    def consumer(self) -> BatchConsumer:
        """A consumer of this implementation."""
        from sparkapp.dataplane.plain.consumer import PlainConsumer

        if self.implementation == "plain":
            return PlainConsumer(_for("consumer", self.config))
        from sparkapp.dataplane.native.consumer import NativeConsumer

        return NativeConsumer(_for("consumer", self.config))

    def producer(self, **more: str) -> BatchProducer:
        """A producer of this implementation.

        :param more: properties, with ``_`` for ``.`` in their names.
        """
        from sparkapp.dataplane.plain.producer import PlainProducer

        config = {**_for("producer", self.config), **{key.replace("_", "."): value for key, value in more.items()}}
        if self.implementation == "plain":
            return PlainProducer(config)
        from sparkapp.dataplane.native.producer import NativeProducer

        return NativeProducer(config)

    def splits(self, topic: str, first: int, last: int) -> list[KafkaPartitionSplit]:
        """Records ``first`` to ``last`` of the topic, spread evenly over its partitions."""
        count = self.options.partitions
        return [
            KafkaPartitionSplit(TopicPartition(topic, partition), first // count, last // count)
            for partition in range(count)
        ]

    def produce(self, _: str, sink: str) -> None:
        """Arrow to Kafka."""
        producer = self.producer()
        value = pa.array([f"{number:0{self.options.size}d}".encode() for number in range(ROWS_A_BATCH)])
        for partition in range(self.options.partitions):
            left = self.records // self.options.partitions
            while left:
                rows = min(ROWS_A_BATCH, left)
                where = pa.array([partition] * rows, pa.int32())
                producer.produce(pa.record_batch({"value": value.slice(0, rows), "partition": where}), topic=sink)
                left -= rows
        assert producer.flush(_SECONDS) == self.records
        producer.close()

    def consume(self, source: str, _: str, columns: frozenset[str] = VALUE) -> None:
        """Kafka to Arrow."""
        consumer = self.consumer()
        rows = sum(batch.num_rows for batch in consumer.read(self.splits(source, 0, self.records), columns=columns))
        assert rows == self.records, rows
        consumer.close()

    def consume_everything(self, source: str, sink: str) -> None:
        """Kafka to Arrow with every column."""
        self.consume(source, sink, ALL_COLUMNS)

    def forward(self, source: str, sink: str) -> None:
        """Kafka to Kafka."""
        consumer, producer = self.consumer(), self.producer()
        for batch in consumer.read(self.splits(source, 0, self.records), columns=FORWARDED):
            producer.produce(batch.select(SINK_COLUMNS), topic=sink)
        assert producer.flush(_SECONDS) == self.records
        producer.close()
        consumer.close()

    def forward_exactly_once(self, source: str, sink: str, columns: Sequence[str] = SINK_COLUMNS) -> None:
        """Kafka to Kafka in transactions, each of a producer of its own and committed by its triple, as in jobs."""
        transactional_id = f"bench-{uuid.uuid4().hex}"
        consumer, client = self.consumer(), TransactionClient({"bootstrap.servers": self.config["bootstrap.servers"]})
        step = self.options.checkpoint
        for first in range(0, self.records, step):
            splits = self.splits(source, first, min(first + step, self.records))
            producer = self.producer(transactional_id=transactional_id)
            producer.init_transactions(_SECONDS)
            producer.begin_transaction()
            for batch in consumer.read(splits, columns=frozenset(columns)):
                producer.produce(batch.select(columns), topic=sink)
            offsets = {split.partition: split.stop for split in splits}
            producer.send_offsets(offsets, group_id="bench", metadata="", timeout=_SECONDS)
            assert producer.flush(_SECONDS) == sum(split.size for split in splits)
            producer.close()
            found = client.describe([transactional_id])[transactional_id]
            end = EndTxn(
                transactional_id=transactional_id, producer_id=found.producer_id,
                producer_epoch=found.producer_epoch, commit=True,
            )  # fmt: skip
            assert client.end_all([end]) == [EndTxnAnswer.NONE]
        client.close()
        consumer.close()

    def forward_key_and_value(self, source: str, sink: str) -> None:
        """The same without time and headers, as the other programs of ``bench.peers``."""
        self.forward_exactly_once(source, sink, ("key", "value"))


WAYS: Mapping[str, Callable[[Bench, str, str], None]] = {
    "Kafka -> Arrow, value": Bench.consume,
    "Kafka -> Arrow, all columns": Bench.consume_everything,
    "Arrow -> Kafka": Bench.produce,
    "Kafka -> Kafka": Bench.forward,
    "Kafka -> Kafka, transactions": Bench.forward_exactly_once,
    "the same, key and value": Bench.forward_key_and_value,
}


def main() -> None:
    """Runs the bench of the options and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--plain-records", type=int, default=500_000, help="records for the fallback")
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--checkpoint", type=int, default=1_000_000, help="records of a transaction")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="", help="part of a way's name")
    parser.add_argument("--implementations", nargs="+", default=["native", "plain"])
    parser.add_argument("--set", nargs="*", default=[], metavar="consumer.KEY=VALUE", help="or producer.KEY=VALUE")
    options = parser.parse_args()
    # Every partition gets equally many records, and every transaction, too.
    unit = options.partitions * 4
    options.records -= options.records % unit
    options.plain_records = min(options.plain_records - options.plain_records % unit, options.records)
    with broker_at(options.bootstrap) as bootstrap:
        _measure(options, bootstrap)


def _measure(options: argparse.Namespace, bootstrap: str) -> None:
    source = make_topic(bootstrap, options.partitions)
    Bench("native" if "native" in options.implementations else "plain", options, bootstrap).produce("", source)
    print(f"{options.records} records of {options.size} bytes, {options.partitions} partitions")
    print("k records/s, and in brackets the microseconds of CPU time that a record takes in this process")
    print(f"{'':32}" + "".join(f"{name:>18}" for name in options.implementations) + f"{'ratio':>8}")
    for way, run in WAYS.items():
        if options.only not in way:
            continue
        results = [_best(Bench(name, options, bootstrap), run, source) for name in options.implementations]
        line = f"{way:32}" + "".join(f"{rate:10.0f} ({cpu:5.2f})" for rate, cpu in results)
        print(line + (f"{results[0][0] / results[1][0]:8.1f}" if len(results) > 1 else ""), flush=True)
    drop_topic(bootstrap, source)
    print(f"largest resident size {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")


def _best(bench: Bench, run: Callable[[Bench, str, str], None], source: str) -> tuple[float, float]:
    best = (0.0, 0.0)
    for _ in range(bench.options.rounds):
        sink = make_topic(bench.config["bootstrap.servers"], bench.options.partitions)
        began, cpu_began = time.perf_counter(), time.process_time()
        run(bench, source, sink)
        rate = bench.records / (time.perf_counter() - began) / 1e3
        best = max(best, (rate, (time.process_time() - cpu_began) / bench.records * 1e6))
        drop_topic(bench.config["bootstrap.servers"], sink)
    return best


def _for(role: str, config: Mapping[str, str]) -> dict[str, str]:
    other = "producer." if role == "consumer" else "consumer."
    return {key.removeprefix(f"{role}."): value for key, value in config.items() if not key.startswith(other)}


if __name__ == "__main__":
    main()
