#include "partition_queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHUNK = 1024, /* messages taken from a queue at once, before the next queue is served */
    MILLI = 1000000,
    SECOND = 1000000000,
    OUT_OF_MEMORY = -194, /* RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE */
};

bool partition_queues_init(PartitionQueues *queues) {
    memset(queues, 0, sizeof *queues);
    queues->scratch = malloc(CHUNK * sizeof *queues->scratch);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queues->wake.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&queues->wake.lock, NULL);
    return queues->scratch != NULL;
}

void partition_queues_destroy(PartitionQueues *queues) {
    for (size_t index = 0; index < queues->count; index++) {
        partition_queue_clear(&queues->slots[index]);
    }
    free(queues->slots);
    free(queues->scratch);
    pthread_cond_destroy(&queues->wake.changed);
    pthread_mutex_destroy(&queues->wake.lock);
    memset(queues, 0, sizeof *queues);
}

int partition_queues_add(PartitionQueues *queues, const char *topic, int32_t partition, int64_t start) {
    size_t slot = queues->count;
    for (size_t index = queues->count; index-- > 0;) {
        if (queues->slots[index].topic == NULL) {
            slot = index;
        } else if (queues->slots[index].partition == partition && strcmp(queues->slots[index].topic, topic) == 0) {
            return PARTITION_QUEUE_TAKEN;
        }
    }
    if (slot == queues->count) {
        PartitionQueue *slots = realloc(queues->slots, (queues->count + 1) * sizeof *slots);
        if (slots == NULL) {
            return PARTITION_QUEUE_NO_MEMORY;
        }
        queues->slots = slots;
        queues->slots[queues->count++].topic = NULL;
    }
    queues->slots[slot] = (PartitionQueue){
        .topic = strdup(topic),
        .topic_size = strlen(topic),
        .partition = partition,
        .position = start,
        .stop = start,
        .reached = start,
    };
    return queues->slots[slot].topic == NULL ? PARTITION_QUEUE_NO_MEMORY : (int)slot;
}

void partition_queue_clear(PartitionQueue *queue) {
    if (queue->topic == NULL) {
        return;
    }
    for (size_t index = 0; index < queue->kept_count; index++) {
        rdkafka.message_destroy(queue->kept[index]);
    }
    free(queue->kept);
    if (queue->rkqu != NULL) {
        /* librdkafka keeps the queue as long as the partition, and would still call wake_up(). */
        rdkafka.queue_cb_event_enable(queue->rkqu, NULL, NULL);
        rdkafka.queue_destroy(queue->rkqu);
    }
    free(queue->topic);
    memset(queue, 0, sizeof *queue);
}

size_t partition_queues_unfinished(const PartitionQueues *queues) {
    size_t count = 0;
    for (size_t index = 0; index < queues->count; index++) {
        count += queues->slots[index].wanted;
    }
    return count;
}

void wake_up(rd_kafka_t *rk, void *opaque) {
    Wake *wake = opaque;
    pthread_mutex_lock(&wake->lock);
    wake->arrivals++;
    pthread_cond_signal(&wake->changed);
    pthread_mutex_unlock(&wake->lock);
}

void call(Wake *wake) {
    pthread_mutex_lock(&wake->lock);
    wake->called = true;
    pthread_cond_signal(&wake->changed);
    pthread_mutex_unlock(&wake->lock);
}

void interrupt(Wake *wake) {
    pthread_mutex_lock(&wake->lock);
    wake->interrupted = true;
    pthread_cond_signal(&wake->changed);
    pthread_mutex_unlock(&wake->lock);
}

static uint64_t arrivals(Wake *wake) {
    pthread_mutex_lock(&wake->lock);
    uint64_t count = wake->arrivals;
    pthread_mutex_unlock(&wake->lock);
    return count;
}

static int64_t now_nanos(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

/* Waits for an arrival after the count `seen`; false: the deadline has passed, or the reader is not to wait. */
static bool wait_for_arrival(Wake *wake, uint64_t seen, int64_t deadline) {
    struct timespec until = {.tv_sec = deadline / SECOND, .tv_nsec = deadline % SECOND};
    int late = 0;
    pthread_mutex_lock(&wake->lock);
    while (wake->arrivals == seen && !wake->called && !wake->interrupted && late == 0) {
        late = pthread_cond_timedwait(&wake->changed, &wake->lock, &until);
    }
    bool arrived = wake->arrivals != seen && !wake->called && !wake->interrupted;
    wake->called = false;
    pthread_mutex_unlock(&wake->lock);
    return arrived;
}

typedef struct {
    Columns *columns;
    ClientErrors *errors;
    Limits limits;
    int64_t bytes;
    Gathered result;
} Gathering;

static bool is_full(const Gathering *gathering) {
    return gathering->result.rows >= gathering->limits.max_rows || gathering->bytes >= gathering->limits.max_bytes;
}

/* Moves a message to the columns or the errors. False: the caller must keep it, and every message after it. */
static bool place(Gathering *gathering, PartitionQueue *queue, int number, rd_kafka_message_t *message) {
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            client_errors_add(gathering->errors, message->err, number, message->payload, message->len);
            gathering->result.failed = true;
        } else if (message->offset > queue->reached) {
            queue->reached = message->offset;
            gathering->result.moved = true;
        }
    } else if (message->offset >= queue->position) {
        int64_t size = (int64_t)(message->len + message->key_len);
        bool fits = gathering->result.rows == 0 || gathering->bytes + size <= gathering->limits.max_bytes;
        if (message->offset >= queue->stop || is_full(gathering) || !fits) {
            if (!fits) {
                /* Closes the batch: a smaller message would overtake this message. */
                gathering->bytes = gathering->limits.max_bytes;
            }
            return false;
        }
        size += (int64_t)columns_append(gathering->columns, message, queue->topic, queue->topic_size);
        gathering->bytes += size;
        gathering->result.rows++;
        gathering->result.moved = true;
        queue->position = message->offset + 1;
        if (queue->reached < queue->position) {
            queue->reached = queue->position;
        }
    }
    rdkafka.message_destroy(message);
    return true;
}

/* Moves up to CHUNK messages out of a partition queue; false: no message was moved. */
static bool take_messages(Gathering *gathering, PartitionQueue *queue, int number, rd_kafka_message_t **scratch) {
    if (queue->broken) {
        return false;
    }
    rd_kafka_message_t **messages = queue->kept;
    size_t count = queue->kept_count;
    if (count == 0) {
        int64_t range = queue->stop - queue->reached;
        int64_t room = gathering->limits.max_rows - gathering->result.rows;
        int64_t most = range < room ? range : room;
        if (most > 0) {
            ssize_t got = rdkafka.consume_batch_queue(queue->rkqu, 0, scratch, most < CHUNK ? (size_t)most : CHUNK);
            count = got > 0 ? (size_t)got : 0;
        }
        messages = scratch;
    }
    size_t placed = 0;
    while (placed < count && place(gathering, queue, number, messages[placed])) {
        placed++;
    }
    size_t left = count - placed;
    if (messages == queue->kept) {
        memmove(queue->kept, queue->kept + placed, left * sizeof *messages);
    } else if (left > 0) {
        if (queue->kept == NULL) {
            queue->kept = malloc(CHUNK * sizeof *messages);
        }
        if (queue->kept == NULL) {
            const char *text = "no memory to keep messages for the next batch";
            client_errors_add(gathering->errors, OUT_OF_MEMORY, number, text, strlen(text));
            gathering->result.failed = true;
            queue->broken = true;
            for (size_t index = placed; index < count; index++) {
                rdkafka.message_destroy(messages[index]);
            }
            left = 0;
        } else {
            memcpy(queue->kept, messages + placed, left * sizeof *messages);
        }
    }
    queue->kept_count = left;
    if (left == 0 && queue->position < queue->reached) {
        queue->position = queue->reached; /* behind markers and aborted records, which are no rows */
    }
    if (left > 0 ? queue->kept[0]->offset >= queue->stop : queue->reached >= queue->stop) {
        queue->position = queue->stop;
        queue->wanted = false;
        gathering->result.moved = true;
    }
    return placed > 0;
}

static void serve_events(rd_kafka_queue_t *events, ClientErrors *errors, rd_kafka_message_t **scratch) {
    ssize_t count = rdkafka.consume_batch_queue(events, 0, scratch, CHUNK);
    for (ssize_t index = 0; index < count; index++) {
        if (scratch[index]->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            client_errors_add(errors, scratch[index]->err, -1, scratch[index]->payload, scratch[index]->len);
        }
        rdkafka.message_destroy(scratch[index]);
    }
}

Gathered partition_queues_gather(PartitionQueues *queues, rd_kafka_queue_t *events, ClientErrors *errors,
                                 Columns *columns, Limits limits) {
    Gathering gathering = {.columns = columns, .errors = errors, .limits = limits};
    int64_t last = now_nanos();
    while (partition_queues_unfinished(queues) > 0 && !gathering.result.failed && !is_full(&gathering)) {
        uint64_t seen = arrivals(&queues->wake);
        bool progressed = false;
        serve_events(events, errors, queues->scratch);
        for (size_t step = 0; step < queues->count && !gathering.result.failed && !is_full(&gathering); step++) {
            size_t number = (queues->next + step) % queues->count;
            if (queues->slots[number].wanted) {
                progressed |= take_messages(&gathering, &queues->slots[number], (int)number, queues->scratch);
            }
        }
        queues->next = queues->count > 0 ? (queues->next + 1) % queues->count : 0;
        if (progressed || partition_queues_unfinished(queues) == 0) {
            last = limits.from_start ? last : now_nanos();
            continue;
        }
        int64_t patience = gathering.result.rows > 0 ? limits.linger_millis : limits.wait_millis;
        if (!wait_for_arrival(&queues->wake, seen, last + patience * MILLI)) {
            break;
        }
    }
    return gathering.result;
}
