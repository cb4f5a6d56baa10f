/* Source columns, built row by row from messages and exported as Arrow arrays. */
#ifndef KAFKASPARK_COLUMNS_H
#define KAFKASPARK_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "arrow_abi.h"
#include "buffer.h"
#include "rdkafka.h"

/* In the order of SOURCE_SCHEMA; the bit of a column in a mask is 1 << its number. */
enum {
    COLUMN_KEY,
    COLUMN_VALUE,
    COLUMN_TOPIC,
    COLUMN_PARTITION,
    COLUMN_OFFSET,
    COLUMN_TIMESTAMP,
    COLUMN_TIMESTAMP_TYPE,
    COLUMN_HEADERS,
    COLUMN_COUNT,
};

typedef struct {
    Validity validity;
    Buffer offsets; /* int32, rows + 1 */
    Buffer data;
} BytesColumn;

typedef struct {
    Validity validity;
    Buffer values;
} FixedColumn;

typedef struct {
    unsigned mask;
    int64_t rows;
    BytesColumn key, value, topic;
    FixedColumn partition, offset, timestamp, timestamp_type;
    Validity list_validity;
    Buffer list_offsets;
    BytesColumn header_key, header_value;
    int64_t headers;
} Columns;

/* Starts empty columns for about `rows` rows; `value_bytes` is an estimate that saves reallocations. */
void columns_begin(Columns *columns, unsigned mask, int64_t rows, size_t value_bytes);

/* Appends a message to every column of the mask; returns the bytes of its headers. */
size_t columns_append(Columns *columns, const rd_kafka_message_t *message, const char *topic, size_t topic_size);

/* Moves a column into an array, which then owns it; the importer releases the array. False: out of memory, and the
 * array is not set. */
bool columns_finish(Columns *columns, int column, struct ArrowArray *array);

void columns_free(Columns *columns);

#endif
