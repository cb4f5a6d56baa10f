/* Many threads fill partition queues while the main thread gathers from them, for the thread sanitizer. Under test are
 * the extension's own locks and wake-ups; this file's queues stand in for librdkafka's. Prints the number of rows. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "partition_queue.h"

enum { PARTITIONS = 4, EACH = 20000 };

struct rdkafka rdkafka;

struct rd_kafka_queue_s {
    pthread_mutex_t lock;
    rd_kafka_message_t *messages[EACH];
    size_t head, tail;
    rd_kafka_event_cb *call;
    void *opaque;
};
static struct rd_kafka_queue_s filled[PARTITIONS + 1]; /* the last queue has the client's events */

static void enable(rd_kafka_queue_t *queue, rd_kafka_event_cb *call, void *opaque) {
    pthread_mutex_lock(&queue->lock);
    queue->call = call;
    queue->opaque = opaque;
    pthread_mutex_unlock(&queue->lock);
}

static void put(struct rd_kafka_queue_s *queue, rd_kafka_message_t *message) {
    pthread_mutex_lock(&queue->lock);
    queue->messages[queue->tail++] = message;
    if (queue->call != NULL && queue->tail == queue->head + 1) {
        queue->call(NULL, queue->opaque); /* as librdkafka does: where the queue was empty, under its lock */
    }
    pthread_mutex_unlock(&queue->lock);
}

static ssize_t take(rd_kafka_queue_t *queue, int millis, rd_kafka_message_t **messages, size_t most) {
    pthread_mutex_lock(&queue->lock);
    size_t count = 0;
    while (count < most && queue->head < queue->tail) {
        messages[count++] = queue->messages[queue->head++];
    }
    pthread_mutex_unlock(&queue->lock);
    return (ssize_t)count;
}

static void destroy_message(rd_kafka_message_t *message) { free(message); }
static void destroy_queue(rd_kafka_queue_t *queue) { (void)queue; }

static void *fill(void *opaque) {
    struct rd_kafka_queue_s *queue = opaque;
    for (int64_t offset = 0; offset < EACH; offset++) {
        rd_kafka_message_t *message = calloc(1, sizeof *message);
        message->offset = offset;
        message->payload = "value";
        message->len = 5;
        put(queue, message);
    }
    return NULL;
}

static void *complain(void *opaque) {
    for (int time = 0; time < EACH; time++) {
        client_errors_add(opaque, -195, -1, "no broker", 9);
    }
    return NULL;
}

int main(void) {
    rdkafka.queue_cb_event_enable = enable;
    rdkafka.consume_batch_queue = take;
    rdkafka.message_destroy = destroy_message;
    rdkafka.queue_destroy = destroy_queue;
    static ClientErrors errors;
    client_errors_init(&errors);
    PartitionQueues queues;
    partition_queues_init(&queues);
    for (int number = 0; number <= PARTITIONS; number++) {
        pthread_mutex_init(&filled[number].lock, NULL);
        enable(&filled[number], wake_up, &queues.wake);
        if (number < PARTITIONS) {
            int slot = partition_queues_add(&queues, "topic", number, 0);
            queues.slots[slot].rkqu = &filled[number];
        }
    }
    pthread_t threads[PARTITIONS + 1];
    for (int number = 0; number < PARTITIONS; number++) {
        pthread_create(&threads[number], NULL, fill, &filled[number]);
    }
    pthread_create(&threads[PARTITIONS], NULL, complain, &errors);
    long long rows = 0;
    for (int64_t stop = EACH / 4; stop <= EACH; stop += EACH / 4) { /* reads of a consumer that stays open */
        for (size_t number = 0; number < queues.count; number++) {
            queues.slots[number].stop = stop;
            queues.slots[number].wanted = true;
        }
        while (partition_queues_unfinished(&queues) > 0) {
            Columns columns;
            columns_begin(&columns, 1u << COLUMN_VALUE | 1u << COLUMN_OFFSET, 1000, 0);
            Limits limits = {1000, 1 << 20, 100, 5, false};
            rows += partition_queues_gather(&queues, &filled[PARTITIONS], &errors, &columns, limits).rows;
            columns_free(&columns);
        }
    }
    enable(&filled[PARTITIONS], NULL, NULL);
    partition_queues_destroy(&queues); /* while the last of the threads may still be in wake_up() */
    for (int number = 0; number <= PARTITIONS; number++) {
        pthread_join(threads[number], NULL);
    }
    client_errors_destroy(&errors);
    printf("%lld\n", rows);
    return 0;
}
