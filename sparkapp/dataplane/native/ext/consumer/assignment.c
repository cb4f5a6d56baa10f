#include "consumer.h"

#include <stdio.h>

enum { REFUSAL = 768 }; /* librdkafka accepts topic names of up to 512 bytes */

PartitionQueue *consumer_partition_queue(Consumer *self, long number) {
    if (number < 0 || (size_t)number >= self->queues.count || self->queues.slots[number].topic == NULL) {
        PyErr_Format(PyExc_IndexError, "no partition queue %ld", number);
        return NULL;
    }
    return &self->queues.slots[number];
}

static PyObject *change_assignment(Consumer *self, rd_kafka_topic_partition_list_t *list, bool add) {
    rd_kafka_error_t *error;
    Py_BEGIN_ALLOW_THREADS
    error = add ? rdkafka.incremental_assign(self->client.rk, list)
                : rdkafka.incremental_unassign(self->client.rk, list);
    Py_END_ALLOW_THREADS
    rdkafka.topic_partition_list_destroy(list);
    return client_answer(&self->client, error);
}

/* The number of a new partition queue, which receives messages; -1 with an error set. */
static int partition_queue_open(Consumer *self, const char *topic, int32_t partition, int64_t start) {
    int number = partition_queues_add(&self->queues, topic, partition, start);
    if (number == PARTITION_QUEUE_NO_MEMORY) {
        PyErr_NoMemory();
        return -1;
    }
    char refusal[REFUSAL];
    if (number == PARTITION_QUEUE_TAKEN) {
        snprintf(refusal, sizeof refusal, "%s [%d] is assigned already", topic, (int)partition);
        client_fail(&self->client, RD_KAFKA_RESP_ERR__CONFLICT, refusal, false);
        return -1;
    }
    PartitionQueue *queue = &self->queues.slots[number];
    queue->rkqu = rdkafka.queue_get_partition(self->client.rk, topic, partition);
    if (queue->rkqu == NULL) {
        partition_queue_clear(queue);
        snprintf(refusal, sizeof refusal, "no queue of partition %s [%d]", topic, (int)partition);
        client_fail(&self->client, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, refusal, false);
        return -1;
    }
    /* Before any message arrives, stops forwarding to the consumer's queue: see librdkafka's RD_KAFKA_Q_F_FWD_APP. */
    rdkafka.queue_forward(queue->rkqu, NULL);
    rdkafka.queue_cb_event_enable(queue->rkqu, wake_up, &self->queues.wake);
    return number;
}

/* Opens a partition queue for each position and starts fetching. False: an error is set, and the caller must clear the
 * queues of `numbers`. */
static bool open_all(Consumer *self, PyObject *positions, PyObject *numbers) {
    rd_kafka_topic_partition_list_t *list = rdkafka.topic_partition_list_new((int)PyList_GET_SIZE(positions));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(positions); index++) {
        const char *topic;
        int partition;
        long long start;
        PyObject *item = NULL;
        if (PyArg_ParseTuple(PyList_GET_ITEM(positions, index), "siL", &topic, &partition, &start)) {
            int number = partition_queue_open(self, topic, partition, start);
            item = number < 0 ? NULL : PyLong_FromLong(number);
            if (number >= 0 && (item == NULL || PyList_Append(numbers, item) < 0)) {
                partition_queue_clear(&self->queues.slots[number]);
                Py_CLEAR(item);
            }
        }
        if (item == NULL) {
            rdkafka.topic_partition_list_destroy(list);
            return false;
        }
        Py_DECREF(item);
        rdkafka.topic_partition_list_add(list, topic, partition)->offset = start;
    }
    PyObject *done = change_assignment(self, list, true);
    Py_XDECREF(done);
    return done != NULL;
}

static PyObject *assign(Consumer *self, PyObject *positions) {
    PyObject *numbers = PyList_New(0);
    if (numbers != NULL && !open_all(self, positions, numbers)) {
        for (Py_ssize_t index = 0; index < PyList_GET_SIZE(numbers); index++) {
            partition_queue_clear(&self->queues.slots[PyLong_AsLong(PyList_GET_ITEM(numbers, index))]);
        }
        Py_CLEAR(numbers);
    }
    return numbers;
}

const char consumer_assign_doc[] =
    "assign(positions: list[tuple[str, int, int]]) -> list[int]\n\n"
    "Starts fetching partitions (topic, partition, offset); returns the number of each partition queue.";
PyObject *consumer_assign(Consumer *self, PyObject *positions) {
    if (!PyList_Check(positions)) {
        PyErr_SetString(PyExc_TypeError, "a list is needed");
        return NULL;
    }
    if (!client_enter(&self->client)) {
        return NULL;
    }
    PyObject *numbers = assign(self, positions);
    client_leave(&self->client);
    return numbers;
}

/* Lists the partition queues to remove; false with an error set. */
static bool list_leaving(Consumer *self, PyObject *numbers, rd_kafka_topic_partition_list_t *list) {
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(numbers); index++) {
        long number = PyLong_AsLong(PyList_GET_ITEM(numbers, index));
        PartitionQueue *queue = number == -1 && PyErr_Occurred() ? NULL : consumer_partition_queue(self, number);
        if (queue == NULL) {
            return false;
        }
        if (queue->leaving) { /* librdkafka aborts the process if a partition is listed twice */
            PyErr_Format(PyExc_IndexError, "partition queue %ld twice", number);
            return false;
        }
        queue->leaving = true;
        rdkafka.topic_partition_list_add(list, queue->topic, queue->partition);
    }
    return true;
}

static PyObject *unassign(Consumer *self, PyObject *numbers) {
    for (size_t index = 0; index < self->queues.count; index++) {
        self->queues.slots[index].leaving = false;
    }
    rd_kafka_topic_partition_list_t *list = rdkafka.topic_partition_list_new((int)PyList_GET_SIZE(numbers));
    if (!list_leaving(self, numbers, list)) {
        rdkafka.topic_partition_list_destroy(list);
        return NULL;
    }
    PyObject *done = change_assignment(self, list, false);
    for (size_t index = 0; done != NULL && index < self->queues.count; index++) {
        if (self->queues.slots[index].leaving) {
            partition_queue_clear(&self->queues.slots[index]);
        }
    }
    return done;
}

const char consumer_unassign_doc[] =
    "unassign(numbers: list[int])\n\nStops fetching and drops prefetched messages.";
PyObject *consumer_unassign(Consumer *self, PyObject *numbers) {
    if (!PyList_Check(numbers)) {
        PyErr_SetString(PyExc_TypeError, "a list is needed");
        return NULL;
    }
    if (!client_enter(&self->client)) {
        return NULL;
    }
    PyObject *done = unassign(self, numbers);
    client_leave(&self->client);
    return done;
}
