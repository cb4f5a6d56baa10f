"""A job with state in the storm: a window, a deduplication, a join and a timer in one query, and what they write.

A record has a number n and the time of n × 10 ms behind a fixed moment. Records 2k and 2k + 1 are duplicates of k for
the deduplication, and a pair for the join. What the query writes follows from the numbers alone, however records fall
into checkpoints.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from clusterjob.kafka.reading import ReadRecord
from sparkapp.model.checkpoint.document import CheckpointDocument
from sparkapp.model.checkpoint.retained import RetainedCheckpoint
from tests.soak.storm.ledger import number_of
from tests.support.kafka.idempotent_producer import idempotent_producer
from tests.support.kubernetes.cluster_job import ClusterJob

_CLAIM, CODE = "state", "stateful"
MODULE = '''
from pyspark.sql import Row, functions as f
from pyspark.sql.streaming import StatefulProcessor

PERIOD, START = 10_000, 1_700_000_000_000


class Periods(StatefulProcessor):
    """Counts the records of each period of 10 s, and writes the number when a timer says that it is over."""

    def init(self, handle):
        self.handle = handle
        self.counts = handle.getMapState("counts", "period LONG", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        found = {}
        for row in rows:
            period = row.id * 10 // PERIOD
            found[period] = found.get(period, 0) + 1
        for period, count in found.items():
            before = self.counts.getValue((period,))[0] if self.counts.containsKey((period,)) else 0
            if not before:
                self.handle.registerTimer(START + (period + 1) * PERIOD)
            self.counts.updateValue((period,), (before + count,))
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        period = (expiredTimerInfo.getExpiryTimeInMs() - START) // PERIOD - 1
        count = self.counts.getValue((period,))[0]
        self.counts.removeKey((period,))
        yield Row(value=f"timer {key[0]} {period} {count}")

    def close(self):
        pass


def branches(source):
    events = source.select("value.id").withColumn("at", f.timestamp_millis(f.lit(START) + f.col("id") * 10))
    events = events.withWatermark("at", "300 seconds").withColumn("k", f.expr("id div 2"))
    windows = events.groupBy(f.window("at", "10 seconds")).agg(f.count("*").alias("n"), f.sum("id").alias("s"))
    begins = f.unix_millis("window.start") - START
    windows = windows.select(f.concat_ws(" ", f.lit("window"), begins, "n", "s").alias("value"))
    distinct = events.select("k", "at").dropDuplicatesWithinWatermark(["k"])
    distinct = distinct.select(f.concat_ws(" ", f.lit("distinct"), "k").alias("value"))
    orders = events.where("id % 2 = 0").select("k", "at")
    paid = events.where("id % 2 = 1").select(f.col("k").alias("paid"), f.col("at").alias("paid_at"))
    pairs = orders.join(paid, f.expr("k = paid AND paid_at >= at AND paid_at <= at + INTERVAL 1 SECOND"))
    pairs = pairs.select(f.concat_ws(" ", f.lit("pair"), "k").alias("value"))
    timers = events.withColumn("seventh", f.expr("id % 7")).groupBy("seventh").transformWithState(
        statefulProcessor=Periods(), outputStructType="value STRING", outputMode="Append", timeMode="EventTime"
    )
    return windows, distinct, pairs, timers


def pipelines(source):
    windows, distinct, pairs, timers = branches(source)
    return windows.unionByName(distinct).unionByName(pairs).unionByName(timers)


def window(source):
    return branches(source)[0]


def distinct(source):
    return branches(source)[1]


def pair(source):
    return branches(source)[2]


def timer(source):
    return branches(source)[3]
'''
OPERATORS = "window", "distinct", "pair", "timer"
"""First words of the rows of the four; functions that have a single one of them are named so."""
SPEC: dict[str, Any] = {
    "engine": "MicroBatch",
    "executor": {"memory": "768Mi"},
    "checkpoint": {
        "intervalSeconds": 1, "stateVolume": {"claimName": _CLAIM}, "state": {"partitions": "FollowParallelism"},
        "retention": {"intervalSeconds": 5, "count": 20},
    },
    "source": {"format": {"value": "json", "valueSchema": "id BIGINT"}},
    "transform": {"python": {"function": f"{CODE}:pipelines", "configMapRef": {"name": CODE}}},
}  # fmt: skip
LAST = 1_000_000_000, 1_000_000_001
"""Numbers of a pair that ends all windows and periods before it."""


def prepare(place: ClusterJob) -> None:
    """Makes the claim and the code of the job."""
    place.kubectl.apply({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": _CLAIM},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    })  # fmt: skip
    place.kubectl.apply({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CODE}, "data": {f"{CODE}.py": MODULE},
    })  # fmt: skip


def expected(numbers: Iterable[int]) -> Counter[str]:
    """What the query writes of these records and of the last pair, whose window and periods stay open."""
    windows: dict[int, list[int]] = {}
    periods: Counter[tuple[int, int]] = Counter()
    halves: Counter[int] = Counter()
    for number in numbers:
        windows.setdefault(number * 10 // 10_000, []).append(number)
        periods[number % 7, number * 10 // 10_000] += 1
        halves[number // 2] += 1
    halves[LAST[0] // 2] = len(LAST)
    found = Counter(f"window {start * 10_000} {len(each)} {sum(each)}" for start, each in windows.items())
    found.update(f"distinct {half}" for half in halves)
    found.update(f"pair {half}" for half, count in halves.items() if count == len(LAST))
    found.update(f"timer {key} {period} {count}" for (key, period), count in periods.items())
    return found


class StatefulLedger:
    """How many rows are to be in the sink, with those that restores write again. Pure.

    A job that goes back from ``had`` to ``to`` writes the rows behind ``to`` again. Which these are depends on how
    records fell into checkpoints, and their number does not: documents count the rows of all checkpoints so far.
    """

    def __init__(self, *operators: str) -> None:
        """
        :param operators: that the query has; by default all.
        """
        self._operators = operators or OPERATORS
        self._surplus: list[tuple[int, int]] = []
        """Of each restore: the checkpoint before it, and the rows in the sink beyond those of the job's history."""

    def restored(self, to: RetainedCheckpoint, had: CheckpointDocument) -> None:
        """The job, which is suspended at ``had``, is to go back to ``to``."""
        history = to.records_out - self._surplus_at(to.checkpoint_id)
        self._surplus.append((had.checkpoint_id, had.counters.records_out - history))

    def differences(self, source: Iterable[ReadRecord], sink: Iterable[ReadRecord]) -> list[str]:
        """What is lost, repeated or foreign, as lines for people."""
        rows = expected(number for number in map(number_of, source) if number not in LAST)
        wanted = Counter({row: count for row, count in rows.items() if row.split()[0] in self._operators})
        seen = Counter((record.value or b"").decode() for record in sink)
        due = wanted.total() + (self._surplus[-1][1] if self._surplus else 0)
        found = []
        for what, rows in (
            ("lost", [row for row in wanted if not seen[row]]),
            ("foreign", [row for row in seen if row not in wanted]),
            ("too often", [row for row, times in seen.items() if times > 1 + len(self._surplus)]),
        ):
            if rows:
                found.append(f"{len(rows)} rows {what}: {'; '.join(itertools.islice(sorted(rows), 5))}")
        if seen.total() != due:
            found.append(f"{seen.total()} rows of {due}")
        return found

    def _surplus_at(self, checkpoint_id: int) -> int:
        before = [surplus for last, surplus in self._surplus if last < checkpoint_id]
        return before[-1] if before else 0


def end(bootstrap: str, topic: str) -> None:
    """Writes the pair that ends everything, behind all other records."""
    producer = idempotent_producer(bootstrap)
    for number in LAST:
        producer.produce(topic, key=str(number), value=json.dumps({"id": number}))
    assert producer.flush(30) == 0
