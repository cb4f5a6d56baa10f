/* Topic handles of a producer by name; a handle saves librdkafka the look-up for each record. */
#ifndef KAFKASPARK_TOPICS_H
#define KAFKASPARK_TOPICS_H

#include <stddef.h>

#include "rdkafka.h"

enum { TOPIC_BUCKETS = 256, LONGEST_TOPIC = 249 };

typedef struct TopicHandle {
    struct TopicHandle *next;
    rd_kafka_topic_t *rkt;
    size_t size;
    char name[]; /* NUL-terminated */
} TopicHandle;

typedef struct {
    TopicHandle *buckets[TOPIC_BUCKETS];
    TopicHandle *last; /* most batches have a single topic */
} Topics;

/* The handle of a name, created at its first use; NULL: no topic can have the name, or no memory. */
rd_kafka_topic_t *topics_get(Topics *topics, rd_kafka_t *rk, const void *name, size_t size);

/* Destroys the handles; must be called before the client is closed. */
void topics_clear(Topics *topics);

#endif
