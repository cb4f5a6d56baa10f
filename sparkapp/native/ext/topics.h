/* Topic handles of a producer by name; producing through a handle spares librdkafka the look-up for each record. */
#ifndef KAFKASPARK_TOPICS_H
#define KAFKASPARK_TOPICS_H

#include <stddef.h>

#include "rdkafka.h"

enum { TOPIC_BUCKETS = 256, LONGEST_TOPIC = 249 };

typedef struct TopicHandle {
    struct TopicHandle *next;
    rd_kafka_topic_t *rkt;
    size_t size;
    char name[]; /* with a NUL at the end */
} TopicHandle;

typedef struct {
    TopicHandle *buckets[TOPIC_BUCKETS];
    TopicHandle *last; /* most batches have one topic */
} Topics;

/* The handle of a name, made when it is first asked for; NULL: no such name can be, or no memory. */
rd_kafka_topic_t *topics_get(Topics *topics, rd_kafka_t *rk, const void *name, size_t size);

/* Gives the handles back, before the client ends. */
void topics_clear(Topics *topics);

#endif
