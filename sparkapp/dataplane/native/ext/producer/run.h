/* Rows of an input in the order of their partitions. librdkafka takes the rows of a partition together, for a fifth less
 * CPU time than row by row: a row by itself costs it a look-up of the partition and of the leader. */
#ifndef KAFKASPARK_RUN_H
#define KAFKASPARK_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "input.h"
#include "partitioner.h"
#include "rdkafka.h"

/* Also the rows without key that stay on a partition: librdkafka's own choice lasts about as long under load. */
enum { RUN_ROWS = 16384 };

typedef struct {
    int64_t first;         /* row of the input */
    int32_t count, next;   /* positions; those before `next` are queued */
    int32_t *order;        /* of each position: its row, counted from `first` */
    int32_t *partitions;   /* of each row, counted from `first` */
    rd_kafka_message_t *messages;
} Run;

/* Sorts the rows from `first` to the next multiple of RUN_ROWS. Rows of a partition keep their order. The run stays empty
 * without memory, and unless all rows leave topic and partition to the choice and have only key and value. */
void run_sort(Run *run, const Input *input, int64_t first, Choice choice);

/* Queues rows of the next partition. Returns librdkafka's error for the row at position `next`, or 0. */
int run_produce(Run *run, const Input *input, rd_kafka_topic_t *rkt);

static inline bool run_is_open(const Run *run) { return run->next < run->count; }
static inline int64_t run_position(const Run *run) { return run->first + run->next; }
static inline int64_t run_row(const Run *run) { return run->first + run->order[run->next]; }

/* Forgets the rows. */
void run_drop(Run *run);
void run_free(Run *run);

#endif
