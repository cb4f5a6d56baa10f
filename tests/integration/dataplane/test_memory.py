"""A consumer and a producer that live for many checkpoints do not grow."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.model.partition import TopicPartition
from tests.support.native.batch_path import BatchPath, split

ROUNDS = 24
ROWS = 10_000
SLACK_MIB = 16
"""Twelve rounds that each kept their records would need twice as much."""


def resident_mib() -> float:
    gc.collect()
    pa.default_memory_pool().release_unused()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 / 1024


def test_memory_stays_flat_over_many_transactions_and_reads(
    path: BatchPath, make_topic: Callable[..., str], unique: str
) -> None:
    topic = make_topic()
    rows = ROWS if path.implementation == "native" else ROWS // 5
    headers = [[{"key": "h", "value": b"x" * 50}] if row % 3 else None for row in range(rows)]
    batch = pa.record_batch(
        {
            "value": pa.array(["v" * 200] * rows),
            "key": pa.array([None if row % 2 else b"k" for row in range(rows)]),
            "headers": pa.array(headers, SOURCE_SCHEMA.field("headers").type),
        }
    )
    producer = path.transactional(unique)
    consumer = path.consumer(isolation_level="read_uncommitted")
    sizes = []
    position = 0
    for _ in range(ROUNDS):
        producer.begin_transaction()
        producer.produce(batch, topic=topic)
        offsets = {TopicPartition(topic, 0): position}
        producer.send_offsets(offsets, group_id=unique, metadata="m" * 100, timeout=30)
        assert producer.flush(60) == rows
        producer.abort_transaction(30)
        stop = position + rows + 1  # the marker
        assert sum(each.num_rows for each in consumer.read([split(topic, position, stop)])) == rows
        abandoned = consumer.read([split(topic, 0, 1000)], max_rows=10)
        next(abandoned)
        abandoned.close()
        position = stop
        sizes.append(resident_mib())
    assert sizes[-1] - max(sizes[ROUNDS // 3 : ROUNDS // 2]) < SLACK_MIB, sizes
