#include "consumer.h"

#include <stdio.h>

enum { REFUSAL = 768 }; /* librdkafka takes topics of up to 512 bytes */

Lane *consumer_lane(Consumer *self, long number) {
    if (number < 0 || (size_t)number >= self->lanes.count || self->lanes.slots[number].topic == NULL) {
        PyErr_Format(PyExc_IndexError, "no lane %ld", number);
        return NULL;
    }
    return &self->lanes.slots[number];
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

/* The number of a new lane that receives messages, or -1 with an error set. */
static int lane_open(Consumer *self, const char *topic, int32_t partition, int64_t start) {
    int number = lanes_add(&self->lanes, topic, partition, start);
    if (number == LANE_NO_MEMORY) {
        PyErr_NoMemory();
        return -1;
    }
    char refusal[REFUSAL];
    if (number == LANE_TAKEN) {
        snprintf(refusal, sizeof refusal, "%s [%d] is assigned already", topic, (int)partition);
        client_fail(&self->client, RD_KAFKA_RESP_ERR__CONFLICT, refusal, false);
        return -1;
    }
    Lane *lane = &self->lanes.slots[number];
    lane->queue = rdkafka.queue_get_partition(self->client.rk, topic, partition);
    if (lane->queue == NULL) {
        lane_clear(lane);
        snprintf(refusal, sizeof refusal, "no queue of partition %s [%d]", topic, (int)partition);
        client_fail(&self->client, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, refusal, false);
        return -1;
    }
    /* Taken from the consumer's queue before anything can come: see RD_KAFKA_Q_F_FWD_APP in librdkafka. */
    rdkafka.queue_forward(lane->queue, NULL);
    rdkafka.queue_cb_event_enable(lane->queue, wake_up, &self->lanes.wake);
    return number;
}

/* Opens a lane for each position and has librdkafka fetch them; false: an error is set, and lanes may be left. */
static bool open_all(Consumer *self, PyObject *positions, PyObject *numbers) {
    rd_kafka_topic_partition_list_t *list = rdkafka.topic_partition_list_new((int)PyList_GET_SIZE(positions));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(positions); index++) {
        const char *topic;
        int partition;
        long long start;
        PyObject *item = NULL;
        if (PyArg_ParseTuple(PyList_GET_ITEM(positions, index), "siL", &topic, &partition, &start)) {
            int number = lane_open(self, topic, partition, start);
            item = number < 0 ? NULL : PyLong_FromLong(number);
            if (number >= 0 && (item == NULL || PyList_Append(numbers, item) < 0)) {
                lane_clear(&self->lanes.slots[number]);
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
            lane_clear(&self->lanes.slots[PyLong_AsLong(PyList_GET_ITEM(numbers, index))]);
        }
        Py_CLEAR(numbers);
    }
    return numbers;
}

const char consumer_assign_doc[] =
    "assign(positions: list[tuple[str, int, int]]) -> list[int]\n\n"
    "Starts fetching partitions (topic, partition, offset); answers with a number for each.";
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

/* Lists the lanes that are to go; false with an error set. */
static bool list_leaving(Consumer *self, PyObject *numbers, rd_kafka_topic_partition_list_t *list) {
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(numbers); index++) {
        long number = PyLong_AsLong(PyList_GET_ITEM(numbers, index));
        Lane *lane = number == -1 && PyErr_Occurred() ? NULL : consumer_lane(self, number);
        if (lane == NULL) {
            return false;
        }
        if (lane->leaving) { /* librdkafka ends the process over a partition that is listed twice */
            PyErr_Format(PyExc_IndexError, "lane %ld twice", number);
            return false;
        }
        lane->leaving = true;
        rdkafka.topic_partition_list_add(list, lane->topic, lane->partition);
    }
    return true;
}

static PyObject *unassign(Consumer *self, PyObject *numbers) {
    for (size_t index = 0; index < self->lanes.count; index++) {
        self->lanes.slots[index].leaving = false;
    }
    rd_kafka_topic_partition_list_t *list = rdkafka.topic_partition_list_new((int)PyList_GET_SIZE(numbers));
    if (!list_leaving(self, numbers, list)) {
        rdkafka.topic_partition_list_destroy(list);
        return NULL;
    }
    PyObject *done = change_assignment(self, list, false);
    for (size_t index = 0; done != NULL && index < self->lanes.count; index++) {
        if (self->lanes.slots[index].leaving) {
            lane_clear(&self->lanes.slots[index]);
        }
    }
    return done;
}

const char consumer_unassign_doc[] =
    "unassign(numbers: list[int])\n\nStops fetching and forgets what was prefetched.";
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
