/* Produces the rows of an input through librdkafka. */
#ifndef KAFKASPARK_PRODUCE_H
#define KAFKASPARK_PRODUCE_H

#include <stdint.h>

#include "input.h"
#include "rdkafka.h"
#include "run.h"
#include "topics.h"

typedef struct {
    int64_t next; /* where the next call begins: as many rows are queued */
    int code;     /* error of a row; 0: all rows are queued, or the queue stayed full for the whole wait */
    int64_t refused; /* that row */
    char text[256];
} Produced;

/* A row's own topic, or the default topic. */
static inline Bytes topic_at(const Input *input, int64_t row, Bytes default_topic) {
    Bytes name = bytes_at(&input->topic, row);
    return name.data == NULL ? default_topic : name;
}

/* Produces rows from `first` on, in order within their partitions. `run` holds the order between two calls for the same
 * input, and must be dropped before another input. While the queue is full it waits up to `wait_millis` and serves delivery
 * reports. librdkafka copies the records. Runs without the GIL. */
Produced produce_rows(rd_kafka_t *rk, Topics *topics, Run *run, const Input *input, Bytes default_topic,
                      int64_t first, int wait_millis);

#endif
