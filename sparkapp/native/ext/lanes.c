#include "lanes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHUNK = 1024, /* messages taken from a queue at once; a lane's turn */
    MILLI = 1000000,
    SECOND = 1000000000,
    OUT_OF_MEMORY = -194, /* RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE */
};

bool lanes_init(Lanes *lanes) {
    memset(lanes, 0, sizeof *lanes);
    lanes->scratch = malloc(CHUNK * sizeof *lanes->scratch);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lanes->wake.changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&lanes->wake.lock, NULL);
    return lanes->scratch != NULL;
}

void lanes_destroy(Lanes *lanes) {
    for (size_t index = 0; index < lanes->count; index++) {
        lane_clear(&lanes->slots[index]);
    }
    free(lanes->slots);
    free(lanes->scratch);
    pthread_cond_destroy(&lanes->wake.changed);
    pthread_mutex_destroy(&lanes->wake.lock);
    memset(lanes, 0, sizeof *lanes);
}

int lanes_add(Lanes *lanes, const char *topic, int32_t partition, int64_t start) {
    size_t slot = lanes->count;
    for (size_t index = lanes->count; index-- > 0;) {
        if (lanes->slots[index].topic == NULL) {
            slot = index;
        } else if (lanes->slots[index].partition == partition && strcmp(lanes->slots[index].topic, topic) == 0) {
            return LANE_TAKEN;
        }
    }
    if (slot == lanes->count) {
        Lane *slots = realloc(lanes->slots, (lanes->count + 1) * sizeof *slots);
        if (slots == NULL) {
            return LANE_NO_MEMORY;
        }
        lanes->slots = slots;
        lanes->slots[lanes->count++].topic = NULL;
    }
    lanes->slots[slot] = (Lane){
        .topic = strdup(topic),
        .topic_size = strlen(topic),
        .partition = partition,
        .position = start,
        .stop = start,
        .reached = start,
    };
    return lanes->slots[slot].topic == NULL ? LANE_NO_MEMORY : (int)slot;
}

void lane_clear(Lane *lane) {
    if (lane->topic == NULL) {
        return;
    }
    for (size_t index = 0; index < lane->kept_count; index++) {
        rdkafka.message_destroy(lane->kept[index]);
    }
    free(lane->kept);
    if (lane->queue != NULL) {
        /* librdkafka keeps the queue as long as the partition, and would go on calling. */
        rdkafka.queue_cb_event_enable(lane->queue, NULL, NULL);
        rdkafka.queue_destroy(lane->queue);
    }
    free(lane->topic);
    memset(lane, 0, sizeof *lane);
}

size_t lanes_unfinished(const Lanes *lanes) {
    size_t count = 0;
    for (size_t index = 0; index < lanes->count; index++) {
        count += lanes->slots[index].wanted;
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

/* Waits until something arrived since `seen`; false: the time is over. */
static bool wait_for_arrival(Wake *wake, uint64_t seen, int64_t deadline) {
    struct timespec until = {.tv_sec = deadline / SECOND, .tv_nsec = deadline % SECOND};
    int late = 0;
    pthread_mutex_lock(&wake->lock);
    while (wake->arrivals == seen && late == 0) {
        late = pthread_cond_timedwait(&wake->changed, &wake->lock, &until);
    }
    bool arrived = wake->arrivals != seen;
    pthread_mutex_unlock(&wake->lock);
    return arrived;
}

typedef struct {
    Columns *columns;
    Notes *notes;
    Limits limits;
    int64_t bytes;
    Gathered result;
} Gathering;

static bool is_full(const Gathering *gathering) {
    return gathering->result.rows >= gathering->limits.max_rows || gathering->bytes >= gathering->limits.max_bytes;
}

/* Puts a message where it belongs; false: it must be kept, and with it all that follow. */
static bool place(Gathering *gathering, Lane *lane, int number, rd_kafka_message_t *message) {
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            notes_add(gathering->notes, message->err, number, message->payload, message->len);
            gathering->result.failed = true;
        } else if (message->offset > lane->reached) {
            lane->reached = message->offset;
            gathering->result.moved = true;
        }
    } else if (message->offset >= lane->position) {
        int64_t size = (int64_t)(message->len + message->key_len);
        bool fits = gathering->result.rows == 0 || gathering->bytes + size <= gathering->limits.max_bytes;
        if (message->offset >= lane->stop || is_full(gathering) || !fits) {
            if (!fits) {
                gathering->bytes = gathering->limits.max_bytes; /* the batch is closed, or order would suffer */
            }
            return false;
        }
        size += (int64_t)columns_append(gathering->columns, message, lane->topic, lane->topic_size);
        gathering->bytes += size;
        gathering->result.rows++;
        gathering->result.moved = true;
        lane->position = message->offset + 1;
        if (lane->reached < lane->position) {
            lane->reached = lane->position;
        }
    }
    rdkafka.message_destroy(message);
    return true;
}

/* Takes a lane's turn; true: messages went from it. */
static bool take_turn(Gathering *gathering, Lane *lane, int number, rd_kafka_message_t **scratch) {
    if (lane->broken) {
        return false;
    }
    rd_kafka_message_t **messages = lane->kept;
    size_t count = lane->kept_count;
    if (count == 0) {
        int64_t range = lane->stop - lane->reached;
        int64_t room = gathering->limits.max_rows - gathering->result.rows;
        int64_t most = range < room ? range : room;
        if (most > 0) {
            ssize_t got = rdkafka.consume_batch_queue(lane->queue, 0, scratch, most < CHUNK ? (size_t)most : CHUNK);
            count = got > 0 ? (size_t)got : 0;
        }
        messages = scratch;
    }
    size_t placed = 0;
    while (placed < count && place(gathering, lane, number, messages[placed])) {
        placed++;
    }
    size_t left = count - placed;
    if (messages == lane->kept) {
        memmove(lane->kept, lane->kept + placed, left * sizeof *messages);
    } else if (left > 0) {
        if (lane->kept == NULL) {
            lane->kept = malloc(CHUNK * sizeof *messages);
        }
        if (lane->kept == NULL) {
            const char *text = "no memory to keep messages for the next batch";
            notes_add(gathering->notes, OUT_OF_MEMORY, number, text, strlen(text));
            gathering->result.failed = true;
            lane->broken = true;
            for (size_t index = placed; index < count; index++) {
                rdkafka.message_destroy(messages[index]);
            }
            left = 0;
        } else {
            memcpy(lane->kept, messages + placed, left * sizeof *messages);
        }
    }
    lane->kept_count = left;
    if (left > 0 ? lane->kept[0]->offset >= lane->stop : lane->reached >= lane->stop) {
        lane->position = lane->stop;
        lane->wanted = false;
        gathering->result.moved = true;
    }
    return placed > 0;
}

static void serve_events(rd_kafka_queue_t *events, Notes *notes, rd_kafka_message_t **scratch) {
    ssize_t count = rdkafka.consume_batch_queue(events, 0, scratch, CHUNK);
    for (ssize_t index = 0; index < count; index++) {
        if (scratch[index]->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
            notes_add(notes, scratch[index]->err, -1, scratch[index]->payload, scratch[index]->len);
        }
        rdkafka.message_destroy(scratch[index]);
    }
}

Gathered lanes_gather(Lanes *lanes, rd_kafka_queue_t *events, Notes *notes, Columns *columns, Limits limits) {
    Gathering gathering = {.columns = columns, .notes = notes, .limits = limits};
    int64_t last = now_nanos();
    while (lanes_unfinished(lanes) > 0 && !gathering.result.failed && !is_full(&gathering)) {
        uint64_t seen = arrivals(&lanes->wake);
        bool went = false;
        serve_events(events, notes, lanes->scratch);
        for (size_t turn = 0; turn < lanes->count && !gathering.result.failed && !is_full(&gathering); turn++) {
            size_t number = (lanes->next + turn) % lanes->count;
            if (lanes->slots[number].wanted) {
                went |= take_turn(&gathering, &lanes->slots[number], (int)number, lanes->scratch);
            }
        }
        lanes->next = lanes->count > 0 ? (lanes->next + 1) % lanes->count : 0;
        if (went || lanes_unfinished(lanes) == 0) {
            last = now_nanos();
            continue;
        }
        int64_t patience = gathering.result.rows > 0 ? limits.linger_millis : limits.wait_millis;
        if (!wait_for_arrival(&lanes->wake, seen, last + patience * MILLI)) {
            break;
        }
    }
    return gathering.result;
}
