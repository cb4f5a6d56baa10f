#include "run.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 1024 }; /* in a call of librdkafka; delivery reports are served between two calls */

static bool has_memory(Run *run) {
    if (run->messages == NULL) {
        run->order = malloc(RUN_ROWS * sizeof *run->order);
        run->partitions = malloc(RUN_ROWS * sizeof *run->partitions);
        run->messages = malloc(MESSAGES * sizeof *run->messages);
    }
    if (run->order == NULL || run->partitions == NULL || run->messages == NULL) {
        run_free(run);
        return false;
    }
    return true;
}

void run_sort(Run *run, const Input *input, int64_t first, Choice choice) {
    int64_t end = (first / RUN_ROWS + 1) * RUN_ROWS;
    int32_t rows = (int32_t)((end < input->rows ? end : input->rows) - first);
    run_drop(run);
    if (choice.partitions <= 0 || choice.sticky < 0 || rows <= 0 || input->topic.present || input->partition.present ||
        input->timestamp.present || input->headers.present || !has_memory(run)) {
        return;
    }
    int32_t *positions = calloc((size_t)choice.partitions + 1, sizeof *positions); /* the next of each partition */
    if (positions == NULL) {
        return;
    }
    for (int32_t row = 0; row < rows; row++) {
        run->partitions[row] = partitioner_of(choice, bytes_at(&input->key, first + row));
        positions[run->partitions[row] + 1]++;
    }
    for (int32_t partition = 0; partition < choice.partitions; partition++) {
        positions[partition + 1] += positions[partition];
    }
    for (int32_t row = 0; row < rows; row++) {
        run->order[positions[run->partitions[row]]++] = row;
    }
    free(positions);
    run->first = first;
    run->count = rows;
}

int run_produce(Run *run, const Input *input, rd_kafka_topic_t *rkt) {
    int32_t partition = run->partitions[run->order[run->next]];
    int count = 0;
    while (count < MESSAGES && run->next + count < run->count) {
        int32_t row = run->order[run->next + count];
        if (run->partitions[row] != partition) {
            break;
        }
        Bytes key = bytes_at(&input->key, run->first + row);
        Bytes value = bytes_at(&input->value, run->first + row);
        run->messages[count++] = (rd_kafka_message_t){
            .payload = (void *)value.data, .len = value.size, .key = (void *)key.data, .key_len = key.size};
    }
    int queued = rdkafka.produce_batch(rkt, partition, RD_KAFKA_MSG_F_COPY, run->messages, count);
    int accepted = queued == count ? count : 0;
    while (accepted < count && run->messages[accepted].err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        accepted++;
    }
    run->next += accepted;
    return accepted == count ? RD_KAFKA_RESP_ERR_NO_ERROR : run->messages[accepted].err;
}

void run_drop(Run *run) { run->count = run->next = 0; }

void run_free(Run *run) {
    free(run->order);
    free(run->partitions);
    free(run->messages);
    memset(run, 0, sizeof *run);
}
