"""A reader that gets no memory for what a full batch leaves over fails; it never goes on behind what it lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.batch_path import BatchPath

ROWS = 2_000

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* malloc() that has nothing for the extension's lanes: 1024 pointers at once. */
extern void *__libc_malloc(size_t);
static int asked;

void *malloc(size_t size) {
    if (size == 1024 * sizeof(void *)) {
        Dl_info caller;
        int ours = dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "_kafka_arrow");
        if (ours && asked++ > 0) { /* the first one is the consumer's own */
            return NULL;
        }
    }
    return __libc_malloc(size);
}
"""

PROGRAM = """
import sys
from sparkapp.model.errors import KafkaSparkJobError
from sparkapp.model.partition import TopicPartition
from sparkapp.model.split import KafkaPartitionSplit
from sparkapp.native.native_consumer import NativeConsumer

bootstrap, topic, rows, column = sys.argv[1:]
consumer = NativeConsumer({"bootstrap.servers": bootstrap})
split = KafkaPartitionSplit(TopicPartition(topic, 0), 0, int(rows))
count = 0
try:
    for batch in consumer.read([split], columns=frozenset({column}), max_bytes=5_000, stall_timeout=20):
        count += batch.num_rows
    print("read", count)
except (KafkaSparkJobError, MemoryError) as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.parametrize("column", ["value", "offset"])
def test_messages_that_cannot_be_kept_fail_the_read(
    column: str, broker: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Whatever is asked for: the column of values has buffers of its own to fail with, others have not."""
    topic = make_topic()
    path = BatchPath("plain", broker)
    path.fill(topic, (f"{number:0100}" for number in range(ROWS)))
    path.close()
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=True)
    command = [sys.executable, "-c", PROGRAM, broker, topic, str(ROWS), column]

    def run(**environment: str) -> str:
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.stdout, done.stderr
        return done.stdout.strip()

    assert run() == f"read {ROWS}"
    assert "no memory to keep messages" in run(LD_PRELOAD=str(shim))
