/* Partitions of a consumer, each with its own queue, and the gathering of their messages into columns. */
#ifndef KAFKASPARK_LANES_H
#define KAFKASPARK_LANES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "columns.h"
#include "notes.h"
#include "rdkafka.h"

typedef struct {
    char *topic; /* NULL: the slot is free */
    size_t topic_size;
    int32_t partition;
    rd_kafka_queue_t *queue;
    int64_t position; /* next offset that the caller has not got */
    int64_t stop;     /* where the current read ends */
    int64_t reached;  /* every record below has left the queue, or never was one */
    bool leaving;     /* unassign() names it */
    bool wanted;      /* the current read is not through with it */
    rd_kafka_message_t **kept; /* taken from the queue, but beyond a stop or a full batch */
    size_t kept_count;
    bool broken; /* messages are lost for want of memory: nothing more is taken, and no read gets to its stop */
} Lane;

/* Tells a waiting reader that something arrived in one of the queues. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t arrivals;
} Wake;

typedef struct {
    Lane *slots;
    size_t count;
    size_t next; /* the lane that is looked at first, for fairness */
    Wake wake;
    rd_kafka_message_t **scratch;
    double bytes_a_row; /* of earlier batches, to size the next one */
} Lanes;

typedef struct {
    int64_t max_rows;
    int64_t max_bytes;
    int64_t wait_millis;   /* for a first row, or any other progress */
    int64_t linger_millis; /* for another row, once there is one */
} Limits;

typedef struct {
    int64_t rows;
    bool moved;  /* a partition went on, with or without a row */
    bool failed; /* a partition reported an error or lost messages, which is in the notes */
} Gathered;

bool lanes_init(Lanes *lanes);
void lanes_destroy(Lanes *lanes);

/* Instead of a lane's number. */
enum { LANE_NO_MEMORY = -1, LANE_TAKEN = -2 };

/* The number of a new lane, whose queue must then be set. LANE_TAKEN: the partition has a lane already; a second one
 * would share its queue, and take the wake-up with it when it goes. */
int lanes_add(Lanes *lanes, const char *topic, int32_t partition, int64_t start);

/* Gives the lane's queue and messages back and frees its slot. */
void lane_clear(Lane *lane);

/* Number of lanes that the current read still waits for. */
size_t lanes_unfinished(const Lanes *lanes);

/* Librdkafka calls it when an empty queue gets something; `opaque` is the Wake. */
void wake_up(rd_kafka_t *rk, void *opaque);

/* Moves messages from the wanted lanes to the columns until a limit is met, every lane is at its stop, a partition
 * reports an error, or nothing comes. Serves `events`, the client's own queue, too. Runs without the GIL. */
Gathered lanes_gather(Lanes *lanes, rd_kafka_queue_t *events, Notes *notes, Columns *columns, Limits limits);

#endif
