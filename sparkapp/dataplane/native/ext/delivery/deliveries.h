/* What a producer's delivery reports have told: counts, the first failure, and the partitions. */
#ifndef KAFKASPARK_DELIVERIES_H
#define KAFKASPARK_DELIVERIES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "failed_record.h"
#include "partition_set.h"
#include "rdkafka.h"

enum { FAILURE_TEXT = 256 };

typedef struct {
    long long acknowledged;
    long long failed;
    int first_code;
    char first_text[FAILURE_TEXT];
    FailedRecord first; /* or another record that is at fault for it */
    PartitionSet partitions; /* complete unless a failure says that memory was missing */
} Deliveries;

/* Counts a report. A partition is kept also where the delivery failed: the record may have been written. */
void deliveries_count(Deliveries *deliveries, const rd_kafka_message_t *message);

/* Counts a failure. Its record is NULL where none is known. */
void deliveries_fail(Deliveries *deliveries, int code, const char *text, const FailedRecord *record);

/* (acknowledged, failed, code, text, record) of the reports since the last call; then reset. */
PyObject *deliveries_take(Deliveries *deliveries);

/* A list of the partitions since the last call, as (topic, partition); then reset. The topics' handles must be there. */
PyObject *deliveries_take_partitions(Deliveries *deliveries);

#endif
