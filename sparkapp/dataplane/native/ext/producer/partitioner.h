/* Chooses the partitions of records as Java's clients do, and tells how many partitions a topic has. */
#ifndef KAFKASPARK_PARTITIONER_H
#define KAFKASPARK_PARTITIONER_H

#include "input.h"
#include "rdkafka.h"

/* What librdkafka's last call of the partitioner in this thread told about a topic. */
typedef struct {
    int32_t partitions; /* 0: no call */
    int32_t sticky;     /* the partition of records without key; -1: none is chosen */
} Choice;

/* Forgets the partition of records without key, so that the next record chooses another. */
void partitioner_move_on(void);

/* Forgets the number of partitions. Called before a record is produced, to find out whether it was asked about. */
void partitioner_forget(void);

/* The choice of this thread. librdkafka calls the partitioner in its own thread for records that waited for the
 * topic's metadata; those calls do not count. */
Choice partitioner_choice(void);

/* librdkafka's callback. A key has the partition that murmur2_random gives it. Records without key stay on an available
 * partition until partitioner_move_on(). */
rd_kafka_partitioner_cb partitioner_call;

/* The partition of a key, from a choice with partitions. */
int32_t partitioner_of(Choice choice, Bytes key);

#endif
