#include "produce.h"

#include <stdio.h>
#include <string.h>

enum {
    ROWS_A_POLL = 4096, /* between two polls, so that delivery reports do not accumulate */
    INVALID_TOPIC = 17, /* Kafka's INVALID_TOPIC_EXCEPTION */
    NO_MEMORY = -200,   /* librdkafka's _FAIL: it has no error code for missing memory */
};

/* A row with value and key only, the common case. */
static int produce_plain(rd_kafka_topic_t *rkt, int32_t partition, Bytes key, Bytes value) {
    int refused = rdkafka.produce(rkt, partition, RD_KAFKA_MSG_F_COPY, (void *)value.data, value.size, key.data,
                                  key.size, NULL);
    return refused == 0 ? 0 : rdkafka.last_error();
}

static rd_kafka_headers_t *headers_of(const HeadersInput *input, int64_t first, int64_t end) {
    rd_kafka_headers_t *headers = rdkafka.headers_new((size_t)(end - first));
    for (int64_t number = first; headers != NULL && number < end; number++) {
        if (!header_is_at(input, number)) {
            continue;
        }
        Bytes name = header_key_at(input, number);
        Bytes value = header_value_at(input, number);
        rdkafka.header_add(headers, name.data == NULL ? "" : (const char *)name.data, (ssize_t)name.size, value.data,
                           (ssize_t)value.size);
    }
    return headers;
}

/* A row with headers or a timestamp. */
static int produce_full(rd_kafka_t *rk, const Input *input, int64_t row, rd_kafka_topic_t *rkt, int32_t partition,
                        Bytes key, Bytes value, Produced *produced) {
    rd_kafka_vu_t fields[7] = {
        {.vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = rkt},
        {.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = partition},
        {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
        {.vtype = RD_KAFKA_VTYPE_KEY, .u.mem = {(void *)key.data, key.size}},
        {.vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = {(void *)value.data, value.size}},
    };
    size_t count = 5;
    int64_t timestamp, first_header, end_header;
    if (int64_at(&input->timestamp, row, &timestamp)) {
        fields[count++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = timestamp};
    }
    rd_kafka_headers_t *headers = NULL;
    headers_at(&input->headers, row, &first_header, &end_header);
    if (end_header > first_header) {
        headers = headers_of(&input->headers, first_header, end_header);
        if (headers == NULL) {
            return NO_MEMORY;
        }
        fields[count++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers};
    }
    rd_kafka_error_t *error = rdkafka.produceva(rk, fields, count);
    if (error == NULL) {
        return 0;
    }
    int code = rdkafka.error_code(error);
    snprintf(produced->text, sizeof produced->text, "%s", rdkafka.error_string(error));
    rdkafka.error_destroy(error);
    if (headers != NULL) {
        rdkafka.headers_destroy(headers); /* librdkafka owns them only if it accepted the record */
    }
    return code;
}

static int produce_row(rd_kafka_t *rk, Topics *topics, const Input *input, Bytes default_topic, int64_t row,
                       Produced *produced) {
    Bytes name = topic_at(input, row, default_topic);
    rd_kafka_topic_t *rkt = topics_get(topics, rk, name.data, name.size);
    if (rkt == NULL) {
        snprintf(produced->text, sizeof produced->text, "no topic can be named '%.*s'",
                 name.size > LONGEST_TOPIC ? LONGEST_TOPIC : (int)name.size, (const char *)name.data);
        return INVALID_TOPIC;
    }
    int32_t partition = RD_KAFKA_PARTITION_UA;
    int32_at(&input->partition, row, &partition);
    Bytes key = bytes_at(&input->key, row);
    Bytes value = bytes_at(&input->value, row);
    if (input->headers.present || input->timestamp.present) {
        return produce_full(rk, input, row, rkt, partition, key, value, produced);
    }
    return produce_plain(rkt, partition, key, value);
}

/* Queues the next row, or the next rows of a run. Returns librdkafka's error for the first row that it refuses, or 0. */
static int produce_next(rd_kafka_t *rk, Topics *topics, Run *run, const Input *input, Bytes default_topic,
                        Produced *produced) {
    if (run_is_open(run)) {
        produced->refused = run_row(run);
        int code = run_produce(run, input, topics_get(topics, rk, default_topic.data, default_topic.size));
        produced->next = run_position(run);
        if (code != 0 && run_is_open(run)) {
            produced->refused = run_row(run);
        }
        return code;
    }
    if (produced->next % RUN_ROWS == 0) {
        partitioner_move_on();
    }
    partitioner_forget();
    produced->refused = produced->next;
    int code = produce_row(rk, topics, input, default_topic, produced->next, produced);
    if (code == 0) {
        run_sort(run, input, ++produced->next, partitioner_choice());
    }
    return code;
}

Produced produce_rows(rd_kafka_t *rk, Topics *topics, Run *run, const Input *input, Bytes default_topic,
                      int64_t first, int wait_millis) {
    Produced produced = {.next = first};
    bool waited = false;
    int64_t polled = first;
    while (produced.next < input->rows) {
        int code = produce_next(rk, topics, run, input, default_topic, &produced);
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            /* Only served delivery reports make room in the queue. poll() returns after the first reports. */
            if (waited && rdkafka.poll(rk, 0) == 0) {
                break;
            }
            waited = rdkafka.poll(rk, wait_millis) == 0;
            continue;
        }
        if (code != 0) {
            produced.code = code;
            if (produced.text[0] == '\0') {
                snprintf(produced.text, sizeof produced.text, "%s", rdkafka.err2str(code));
            }
            break;
        }
        waited = false;
        if (produced.next - polled >= ROWS_A_POLL) {
            polled = produced.next;
            rdkafka.poll(rk, 0);
        }
    }
    rdkafka.poll(rk, 0);
    return produced;
}
