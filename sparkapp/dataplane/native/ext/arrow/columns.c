#include "columns.h"

#include <string.h>

#include "export.h"
#include "utf8.h"

enum { MICROS_PER_MILLI = 1000 };

static bool wants(const Columns *columns, int column) { return columns->mask & 1u << column; }

static void bytes_begin(BytesColumn *column, int64_t rows, size_t data) {
    const int32_t zero = 0;
    /* Sized at once: the number of rows is known, and values are about as long as in earlier batches. */
    buffer_grow(&column->offsets, (size_t)(rows + 1) * sizeof zero);
    buffer_append(&column->offsets, &zero, sizeof zero);
    if (data > 0) {
        buffer_grow(&column->data, data);
    }
}

static void bytes_append(BytesColumn *column, const void *data, size_t size) {
    if (data != NULL) {
        buffer_append(&column->data, data, size);
    }
    int32_t end = (int32_t)column->data.length;
    buffer_append(&column->offsets, &end, sizeof end);
    validity_append(&column->validity, data != NULL);
}

static void bytes_free(BytesColumn *column) {
    buffer_free(&column->validity.bits);
    buffer_free(&column->offsets);
    buffer_free(&column->data);
}

static void int32_append(FixedColumn *column, int32_t value) {
    buffer_append(&column->values, &value, sizeof value);
    validity_append(&column->validity, true);
}

static void int64_append(FixedColumn *column, int64_t value, bool valid) {
    buffer_append(&column->values, &value, sizeof value);
    validity_append(&column->validity, valid);
}

static void fixed_free(FixedColumn *column) {
    buffer_free(&column->validity.bits);
    buffer_free(&column->values);
}

void columns_begin(Columns *columns, unsigned mask, int64_t rows, size_t value_bytes) {
    const int32_t zero = 0;
    memset(columns, 0, sizeof *columns);
    columns->mask = mask;
    if (wants(columns, COLUMN_KEY)) {
        bytes_begin(&columns->key, rows, 0);
    }
    if (wants(columns, COLUMN_VALUE)) {
        bytes_begin(&columns->value, rows, value_bytes);
    }
    if (wants(columns, COLUMN_TOPIC)) {
        bytes_begin(&columns->topic, rows, 0);
    }
    if (wants(columns, COLUMN_HEADERS)) {
        buffer_append(&columns->list_offsets, &zero, sizeof zero);
        bytes_begin(&columns->header_key, 0, 0);
        bytes_begin(&columns->header_value, 0, 0);
    }
}

static size_t headers_append(Columns *columns, const rd_kafka_message_t *message) {
    rd_kafka_headers_t *headers = NULL;
    size_t before = columns->header_key.data.length + columns->header_value.data.length;
    int64_t first = columns->headers;
    if (rdkafka.message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const char *name;
        const void *value;
        size_t size;
        for (size_t index = 0; rdkafka.header_get_all(headers, index, &name, &value, &size) == 0; index++) {
            utf8_append(&columns->header_key.data, name, strlen(name));
            int32_t end = (int32_t)columns->header_key.data.length;
            buffer_append(&columns->header_key.offsets, &end, sizeof end);
            validity_append(&columns->header_key.validity, true);
            bytes_append(&columns->header_value, value, size);
            columns->headers++;
        }
    }
    int32_t end = (int32_t)columns->headers;
    buffer_append(&columns->list_offsets, &end, sizeof end);
    /* As in Spark's own source, a record without headers has null, not an empty list. */
    validity_append(&columns->list_validity, columns->headers > first);
    return columns->header_key.data.length + columns->header_value.data.length - before;
}

size_t columns_append(Columns *columns, const rd_kafka_message_t *message, const char *topic, size_t topic_size) {
    size_t header_bytes = 0;
    if (wants(columns, COLUMN_VALUE)) {
        bytes_append(&columns->value, message->payload, message->len);
    }
    if (wants(columns, COLUMN_KEY)) {
        bytes_append(&columns->key, message->key, message->key_len);
    }
    if (wants(columns, COLUMN_TOPIC)) {
        bytes_append(&columns->topic, topic, topic_size);
    }
    if (wants(columns, COLUMN_PARTITION)) {
        int32_append(&columns->partition, message->partition);
    }
    if (wants(columns, COLUMN_OFFSET)) {
        int64_append(&columns->offset, message->offset, true);
    }
    if (wants(columns, COLUMN_TIMESTAMP) || wants(columns, COLUMN_TIMESTAMP_TYPE)) {
        int type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        int64_t millis = rdkafka.message_timestamp(message, &type);
        if (wants(columns, COLUMN_TIMESTAMP)) {
            int64_t micros = 0;
            /* Null without a timestamp, and where microseconds overflow the column (in the year 294,247). */
            bool known = type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE &&
                         !__builtin_mul_overflow(millis, (int64_t)MICROS_PER_MILLI, &micros);
            int64_append(&columns->timestamp, known ? micros : 0, known);
        }
        if (wants(columns, COLUMN_TIMESTAMP_TYPE)) {
            /* Spark and Kafka: -1 none, 0 create time, 1 append time; librdkafka's values are higher by 1. */
            int32_append(&columns->timestamp_type, type - 1);
        }
    }
    if (wants(columns, COLUMN_HEADERS)) {
        header_bytes = headers_append(columns, message);
    }
    columns->rows++;
    return header_bytes;
}

static bool bytes_finish(BytesColumn *column, int64_t rows, struct ArrowArray *array) {
    Buffer buffers[] = {column->validity.bits, column->offsets, column->data};
    int64_t nulls = column->validity.nulls;
    memset(column, 0, sizeof *column);
    return export_array(array, rows, nulls, buffers, 3, NULL, 0);
}

static bool fixed_finish(FixedColumn *column, int64_t rows, struct ArrowArray *array) {
    Buffer buffers[] = {column->validity.bits, column->values};
    int64_t nulls = column->validity.nulls;
    memset(column, 0, sizeof *column);
    return export_array(array, rows, nulls, buffers, 2, NULL, 0);
}

static bool headers_finish(Columns *columns, struct ArrowArray *array) {
    struct ArrowArray fields[2], structs;
    Buffer none = {0};
    if (!bytes_finish(&columns->header_key, columns->headers, &fields[0])) {
        return false;
    }
    if (!bytes_finish(&columns->header_value, columns->headers, &fields[1])) {
        fields[0].release(&fields[0]);
        return false;
    }
    if (!export_array(&structs, columns->headers, 0, &none, 1, fields, 2)) {
        return false;
    }
    Buffer buffers[] = {columns->list_validity.bits, columns->list_offsets};
    memset(&columns->list_validity.bits, 0, sizeof none);
    memset(&columns->list_offsets, 0, sizeof none);
    return export_array(array, columns->rows, columns->list_validity.nulls, buffers, 2, &structs, 1);
}

bool columns_finish(Columns *columns, int column, struct ArrowArray *array) {
    switch (column) {
    case COLUMN_KEY:
        return bytes_finish(&columns->key, columns->rows, array);
    case COLUMN_VALUE:
        return bytes_finish(&columns->value, columns->rows, array);
    case COLUMN_TOPIC:
        return bytes_finish(&columns->topic, columns->rows, array);
    case COLUMN_PARTITION:
        return fixed_finish(&columns->partition, columns->rows, array);
    case COLUMN_OFFSET:
        return fixed_finish(&columns->offset, columns->rows, array);
    case COLUMN_TIMESTAMP:
        return fixed_finish(&columns->timestamp, columns->rows, array);
    case COLUMN_TIMESTAMP_TYPE:
        return fixed_finish(&columns->timestamp_type, columns->rows, array);
    default:
        return headers_finish(columns, array);
    }
}

void columns_free(Columns *columns) {
    bytes_free(&columns->key);
    bytes_free(&columns->value);
    bytes_free(&columns->topic);
    fixed_free(&columns->partition);
    fixed_free(&columns->offset);
    fixed_free(&columns->timestamp);
    fixed_free(&columns->timestamp_type);
    buffer_free(&columns->list_validity.bits);
    buffer_free(&columns->list_offsets);
    bytes_free(&columns->header_key);
    bytes_free(&columns->header_value);
}
