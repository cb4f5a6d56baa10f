"""Every allocation of the extension fails once: a read or a write then fails too, or has every row; none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

/* Of the extension's allocations the one with this number fails; 0: none does. */
static long failing, asked;
void shim_fail(long number) { failing = number; asked = 0; }
long shim_asked(void) { return asked; }

static int fails(void *caller) {
    Dl_info found;
    if (failing == 0 || !dladdr(caller, &found) || !strstr(found.dli_fname, "_kafka_arrow")) {
        return 0;
    }
    return __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST) == failing;
}

void *malloc(size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, size); }
char *strdup(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
    return copy == NULL ? NULL : memcpy(copy, text, size);
}
"""

PROGRAM = """
import ctypes, sys
import pyarrow as pa
from confluent_kafka import Producer
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.partition import TopicPartition
from sparkapp.model.checkpoint.split import KafkaPartitionSplit
from sparkapp.dataplane.interface import SOURCE_SCHEMA
from sparkapp.dataplane.native.consumer import NativeConsumer
from sparkapp.dataplane.native.producer import NativeProducer

ROWS = 3_000
shim = ctypes.CDLL(sys.argv[1])
cluster = Producer({"test.mock.num.brokers": 1})
bootstrap = ",".join(f"{one.host}:{one.port}" for one in cluster.list_topics(timeout=30).brokers.values())
for row in range(ROWS):
    headers = [(f"h{row % 7}", None if row % 2 else b"x" * 20)] if row % 3 else None
    key = None if row % 5 else str(row)
    cluster.produce("in", f"{row:0100}", key, partition=row % 2, headers=headers)
    cluster.poll(0)
assert cluster.flush(60) == 0
splits = [KafkaPartitionSplit(TopicPartition("in", number), 0, ROWS // 2) for number in range(2)]
headers = pa.array([[{"key": "k", "value": b"v"}]] * 50, SOURCE_SCHEMA.field("headers").type)
batch = pa.record_batch({"value": ["v"] * 50, "key": ["k"] * 50, "headers": headers,
                         "topic": [f"out{row % 3}" for row in range(50)]})


def read():
    consumer = None
    try:
        consumer = NativeConsumer({"bootstrap.servers": bootstrap})
        got = pa.Table.from_batches(consumer.read(splits, max_bytes=100_000, stall_timeout=30), SOURCE_SCHEMA)
        got.validate(full=True)
        # The same consumer must be whole after a failure.
        return sorted(zip(got["partition"].to_pylist(), got["offset"].to_pylist(), got["value"].to_pylist(),
                          got["key"].to_pylist(), map(str, got["headers"].to_pylist())))
    except (KafkaSparkJobError, MemoryError):
        shim.shim_fail(0)
        consumer = consumer or NativeConsumer({"bootstrap.servers": bootstrap})
        assert sum(one.num_rows for one in consumer.read(splits, stall_timeout=30)) == ROWS
        return None
    finally:
        consumer.close()


def write():
    producer = None
    try:
        producer = NativeProducer({"bootstrap.servers": bootstrap})
        producer.produce(batch, topic="out")
        rows = producer.flush(30)
        # Its rows are sorted: the topic's metadata is known.
        producer.produce(batch.select(["value", "key"]), topic="out0")
        return rows + producer.flush(30), producer.take_partitions()
    except (KafkaSparkJobError, MemoryError):
        return None
    finally:
        if producer:
            producer.close()


for act in (read, write):
    whole, refused, number = act(), 0, 0
    assert whole
    while True:
        number += 1
        shim.shim_fail(number)
        outcome = act()
        asked = shim.shim_asked()
        shim.shim_fail(0)
        assert outcome is None or outcome == whole, (act.__name__, number)
        refused += outcome is None
        if outcome is not None and asked < number:
            break
    print(act.__name__, number - 1, refused, flush=True)
"""


def test_every_allocation_fails_once(tmp_path: Path) -> None:
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(shim)],
        env={**os.environ, "LD_PRELOAD": str(shim)}, capture_output=True, text=True, timeout=390, check=False,
    )  # fmt: skip
    answers = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    read, refused = map(int, answers["read"].split())
    assert read >= 25
    assert refused >= 25, "an allocation that failed and was not missed"
    asked, refused = map(int, answers["write"].split())
    assert refused >= 3
    assert asked - refused >= 4, "rows are produced unsorted without memory to sort them"
