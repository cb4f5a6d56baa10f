/* Hands the rows of an input to librdkafka. */
#ifndef KAFKASPARK_OUTLET_H
#define KAFKASPARK_OUTLET_H

#include <stdint.h>

#include "input.h"
#include "rdkafka.h"
#include "topics.h"

typedef struct {
    int64_t next; /* the first row that was not taken */
    int code;     /* why that row was refused; 0: all rows are taken, or the queue stayed full for the whole wait */
    char text[256];
} Produced;

/* Produces rows from `first` on, each in its turn, waiting up to `wait_millis` whenever the queue is full, and serving
 * delivery reports meanwhile. The records are copied. Runs without the GIL. */
Produced outlet_produce(rd_kafka_t *rk, Topics *topics, const Input *input, Bytes default_topic, int64_t first,
                        int wait_millis);

#endif
