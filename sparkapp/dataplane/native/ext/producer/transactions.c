#include <string.h>

#include "producer.h"

static PyObject *transaction_step(Producer *self, PyObject *argument,
                                  rd_kafka_error_t *(*step)(rd_kafka_t *, int)) {
    long wait_millis = PyLong_AsLong(argument);
    if ((wait_millis == -1 && PyErr_Occurred()) || !client_enter(&self->client)) {
        return NULL;
    }
    rd_kafka_error_t *error;
    Py_BEGIN_ALLOW_THREADS
    error = step(self->client.rk, (int)wait_millis);
    Py_END_ALLOW_THREADS
    PyObject *answer = client_answer(&self->client, error);
    client_leave(&self->client);
    return answer;
}

/* librdkafka looks for the coordinator at once, and retries after half a second if no broker is connected. Therefore
 * this waits for a connection first. It asks twice: the first metadata response closes the bootstrap connection. */
static rd_kafka_error_t *connect_and_init(rd_kafka_t *rk, int wait_millis) {
    for (int time = 0; time < 2; time++) {
        const rd_kafka_metadata_t *metadata = NULL;
        if (rdkafka.metadata(rk, 0, NULL, &metadata, wait_millis) != RD_KAFKA_RESP_ERR_NO_ERROR) {
            break; /* init_transactions returns the error */
        }
        rdkafka.metadata_destroy(metadata);
    }
    return rdkafka.init_transactions(rk, wait_millis);
}

PyObject *producer_init_transactions(Producer *self, PyObject *argument) {
    return transaction_step(self, argument, connect_and_init);
}

PyObject *producer_commit_transaction(Producer *self, PyObject *argument) {
    return transaction_step(self, argument, rdkafka.commit_transaction);
}

PyObject *producer_abort_transaction(Producer *self, PyObject *argument) {
    return transaction_step(self, argument, rdkafka.abort_transaction);
}

PyObject *producer_begin_transaction(Producer *self, PyObject *nothing) {
    if (!client_enter(&self->client)) {
        return NULL;
    }
    PyObject *answer = client_answer(&self->client, rdkafka.begin_transaction(self->client.rk));
    client_leave(&self->client);
    return answer;
}

/* A list of (topic, partition, offset) with the same metadata text for all; NULL with an error set. */
static rd_kafka_topic_partition_list_t *offsets_of(PyObject *offsets, const char *metadata, size_t size) {
    rd_kafka_topic_partition_list_t *list = rdkafka.topic_partition_list_new((int)PyList_GET_SIZE(offsets));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(offsets); index++) {
        const char *topic;
        int partition;
        long long offset;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(offsets, index), "siL", &topic, &partition, &offset)) {
            rdkafka.topic_partition_list_destroy(list);
            return NULL;
        }
        rd_kafka_topic_partition_t *item = rdkafka.topic_partition_list_add(list, topic, partition);
        item->offset = offset;
        item->metadata = rdkafka.mem_malloc(NULL, size + 1); /* owned by the list, freed by librdkafka's free() */
        memcpy(item->metadata, metadata, size + 1);
        /* Includes the NUL: librdkafka copies this many bytes, and applies strlen() to the copy in the request.
         * Without the NUL, the group's metadata would end with the bytes after the copy in memory. */
        item->metadata_size = size + 1;
    }
    return list;
}

const char producer_send_offsets_doc[] =
    "send_offsets(offsets: list[tuple[str, int, int]], metadata, group_id, wait_millis)\n\n"
    "Adds (topic, partition, next offset) of a group to the transaction.";
PyObject *producer_send_offsets(Producer *self, PyObject *arguments) {
    PyObject *offsets;
    const char *metadata, *group_id;
    Py_ssize_t metadata_size;
    int wait_millis;
    if (!PyArg_ParseTuple(arguments, "O!s#si", &PyList_Type, &offsets, &metadata, &metadata_size, &group_id,
                          &wait_millis) ||
        !client_enter(&self->client)) {
        return NULL;
    }
    PyObject *answer = NULL;
    rd_kafka_topic_partition_list_t *list = offsets_of(offsets, metadata, (size_t)metadata_size);
    if (list != NULL) {
        rd_kafka_error_t *error;
        Py_BEGIN_ALLOW_THREADS
        rd_kafka_consumer_group_metadata_t *group = rdkafka.consumer_group_metadata_new(group_id);
        error = rdkafka.send_offsets_to_transaction(self->client.rk, list, group, wait_millis);
        rdkafka.consumer_group_metadata_destroy(group);
        rdkafka.topic_partition_list_destroy(list);
        Py_END_ALLOW_THREADS
        answer = client_answer(&self->client, error);
    }
    client_leave(&self->client);
    return answer;
}
