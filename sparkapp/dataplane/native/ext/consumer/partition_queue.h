/* The partition queues of a consumer, and the gathering of their messages into columns. */
#ifndef KAFKASPARK_PARTITION_QUEUE_H
#define KAFKASPARK_PARTITION_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client_errors.h"
#include "columns.h"
#include "rdkafka.h"

typedef struct {
    char *topic; /* NULL: the slot is free */
    size_t topic_size;
    int32_t partition;
    rd_kafka_queue_t *rkqu;
    int64_t position; /* next offset for the caller */
    int64_t stop;     /* end of the current read */
    int64_t reached;  /* every record below has left the queue, or never existed */
    bool leaving;     /* listed by the current unassign() */
    bool wanted;      /* below its stop in the current read */
    rd_kafka_message_t **kept; /* owned; taken from the queue, but beyond a stop or a full batch */
    size_t kept_count;
    bool broken; /* messages were lost for lack of memory: no more are taken, and no read reaches its stop */
} PartitionQueue;

/* Wakes a waiting reader when a message arrives in any of the queues, when it is to hand over what it has, or when it is
 * interrupted for good. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t arrivals;
    bool called; /* the gathering under way, or the next, does not wait */
    bool interrupted;
} Wake;

typedef struct {
    PartitionQueue *slots;
    size_t count;
    size_t next; /* index of the queue that is served first, for fairness */
    Wake wake;
    rd_kafka_message_t **scratch;
    double bytes_a_row; /* of earlier batches, to size the next batch */
} PartitionQueues;

typedef struct {
    int64_t max_rows;
    int64_t max_bytes;
    int64_t wait_millis;   /* for the first row, or other progress */
    int64_t linger_millis; /* for another row after the first */
    bool from_start;       /* both count from the begin of the call, not from the last progress */
} Limits;

typedef struct {
    int64_t rows;
    bool moved;  /* a partition advanced, with or without a row */
    bool failed; /* a partition reported an error or lost messages; the client errors have it */
} Gathered;

bool partition_queues_init(PartitionQueues *queues);
void partition_queues_destroy(PartitionQueues *queues);

/* Results of partition_queues_add() in place of a number. */
enum { PARTITION_QUEUE_NO_MEMORY = -1, PARTITION_QUEUE_TAKEN = -2 };

/* The number of a new partition queue; the caller must set its rkqu. PARTITION_QUEUE_TAKEN: the partition has a queue
 * already. A second PartitionQueue would share its rkqu, and would remove the wake-up when it is cleared. */
int partition_queues_add(PartitionQueues *queues, const char *topic, int32_t partition, int64_t start);

/* Returns the rkqu and the kept messages to librdkafka, and frees the slot. */
void partition_queue_clear(PartitionQueue *queue);

/* Number of queues below their stop in the current read. */
size_t partition_queues_unfinished(const PartitionQueues *queues);

/* Called by librdkafka when an empty queue receives a message; `opaque` is the Wake. */
void wake_up(rd_kafka_t *rk, void *opaque);

/* Ends the wait of the gathering under way, or of the next; from any thread. */
void call(Wake *wake);

/* Ends the gathering under way and every later one at once; from any thread. */
void interrupt(Wake *wake);

/* Moves messages from the wanted queues to the columns. Returns at a limit, when every queue is at its stop, when a
 * partition reports an error, when no message arrives, or after interrupt(). Serves `events`, the client's own queue, too. Runs without
 * the GIL. */
Gathered partition_queues_gather(PartitionQueues *queues, rd_kafka_queue_t *events, ClientErrors *errors,
                                 Columns *columns, Limits limits);

#endif
