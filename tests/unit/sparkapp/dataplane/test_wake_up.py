"""The lock of a consumer's wake-up is there as long as librdkafka may call it."""

from __future__ import annotations

from pathlib import Path

from tests.support.native.wrapped_librdkafka import run_with, wrapped

CALLS_UNTIL_THE_END = r"""
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* Each queue's callback is called once more at the moment in which it is disabled, as librdkafka's threads may. */
enum { QUEUES = 16 };
static struct { rd_kafka_queue_t *queue; rd_kafka_event_cb *call; void *opaque; } armed[QUEUES];

void rd_kafka_queue_cb_event_enable(rd_kafka_queue_t *queue, rd_kafka_event_cb *call, void *opaque) {
    void (*enable)(rd_kafka_queue_t *, rd_kafka_event_cb *, void *) = real("rd_kafka_queue_cb_event_enable");
    int slot = 0;
    while (slot < QUEUES - 1 && armed[slot].queue != queue && armed[slot].queue != NULL) {
        slot++;
    }
    if (call == NULL && armed[slot].call != NULL) {
        if (pthread_mutex_trylock(armed[slot].opaque) == EINVAL) {
            printf("the lock was destroyed before its callback was disabled\n");
            fflush(stdout);
            exit(3);
        }
        pthread_mutex_unlock(armed[slot].opaque);
        armed[slot].call(NULL, armed[slot].opaque);
        printf("called\n");
        fflush(stdout);
    }
    armed[slot].queue = queue;
    armed[slot].call = call;
    armed[slot].opaque = opaque;
    enable(queue, call, opaque);
}
"""

PROGRAM = """
consumer = _kafka_arrow.Consumer({"group.id": "g"})
consumer.assign([("t", 0, 0), ("t", 1, 0)])
consumer.close()
"""


def test_no_callback_is_armed_over_a_lock_that_is_gone(tmp_path: Path) -> None:
    done = run_with(wrapped(tmp_path, CALLS_UNTIL_THE_END), PROGRAM)
    assert (done.stdout.split("\n"), done.returncode) == (["called"] * 3 + [""], 0), done.stderr
