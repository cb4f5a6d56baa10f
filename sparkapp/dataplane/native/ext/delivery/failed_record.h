/* As much of a record that was not delivered as tells it from others. */
#ifndef KAFKASPARK_FAILED_RECORD_H
#define KAFKASPARK_FAILED_RECORD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "input.h"
#include "rdkafka.h"
#include "topics.h"

enum { KEY_KEPT = 256 };

typedef struct {
    char topic[LONGEST_TOPIC + 1]; /* empty: nothing is known */
    int32_t partition;             /* negative: not chosen yet */
    int64_t key_size, value_size;  /* negative: null */
    uint32_t value_crc;
    bool is_bystander;     /* another record of its batch is at fault */
    uint8_t key[KEY_KEPT]; /* the first bytes */
} FailedRecord;

void failed_record_keep(FailedRecord *record, Bytes topic, int32_t partition, Bytes key, Bytes value);
void failed_record_keep_message(FailedRecord *record, const rd_kafka_message_t *message);

/* Whether a later failure with the same code tells more: a record at fault, or a larger record. */
bool failed_record_is_better(const FailedRecord *kept, const rd_kafka_message_t *message);

/* (topic, partition, first bytes of the key or None, size of the key, size of the value, CRC of the value), or None.
 * The sizes are negative for null. */
PyObject *failed_record_take(const FailedRecord *record);

#endif
