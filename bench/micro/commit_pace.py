"""What a commit costs a subtask that commits its own transactions, and how many markers a second a broker writes.

    PYTHONPATH=dev python -m bench.micro.commit_pace                      # a temporary broker
    python -m bench.micro.commit_pace --bootstrap host:9092 --rounds 9 --output json

First part: transactions of some records with the group's offsets inside, each begun ``--interval`` milliseconds after
the previous transaction. The ways are run in turns, ``--rounds`` times:

- ``one id``: one producer that is kept. Its next transaction waits until the coordinator has written the markers.
- ``two ids in turns``: two producers that are kept.
- ``a producer each``: a new producer for each transaction, whose opening counts as part of it.

Second part: transactions without a pause, of one record in each of some partitions. A transaction has a marker in each
of them and one in the group's offsets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.broker import broker_at, make_topic
from bench.spread import Spread

_SECONDS = 30.0


@dataclass
class Costs:
    """Milliseconds of each transaction, by step.

    :ivar open: until the producer is ready; 0 for a producer that is kept.
    :ivar write: until all records are acknowledged, with the wait for the markers of the id's last transaction.
    :ivar offsets: to add the group's offsets. :ivar end: the commit.
    """

    open: list[float] = field(default_factory=list)
    write: list[float] = field(default_factory=list)
    offsets: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)

    def add(self, *moments: float) -> None:
        for steps, before, after in zip(
            (self.open, self.write, self.offsets, self.end), moments, moments[1:], strict=False
        ):
            steps.append((after - before) * 1000)
        self.whole.append((moments[-1] - moments[0]) * 1000)


class Ids:
    """Producers of one topic, with the metadata of one group."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = f"bench-{uuid.uuid4().hex[:8]}"
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self._group})
        self._metadata = consumer.consumer_group_metadata()
        consumer.close()

    def producer(self, number: int) -> Producer:
        """A new producer, which fences the previous producer of this number."""
        config = {
            "bootstrap.servers": self._bootstrap, "transactional.id": f"{self._group}-{number}", "linger.ms": 0,
            "transaction.timeout.ms": 60_000,
        }  # fmt: skip
        producer = Producer(config)
        producer.init_transactions(_SECONDS)
        return producer

    def transact(self, ready: Callable[[], Producer], partitions: Sequence[int], offset: int, costs: Costs) -> None:
        """One transaction: a record for each of ``partitions``, and the offset of the first partition."""
        moments = [time.perf_counter()]
        producer = ready()
        moments.append(time.perf_counter())
        producer.begin_transaction()
        for partition in partitions:
            producer.produce(self._topic, b"x" * 100, partition=partition)
        if producer.flush(_SECONDS):
            raise TimeoutError
        moments.append(time.perf_counter())
        producer.send_offsets_to_transaction([TopicPartition(self._topic, 0, offset)], self._metadata, _SECONDS)
        moments.append(time.perf_counter())
        producer.commit_transaction(_SECONDS)
        moments.append(time.perf_counter())
        costs.add(*moments)


@contextmanager
def ways(ids: Ids) -> Iterator[dict[str, Callable[[], Producer]]]:
    """Each way to get the producer of the next transaction."""
    kept = [ids.producer(number) for number in range(3)]
    turns = cycle(kept[1:])
    yield {
        "one id": lambda: kept[0],
        "two ids in turns": lambda: next(turns),
        "a producer each": lambda: ids.producer(3),
    }


def paced(ids: Ids, options: argparse.Namespace) -> dict[str, Costs]:
    """The first part."""
    costs: dict[str, Costs] = defaultdict(Costs)
    partitions = [number % options.partitions for number in range(options.records)]
    with ways(ids) as found:
        for ready in found.values():
            ids.transact(ready, partitions, 1, Costs())  # the first meets new connections
        for _ in range(options.rounds):
            for name, ready in found.items():
                for number in range(options.transactions):
                    due = time.perf_counter() + options.interval / 1000
                    ids.transact(ready, partitions, number + 1, costs[name])
                    time.sleep(max(0.0, due - time.perf_counter()))
    return costs


def markers(ids: Ids, partitions: int, producers: int, seconds: float) -> float:
    """Transactions a second of some producers together, each with ``partitions``."""
    opened = [ids.producer(100 + number) for number in range(producers)]
    for producer in opened:
        ids.transact(lambda producer=producer: producer, range(partitions), 1, Costs())  # type: ignore[misc]
    end = time.perf_counter() + seconds

    def run(producer: Producer) -> int:
        costs = Costs()
        while time.perf_counter() < end:
            ids.transact(lambda: producer, range(partitions), 1, costs)
        return len(costs.whole)

    began = time.perf_counter()
    with ThreadPoolExecutor(producers) as pool:
        done = sum(pool.map(run, opened))
    return done / (time.perf_counter() - began)


def main() -> int:
    """Runs both parts and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="an existing broker, by default a temporary one")
    parser.add_argument("--interval", type=float, default=50, help="milliseconds from one transaction to the next")
    parser.add_argument("--records", type=int, default=50, help="records of a transaction")
    parser.add_argument("--partitions", type=int, default=4, help="partitions of the first part")
    parser.add_argument("--transactions", type=int, default=60, help="of each way in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, nargs="*", default=[1, 4, 16, 64], help="partitions of the second part")
    parser.add_argument("--producers", type=int, nargs="*", default=[1, 4], help="of the second part")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement of the second part")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    with broker_at(options.bootstrap) as bootstrap:
        ids = Ids(bootstrap, make_topic(bootstrap, max(options.partitions, *options.width)))
        costs = paced(ids, options)
        rates = {
            (width, producers): [markers(ids, width, producers, options.seconds) for _ in range(options.rounds)]
            for width in options.width
            for producers in options.producers
        }
    report(costs, rates, options.output)
    return 0


def report(costs: dict[str, Costs], rates: dict[tuple[int, int], list[float]], output: str) -> None:
    """Prints medians and spreads."""
    steps = {way: {step: Spread.of(figures) for step, figures in asdict(found).items()} for way, found in costs.items()}
    spreads = {key: Spread.of(figures) for key, figures in rates.items()}
    if output == "json":
        body = {
            "millis": {
                way: {step: each and asdict(each) for step, each in found.items()} for way, found in steps.items()
            },
            "transactionsPerSecond": [
                {"partitions": width, "producers": producers, "rates": rates[width, producers]}
                for width, producers in rates
            ],
        }  # fmt: skip
        print(json.dumps(body, indent=2))
        return
    for way, found in steps.items():
        shown = "; ".join(f"{step} {each.median:.1f} (p95 {each.p95:.1f})" for step, each in found.items() if each)
        print(f"{way:18} ms: {shown}")
    for (width, producers), spread in spreads.items():
        if spread is not None:
            print(
                f"{width:3} partitions, {producers} producers: {spread.median:7.1f} transactions/s"
                f" ({spread.lowest:.1f} to {spread.highest:.1f}), {spread.median * (width + 1):8.0f} markers/s"
            )


if __name__ == "__main__":
    sys.exit(main())
