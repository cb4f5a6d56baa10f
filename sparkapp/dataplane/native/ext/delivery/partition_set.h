/* A set of partitions. Delivery reports come in runs of one partition, so most additions compare with the last one only. */
#ifndef KAFKASPARK_PARTITION_SET_H
#define KAFKASPARK_PARTITION_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdkafka.h"

typedef struct {
    rd_kafka_topic_t *rkt; /* NULL: none */
    int32_t partition;
} PartitionOfTopic;

/* All zero is the empty set. A client has one rkt for each topic, and keeps it until its handles are destroyed. */
typedef struct {
    PartitionOfTopic last;
    PartitionOfTopic *slots; /* open addressing; at most half of them are taken */
    size_t capacity;         /* 0 or a power of two */
    size_t count;
} PartitionSet;

/* Adds a partition that is not the last one; only called by partition_set_add(). */
bool partition_set_insert(PartitionSet *set, PartitionOfTopic added);

/* Adds a partition. False: no memory, and the set is as before. */
static inline bool partition_set_add(PartitionSet *set, rd_kafka_topic_t *rkt, int32_t partition) {
    return (set->last.rkt == rkt && set->last.partition == partition) ||
           partition_set_insert(set, (PartitionOfTopic){rkt, partition});
}

/* Empties the set and frees its memory. */
void partition_set_free(PartitionSet *set);

#endif
