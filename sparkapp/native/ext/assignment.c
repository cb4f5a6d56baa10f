#include "consumer.h"

Lane *consumer_lane(Consumer *self, int number) {
    if (number < 0 || (size_t)number >= self->lanes.count || self->lanes.slots[number].topic == NULL) {
        PyErr_Format(PyExc_IndexError, "no lane %d", number);
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

static PyObject *assign(Consumer *self, PyObject *positions) {
    PyObject *numbers = PyList_New(0);
    rd_kafka_topic_partition_list_t *list = rdkafka.topic_partition_list_new((int)PyList_GET_SIZE(positions));
    for (Py_ssize_t index = 0; numbers != NULL && index < PyList_GET_SIZE(positions); index++) {
        const char *topic;
        int partition;
        long long start;
        int number = -1;
        if (PyArg_ParseTuple(PyList_GET_ITEM(positions, index), "siL", &topic, &partition, &start)) {
            number = lanes_add(&self->lanes, topic, partition, start);
            if (number < 0) {
                PyErr_NoMemory();
            }
        }
        PyObject *item = number < 0 ? NULL : PyLong_FromLong(number);
        if (item == NULL || PyList_Append(numbers, item) < 0) {
            Py_XDECREF(item);
            Py_CLEAR(numbers);
            break;
        }
        Py_DECREF(item);
        /* Taken from the consumer's queue before anything can come: see RD_KAFKA_Q_F_FWD_APP in librdkafka. */
        Lane *lane = &self->lanes.slots[number];
        lane->queue = rdkafka.queue_get_partition(self->client.rk, topic, partition);
        rdkafka.queue_forward(lane->queue, NULL);
        rdkafka.queue_cb_event_enable(lane->queue, wake_up, &self->lanes.wake);
        rdkafka.topic_partition_list_add(list, topic, partition)->offset = start;
    }
    if (numbers == NULL) {
        rdkafka.topic_partition_list_destroy(list);
        return NULL;
    }
    PyObject *done = change_assignment(self, list, true);
    if (done == NULL) {
        Py_CLEAR(numbers);
    }
    Py_XDECREF(done);
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

static PyObject *unassign(Consumer *self, PyObject *numbers) {
    rd_kafka_topic_partition_list_t *list = rdkafka.topic_partition_list_new((int)PyList_GET_SIZE(numbers));
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(numbers); index++) {
        long number = PyLong_AsLong(PyList_GET_ITEM(numbers, index));
        Lane *lane = number == -1 && PyErr_Occurred() ? NULL : consumer_lane(self, (int)number);
        if (lane == NULL) {
            rdkafka.topic_partition_list_destroy(list);
            return NULL;
        }
        rdkafka.topic_partition_list_add(list, lane->topic, lane->partition);
    }
    for (Py_ssize_t index = 0; index < PyList_GET_SIZE(numbers); index++) {
        lane_clear(&self->lanes.slots[PyLong_AsLong(PyList_GET_ITEM(numbers, index))]);
    }
    return change_assignment(self, list, false);
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
